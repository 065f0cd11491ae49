"""What a Session actor works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from actors.interfaces.stores import MemoryStore, SessionStore
from actors.interfaces.versions import VersionSource
from actors.messages.event import now_s
from actors.messages.limits import DEFAULT_LIMITS, Limits
from actors.messages.operating.usage import Price
from actors.messages.operating.versions import NO_VERSIONS, TreeVersion, VersionRecord
from actors.messages.topology import Topology


@dataclass(frozen=True)
class SessionEnvironment:
    """The stores, the parent map and the limits of a Session actor.

    Attributes:
        store: where logs last.
        topology: the parent map of the tree with which the deployment was started.
        memory: where memory lasts; None: the app has none.
        store_timeout_s: how long either store may be away before requests that need it fail with StoreUnavailableError.
        limits: sizes that the actor admits, and the room that it has.
        clock: seconds that only go forward; None: those of the event loop.
        writer: its place in the store, which the process takes that is started in its place; "": none will be.
        keep_calls_s: how long recorded model calls are kept, in seconds; None: as long as their session.
        on_replaced: called when another process has taken that place; None: the writes just fail.
        prices: of models' tokens, by their names or patterns.
        version: the name of that tree.
        versions: which versions it has now.
        kept_versions: these.
        version_source: where those are that it gets later; None: it gets none.
        now_s: the time by which schedules go, in seconds since the epoch.
    """

    store: SessionStore
    topology: Topology
    memory: MemoryStore | None = None
    store_timeout_s: float = 30.0
    limits: Limits = DEFAULT_LIMITS
    clock: Callable[[], float] | None = None
    writer: str = ""
    keep_calls_s: float | None = None
    on_replaced: Callable[[], None] | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    version: str = ""
    versions: VersionRecord = NO_VERSIONS
    kept_versions: Sequence[TreeVersion] = ()
    version_source: VersionSource | None = None
    now_s: Callable[[], float] = now_s
