"""Errors of the session, artifact and memory stores."""

from __future__ import annotations

from actors.errors.base import RaygroveError


class StoreError(RaygroveError):
    """A store did not do what was asked. Arguments: the message."""


class StoreUnavailableError(StoreError):
    """The store is away, locked or full, and may be usable later. Arguments: store, the store's message."""

    sentence = "{0} is not available: {1}"


class StoreConflictError(StoreError):
    """Another deployment wrote to the session. Arguments: session, reason."""

    sentence = "session {0!r} was changed in the store by somebody else ({1}): only one deployment may serve it"


class StoreRevertedError(StoreError):
    """The store has gone back to an older copy of itself, and has not what a writer had committed. Arguments: the writer."""

    sentence = (
        "the store has gone back to an older copy of itself, as after a fail-over to a replica that lags: what {0!r} has stored "
        "last is gone"
    )


class EventsLostError(StoreError):
    """What was stored of a session is gone, with an older copy of the store in place. Arguments: session, what is gone."""

    sentence = (
        "session {0!r} has lost {1}: the store has gone back to an older copy of itself, as after a fail-over to a replica that "
        "lags. The session goes on from what the store has: send again what is missing"
    )


class StoreInUseError(StoreError):
    """A deployment of the app that lives owns the store. Arguments: app, store, where the deployment is, what to do."""

    sentence = "app {0!r} runs already {2}, and owns {1}: {3}"


class UserElsewhereError(StoreError):
    """A request came to a store in which the user is not; it goes to the other one by itself. Arguments: user, its number."""

    sentence = "user {0!r} is kept in store {1} of this deployment, counted from 0"

    @property
    def store(self) -> int:
        """The number of the store in which the user is, from 0."""
        return int(self.args[1])


class UserArrivingError(StoreError):
    """A request came to a store to which its user is being moved. Arguments: user, numbers of the store before and this one."""

    sentence = "user {0!r} is on the way from store {1} of this deployment to store {2}, counted from 0"

    @property
    def store(self) -> int:
        """The number of the store that keeps the parts, from 0."""
        return int(self.args[2])


class WriterReplacedError(StoreError):
    """A process wrote to the store although another one had taken its place. Arguments: the writer."""

    sentence = "another process has taken the place of {0!r} in the store: this one may not write any more"


class SchemaVersionError(StoreError):
    """The store's tables are too new. Arguments: schema version found, newest one known, the raygrove that made them."""

    sentence = "the store has version {0}, made by raygrove {2}, this program knows up to {1}: upgrade it, or use another store"


class ArtifactError(StoreError):
    """An artifact could not be saved or loaded. Arguments: filename, reason."""

    sentence = "artifact {0!r}: {1}"


class NoMemoryError(StoreError):
    """The app has no memory store. Arguments: app."""

    sentence = "app {0!r} has no memory: give Runtime a memory_store, or leave it out to have the default one"
