"""A Session actor that another one has replaced, as after the loss of its node, ends its process, and no turn is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from actors import LlmAgent
from actors.testing import PatternModel
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.runtimes import Deploy, author_texts, run_turn, stored

pytestmark = pytest.mark.usefixtures("local_ray")


def test_its_process_ends_and_what_it_was_asked_is_done_by_the_one_in_its_place(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="here I am"))) as rt:
        run_turn(rt, "one")
        before = rt.statistics().session.pid
        file = next(tmp_path.glob("**/*.db"))
        with closing(sqlite3.connect(file)) as connection:
            ((writer,),) = connection.execute("SELECT writer FROM raygrove_writers").fetchall()
        # As the heir does that Ray starts on another node.
        heir = SqlSessionStore(f"sqlite:///{file}")
        heir.open()
        heir.claim(writer)
        heir.close()
        run_turn(rt, "two")
        assert rt.statistics().session.pid != before
        assert author_texts(stored(rt)) == [
            *(("user", "one"), ("root", "here I am")),
            *(("user", "two"), ("root", "here I am")),
        ]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT * FROM raygrove_writers").fetchall() == []
