"""A store that another version of raygrove has made is refused with what to do, and left as it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from actors.errors import SchemaVersionError
from actors.layers.trees.version import UNKNOWN_RELEASE
from runtime.stores.sql import schema
from runtime.stores.sql.sessions import SqlSessionStore


@pytest.mark.parametrize("has_program", [True, False])
def test_a_newer_store_is_refused_with_what_has_made_it_and_left_as_it_is(tmp_path: Path, has_program: bool) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        more = ", program TEXT" if has_program else ", made_by TEXT"
        connection.execute(f"CREATE TABLE raygrove_schema (version INTEGER PRIMARY KEY{more})")
        connection.execute("INSERT INTO raygrove_schema VALUES (99, '7.1')")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError) as caught:
        SqlSessionStore(f"sqlite:///{path}").open()
    assert caught.value.args == (99, schema.VERSION, "7.1" if has_program else UNKNOWN_RELEASE)
    assert path.read_bytes() == before
