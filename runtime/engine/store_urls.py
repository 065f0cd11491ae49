"""Store URLs: the defaults, what they may be, and opening them."""

from __future__ import annotations

from pathlib import Path

from actors.errors import DefinitionError
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from runtime.settings import Settings
from runtime.stores.safe_artifacts import SafeArtifactStore


def default_session_store(app_name: str, settings: Settings) -> str:
    """SQLite in the data folder, one file an app."""
    return f"sqlite:///{settings.data_dir.absolute() / app_name}.db"


def default_artifact_store(settings: Settings) -> str:
    """Files in the data folder."""
    return f"file://{settings.data_dir.absolute() / 'artifacts'}"


def default_memory_store(session_store: str | SessionStore, app_name: str, settings: Settings) -> str:
    """Beside the session store; when that tells no URL, where it would be by default."""
    from runtime.stores.memory import url_beside

    return url_beside(session_store if isinstance(session_store, str) else default_session_store(app_name, settings))


def check_writers(settings: Settings, session_store: str | SessionStore, memory_store: str | MemoryStore | None) -> None:
    """See that the stores take as many writers as there will be Session actors. Raises DefinitionError."""
    if settings.session_shards == 1:
        return
    for what, store in (("session_store", session_store), ("memory_store", memory_store)):
        if store is not None and not _takes_many_writers(store):
            raise DefinitionError(
                f"session_shards={settings.session_shards} (RAYGROVE_SESSION_SHARDS) needs a {what} that takes several writers, "
                f"and {_shown(store)} takes one: use PostgreSQL, postgresql://user:password@host/database, or session_shards=1"
            )


def _takes_many_writers(store: str | SessionStore | MemoryStore) -> bool:
    return not store.startswith("sqlite") if isinstance(store, str) else bool(getattr(store, "takes_many_writers", False))


def _shown(store: str | SessionStore | MemoryStore) -> str:
    return repr(store) if isinstance(store, str) else f"a {type(store).__name__} without takes_many_writers = True"


def absolute(url: str) -> str:
    """A store's URL that means the same in a process with another working directory."""
    for scheme in ("sqlite:///", "file://"):
        path = url.removeprefix(scheme)
        if url.startswith(scheme) and path and not path.startswith((":memory:", "file:")):
            return f"{scheme}{Path(path).absolute()}"
    return url


def open_session_store(store: str | SessionStore, settings: Settings) -> SessionStore:
    """The session store of a URL, or the store itself."""
    if isinstance(store, str):
        # Here and not above: every agent's process loads this module, and needs no database, which takes 0.1 s to load.
        from runtime.stores.sql.sessions import SqlSessionStore

        return SqlSessionStore(store, _lock_timeout_s(settings))
    return store


def open_artifact_store(store: str | ArtifactStore) -> ArtifactStore:
    """The artifact store of a URL, or the store itself; its failures are told as ArtifactError."""
    if isinstance(store, str):
        from runtime.stores.artifacts import FsspecArtifactStore

        store = FsspecArtifactStore(store)
    return SafeArtifactStore(store)


def open_memory_store(store: str | MemoryStore | None, settings: Settings) -> MemoryStore | None:
    """The memory store of a URL, or the store itself."""
    if isinstance(store, str):
        from runtime.stores.memory import SqlMemoryStore

        return SqlMemoryStore(store, _lock_timeout_s(settings))
    return store


def _lock_timeout_s(settings: Settings) -> float:
    # Who uses the store asks again; meanwhile others have their turn in its thread.
    return min(1.0, settings.store_timeout_s / 2)
