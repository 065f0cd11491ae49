"""The stores of a deployment: defaults, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.errors import DefinitionError
from actors.interfaces.stores import ArtifactStore, MemoryStore
from actors.layers.stores.parts import SessionStore
from runtime.engine.store_urls import DEFAULT, resolve_stores
from runtime.settings import Settings
from tests.support.stores.plain_session_store import PlainStore


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def test_stores_that_are_not_named_lie_in_the_data_folder(settings: Settings, tmp_path: Path) -> None:
    assert resolve_stores("desk", settings, DEFAULT, DEFAULT, DEFAULT) == (
        [(f"sqlite:///{tmp_path}/desk.db", f"sqlite:///{tmp_path}/desk.memory.db")],
        f"file://{tmp_path}/artifacts",
    )


def test_memory_lies_beside_the_session_store_unless_there_is_none(settings: Settings, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/other/chats.db"
    store = PlainStore()
    cases: list[tuple[Any, Any, str | None]] = [
        (url, DEFAULT, f"sqlite:///{tmp_path}/other/chats.memory.db"),
        (store, DEFAULT, f"sqlite:///{tmp_path}/desk.memory.db"),
        (url, None, None),
    ]
    for session, memory, resolved in cases:
        stores, _ = resolve_stores("desk", settings, session, DEFAULT, memory)
        assert stores == [(session, resolved)]


def test_paths_become_absolute_and_other_urls_and_stores_stay_as_they_are(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = resolve_stores("desk", settings, "sqlite:///chats.db", "file://files", "sqlite:///:memory:")
    assert stores == ([(f"sqlite:///{tmp_path}/chats.db", "sqlite:///:memory:")], f"file://{tmp_path}/files")
    store = PlainStore()
    assert resolve_stores("desk", settings, store, "s3://bucket/files", None) == ([(store, None)], "s3://bucket/files")


def test_a_deployment_without_sessions_or_artifacts_is_refused(settings: Settings) -> None:
    with pytest.raises(DefinitionError, match="session service is required"):
        resolve_stores("desk", settings, None, DEFAULT, DEFAULT)
    with pytest.raises(DefinitionError, match="artifact service is required"):
        resolve_stores("desk", settings, DEFAULT, None, DEFAULT)


@pytest.mark.parametrize(
    ("name", "base"), [("session_store", SessionStore), ("artifact_store", ArtifactStore), ("memory_store", MemoryStore)]
)
def test_a_store_that_does_not_inherit_from_its_base_class_is_refused(settings: Settings, name: str, base: type) -> None:
    given: dict[str, Any] = {"session_store": DEFAULT, "artifact_store": DEFAULT, "memory_store": DEFAULT, name: object()}
    with pytest.raises(DefinitionError, match=rf"{name} is a object, .* inherit from {base.__module__}\.{base.__name__}"):
        resolve_stores("desk", settings, **given)


def test_stores_that_take_one_writer_are_refused_for_several_session_actors(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, session_shards=2)
    with pytest.raises(DefinitionError, match="needs a session_store that takes several writers"):
        resolve_stores("desk", settings, DEFAULT, DEFAULT, None)
    with pytest.raises(DefinitionError, match="needs a memory_store that takes several writers"):
        resolve_stores("desk", settings, "postgresql://db/desk", DEFAULT, "sqlite:///memory.db")
