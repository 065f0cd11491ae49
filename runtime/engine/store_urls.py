"""The stores of a deployment: their default URLs, what they may be, and opening them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final, TypeVar

from actors.errors import DefinitionError, StoreError
from actors.interfaces.stores import ArtifactStore, MemoryStore
from actors.layers.stores.parts import SessionStore
from runtime.settings import Settings
from runtime.stores.owner import StoreOwner, TakesOwner
from runtime.stores.safe_artifacts import SafeArtifactStore

SessionStores = str | SessionStore | list[str | SessionStore] | tuple[str | SessionStore, ...]
"""A session store, or several, each of which has the data of some users."""

MemoryStores = str | MemoryStore | list[str | MemoryStore] | tuple[str | MemoryStore, ...]
"""A memory store, or one beside each session store."""

SessionAndMemory = tuple[str | SessionStore, str | MemoryStore | None]
"""A session store, and the memory of its users; None: they have none."""

StoreT = TypeVar("StoreT", SessionStore, ArtifactStore, MemoryStore)


_POSTGRES = "psycopg"
"""The driver of PostgreSQL, which is an extra."""


class Default(Enum):
    """The type of DEFAULT."""

    DEFAULT = auto()


DEFAULT: Final = Default.DEFAULT
"""Stands for a store that was not named; None stands for no store."""


def resolve_stores(
    app_name: str,
    settings: Settings,
    session_store: SessionStores | Default | None,
    artifact_store: str | ArtifactStore | Default | None,
    memory_store: MemoryStores | Default | None,
) -> tuple[Sequence[SessionAndMemory], str | ArtifactStore]:
    """Put defaults in place of stores that were not named.

    Returns:
        The session stores in their order, each with its memory, and the artifact store: URLs with absolute paths, or the stores
        themselves.

    Raises:
        DefinitionError: there is no session store or no artifact store; one is an object of another class; a store takes too few
            writers for `session_shards`; or there are several session stores and something that goes with one only.
    """
    if isinstance(session_store, list | tuple):
        return _resolve_several(app_name, settings, session_store, artifact_store, memory_store)
    if isinstance(memory_store, list | tuple):
        raise DefinitionError("memory_store is a list, and session_store is none: name one of each, or a list of each")
    if session_store is DEFAULT:
        session_store = default_session_store(app_name, settings)
    if artifact_store is DEFAULT:
        artifact_store = default_artifact_store(settings)
    if session_store is None:
        raise DefinitionError("session service is required")
    if artifact_store is None:
        raise DefinitionError("artifact service is required")
    if memory_store is DEFAULT:
        memory_store = default_memory_store(session_store, app_name, settings)
    _check_class("session_store", session_store, SessionStore)
    _check_class("artifact_store", artifact_store, ArtifactStore)
    _check_class("memory_store", memory_store, MemoryStore)
    check_writers(settings, session_store, memory_store)
    memory = None if memory_store is None else _absolute(memory_store)
    return [(_absolute(session_store), memory)], _absolute(artifact_store)


def _resolve_several(
    app_name: str,
    settings: Settings,
    session_stores: Sequence[str | SessionStore],
    artifact_store: str | ArtifactStore | Default | None,
    memory_store: MemoryStores | Default | None,
) -> tuple[Sequence[SessionAndMemory], str | ArtifactStore]:
    memories: Sequence[str | MemoryStore] | None = None
    if isinstance(memory_store, list | tuple):
        memories = memory_store
    elif memory_store is not None and memory_store is not DEFAULT:
        memories = [memory_store]
    check_several(session_stores, memories, settings)
    whole = [
        resolve_stores(app_name, settings, store, artifact_store, memories[place] if memories is not None else memory_store)
        for place, store in enumerate(session_stores)
    ]
    return [store for stores, _ in whole for store in stores], whole[0][1]


def default_session_store(app_name: str, settings: Settings) -> str:
    """The URL of a SQLite file in the data folder, one for each app."""
    return f"sqlite:///{settings.data_dir.absolute() / app_name}.db"


def default_artifact_store(settings: Settings) -> str:
    """The URL of a folder in the data folder, for all apps."""
    return f"file://{settings.data_dir.absolute() / 'artifacts'}"


def default_memory_store(session_store: str | SessionStore, app_name: str, settings: Settings) -> str:
    """The URL of memory beside the session store, or beside the default session store when that was given as an object."""
    from runtime.stores.memory import url_beside

    return url_beside(session_store if isinstance(session_store, str) else default_session_store(app_name, settings))


def check_writers(settings: Settings, session_store: str | SessionStore, memory_store: str | MemoryStore | None) -> None:
    """Check that the stores take as many writers as there will be Session actors. Raises DefinitionError."""
    if settings.session_shards == 1:
        return
    for what, store in (("session_store", session_store), ("memory_store", memory_store)):
        if store is not None and not _takes_many_writers(store):
            raise DefinitionError(
                f"session_shards={settings.session_shards} (RAYGROVE_SESSION_SHARDS) needs a {what} that takes several writers, "
                f"and {_shown(store)} takes one: use PostgreSQL, postgresql://user:password@host/database, or session_shards=1"
            )


def check_artifact_folder(store: str | ArtifactStore) -> None:
    """Check that a folder of artifacts is one, or can be made together with the one that it is in. Other stores pass.

    Raises:
        StoreError: it is a file or in one, or its path leads nowhere.
    """
    if not isinstance(store, str):
        return
    path = Path(store.removeprefix("file://"))
    if "://" in str(path):
        return
    there = next((each for each in (path, *path.parents) if each.exists()), None)
    if there is not None and not there.is_dir():
        raise StoreError(f"artifact store {store!r} cannot be used: {str(there)!r} is a file, name a folder")
    if there not in (path, path.parent, path.parent.parent):
        raise StoreError(
            f"artifact store {store!r} cannot be used: there is no folder {str(path.parent.parent)!r}: correct the path, "
            "or make the folder"
        )


def _check_class(what: str, store: object, base: type) -> None:
    """Check that a store of one's own inherits from its base class. Raises DefinitionError."""
    if store is not None and not isinstance(store, str | base):
        raise DefinitionError(
            f"{what} is a {type(store).__name__}, which is no {base.__name__}: inherit from {base.__module__}.{base.__name__}"
        )


def _takes_many_writers(store: str | SessionStore | MemoryStore) -> bool:
    return not store.startswith("sqlite") if isinstance(store, str) else store.takes_many_writers


def _shown(store: str | SessionStore | MemoryStore) -> str:
    return repr(store) if isinstance(store, str) else f"a {type(store).__name__} without takes_many_writers = True"


def _absolute(store: str | StoreT) -> str | StoreT:
    """A store, its URL such that it means the same in a process with another working directory."""
    if not isinstance(store, str):
        return store
    for scheme in ("sqlite:///", "file://"):
        path = store.removeprefix(scheme)
        if store.startswith(scheme) and path and not path.startswith((":memory:", "file:")):
            return f"{scheme}{Path(path).absolute()}"
    return store


def open_session_store(store: str | SessionStore, settings: Settings, owner: StoreOwner | None = None) -> SessionStore:
    """Open the session store of a URL; a store itself is returned as it is.

    Args:
        owner: the deployment that opens it, and owns it with its first claim; None: one that only looks into it.
    """
    if isinstance(store, str):
        # Imported here: every agent's process loads this module but needs no database, which takes 0.1 s to load.
        from runtime.stores.sql.sessions import SqlSessionStore

        shared = settings.max_state_bytes if settings.session_shards > 1 else None
        store = SqlSessionStore(store, _lock_timeout_s(settings), shared)
    if isinstance(store, TakesOwner):
        store.owner = owner
    return store


def slow_imports_of(stores: Sequence[SessionAndMemory]) -> tuple[str, ...]:
    """Modules that the Session actors of some stores import when they open them, and no other process does."""
    urls = [store for of_users in stores for store in of_users if isinstance(store, str)]
    return (_POSTGRES,) if any(url.startswith("postgresql") for url in urls) else ()


def is_seen_by_all_nodes(store: str | SessionStore) -> bool:
    """Whether each node of a cluster certainly opens the same store: a file, and what a program brings itself, may be of one."""
    return isinstance(store, str) and not store.startswith("sqlite")


def shown_session_store(url: str) -> str:
    """The name of a session store in messages, without a password. Raises StoreError for a URL of no known kind."""
    return str(open_session_store(_absolute(url), Settings()))


def open_artifact_store(store: str | ArtifactStore) -> SafeArtifactStore:
    """Open the artifact store of a URL, or wrap a store itself, such that its failures are raised as ArtifactError."""
    if isinstance(store, str):
        from runtime.stores.artifacts import FsspecArtifactStore

        store = FsspecArtifactStore(store)
    return SafeArtifactStore(store)


def open_memory_store(store: str | MemoryStore | None, settings: Settings) -> MemoryStore | None:
    """Open the memory store of a URL; a store itself, and None, are returned as they are."""
    if isinstance(store, str):
        from runtime.stores.memory import SqlMemoryStore

        return SqlMemoryStore(store, _lock_timeout_s(settings))
    return store


def _lock_timeout_s(settings: Settings) -> float:
    # The store's caller retries; in between, other requests can use the store's thread.
    return min(1.0, settings.store_timeout_s / 2)


def check_several(
    session_stores: Sequence[str | SessionStore], memory_stores: Sequence[str | MemoryStore] | None, settings: Settings
) -> None:
    """Check what is named as the stores of a deployment.

    Args:
        memory_stores: None: none is named.

    Raises:
        DefinitionError: there is no store; one is named twice; there are more or fewer memory stores; or the deployment has what
            goes with one store only.
    """
    if not session_stores:
        raise DefinitionError("session_store is an empty list: name one store, or several")
    number = len(session_stores)
    if memory_stores is not None and len(memory_stores) != number:
        raise DefinitionError(f"session_store names {number} stores, and memory_store {len(memory_stores)}: name one beside each")
    for what, named in (("session_store", session_stores), ("memory_store", memory_stores or ())):
        for place, store in enumerate(named):
            if any(store == other for other in named[:place]):
                raise DefinitionError(f"{what} names {store!r} twice: each store has the data of other users")
    if number > 1 and settings.daily_budget is not None:
        raise DefinitionError(
            f"daily_budget (RAYGROVE_DAILY_BUDGET) goes with one session store, and {number} are named: each knows only what its "
            "own users have used"
        )
