"""What an agent's actor remembers of sessions between turns, and the logs that agents of a process compile for each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from actors.definitions.spec import AgentSpec
from actors.messages import codec
from actors.messages import protocol as p
from actors.messages.config import DEFAULT_LIMITS
from actors.messages.event import Event, decode_event
from actors.messages.json_types import JsonObject, StateDelta
from actors.messages.session import SessionKey
from actors.rules.eviction import OVERHEAD, CacheEviction
from actors.rules.handover_events import following
from actors.rules.prompt.compiler import Warn
from actors.rules.prompt.history import History, LogLedger
from actors.rules.routing.branches import tool_root

EVENT_OVERHEAD = 500
"""Bytes that a compiled event takes beside what it has on the wire, by measurement."""

MIN_EVENTS = 32
"""A shorter log is compiled by every agent: most sessions have one agent, or few, and are short when these come."""


class SightKey(NamedTuple):
    """What a log is seen from: a branch of a session, and whether as much of it is kept as include_contents="none" shows."""

    session: SessionKey
    branch: str | None
    latest_only: bool


class FirstSight(NamedTuple):
    """The log of a session as agents see it that have not spoken in it.

    Attributes:
        history: the compiled log, which is not changed any more.
        seq: the last event that was taken in.
        size: bytes that its entries have on the wire.
    """

    history: History
    seq: int
    generation: str
    size: int


class FirstSights:
    """The logs that the agents of a process have compiled for each other."""

    def __init__(self, memory: ViewMemory) -> None:
        self._memory = memory
        self._kept: dict[SightKey, FirstSight] = {}

    def find(self, key: SightKey) -> FirstSight | None:
        """The log that an agent may begin with that has not spoken."""
        return self._kept.get(key)

    def keep(self, key: SightKey, seen: FirstSight) -> None:
        """Keep a log for the next agent, if it is long enough, and evict what is not used to make room."""
        if seen.seq < MIN_EVENTS:
            return
        self._kept[key] = seen
        self._memory.use(self, key, seen.size + EVENT_OVERHEAD * len(seen.history), asyncio.get_running_loop().time())

    def drop(self, key: SightKey) -> None:
        """Drop a log."""
        del self._kept[key]


logger = logging.getLogger(__name__)

_state: Callable[[bytes], JsonObject] = codec.decoder(dict).decode

MakeHistory = Callable[[str, str | None, Warn], History]
"""Makes an empty history for an agent on a branch; warnings about the log go to the function given."""


class ViewedState:
    """All scopes of the state by prefixed keys, and in which turn they were read alone.

    Attributes:
        value: the state that was read last.
        seq: all changes up to this place of the log are in it; below 0: the state has to be read again.
    """

    def __init__(self) -> None:
        self.value: JsonObject = {}
        # The turn and its epoch in which the state was read, and the place up to which all changes are in it.
        self._read_in: tuple[str, int] | None = None
        self.seq = 0

    def take(self, turn: p.TurnRef, encoded: bytes, state_seq: int) -> JsonObject:
        """Take in the state, and return it.

        Args:
            state_seq: all changes up to this place of the log are in it.
        """
        self.value = codec.decode(encoded, dict)
        self._read_in = (turn.invocation_id, turn.epoch)
        self.seq = state_seq
        return self.value

    def add_own(self, seq: int, before_seq: int, changed: StateDelta) -> None:
        """Take in an event of the agent's own.

        Args:
            before_seq: the place of the last change before it. If that one is not known here, the state has to be read again.
        """
        if before_seq > self.seq:
            self.seq = -1
        elif changed and seq > self.seq:
            # A run that began before this state was read has another copy.
            self.value.update(changed)
            self.seq = seq

    def forget(self) -> None:
        """A run was stopped, and may have changed the state without hearing that it is stored: the state has to be read again."""
        self._read_in = None

    def is_current(self, turn: p.TurnRef, state_seq: int) -> bool:
        """True if the state was read in this turn, and the last known change, at `state_seq`, is in it.

        A state that was read in another turn may be outdated: other sessions change the user's and the app's state.
        """
        return self._read_in == (turn.invocation_id, turn.epoch) and state_seq <= self.seq


class AgentView:
    """The compiled log of a session up to the event `seq`, and the session's state as it was last read.

    Args:
        make: makes the history of an agent on a branch that the log is compiled to.
        latest_only: the agent sees only the latest contents, so no more is kept between runs.
        sights: what the agents of the process have compiled for each other, and what the view sees its log from; None: it has no
            part in that.

    Attributes:
        seq: the last event taken in.
        generation: of the log, which a rewind changes.
    """

    def __init__(
        self,
        agent: str,
        branch: str | None,
        make: MakeHistory = History,
        *,
        latest_only: bool = False,
        sights: tuple[FirstSights, SightKey] | None = None,
    ) -> None:
        self._agent = agent
        self._branch = branch
        self._make = make
        self._latest_only = latest_only
        self._sights = sights
        self._is_first_reading = False
        self._keeps_all = False
        self._begins_after = 0
        self._size = 0
        self.seq = 0
        self.generation = ""
        self.history = make(agent, branch, logger.warning)
        self.state = ViewedState()

    @property
    def _is_new(self) -> bool:
        return not (self.seq or self.generation)

    def begin_reading(self) -> None:
        """Before the log is fetched after `seq`: an agent that is new to it begins with what another one has compiled."""
        self._is_first_reading = self._is_new
        if not self._is_first_reading or self._sights is None:
            return
        sights, key = self._sights
        if (seen := sights.find(key)) is not None and (
            history := seen.history.for_newcomer(self._agent, logger.warning)
        ) is not None:
            self.history, self.seq, self.generation, self._size = history, seen.seq, seen.generation, seen.size

    def end_reading(self) -> None:
        """After the log was fetched: the next agent that is new to it may begin with it, unless this one has spoken."""
        if self._is_first_reading and self._sights is not None:
            sights, key = self._sights
            if (history := self.history.for_newcomer("")) is not None:
                sights.keep(key, FirstSight(history, self.seq, self.generation, self._size))
        self._is_first_reading = False

    def skip_before(self, stored: p.StoredEvent, generation: str) -> None:
        """Leave out everything before an event."""
        self.seq = self._begins_after = stored.seq - 1
        self.generation = generation

    def begin_again(self) -> None:
        """Forget everything, so that the log is read again, and keep all of it until the run is over."""
        self._clear()
        self.seq = self._begins_after
        self._keeps_all = True

    def end_run(self) -> None:
        """Keep only what the next run will need."""
        self._keeps_all = False
        self._drop_unseen()

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        return self._size + EVENT_OVERHEAD * len(self.history)

    def take_in(self, fetched: p.Fetched) -> None:
        """Take in a page of new events; after a rewind, everything from the log's start."""
        if fetched.generation != self.generation:
            self._clear()
            self.generation = fetched.generation
            self.seq = self._begins_after = 0
        for stored in fetched.events:
            # A run whose turn has ended may have taken in its last event while another run fetched the same one.
            if stored.seq > self.seq:
                self._add(stored)
        if not self._keeps_all:
            # A long log comes in pages: no more than one of them is ever held.
            self._drop_unseen()
        self.state.value = _state(fetched.state)

    def follow(self, message: p.Invoke, user_event: Event | None = None) -> bool:
        """Take in all that a message which is fresh brings of the log, and the state. False when something is missing before it.

        Args:
            user_event: the event of the message, if it was decoded already.
        """
        turn = message.turn
        events: Sequence[p.StoredEvent] | None = (message.user_event,)
        if message.before or message.after or message.user_event.seq != self.seq + 1:
            events = following([*message.before, message.user_event, *message.after], self.seq)
        if events is None or not (self._is_new or self.generation == turn.generation):
            return False
        self.generation = turn.generation
        for stored in events:
            if user_event is not None and stored is message.user_event:
                self._take(user_event, len(stored.raw))
            else:
                self._add(stored)
        self.state.value = _state(message.state)
        return True

    def add_own(self, event: Event, size: int) -> bool:
        """Take in an event of the agent's own, of `size` bytes; False if it is not the next one."""
        if event.seq != self.seq + 1:
            return False
        self._take(event, size)
        return True

    def _add(self, stored: p.StoredEvent) -> None:
        self._take(decode_event(stored.raw, stored.seq), len(stored.raw))

    def _take(self, event: Event, size: int) -> None:
        self.seq = event.seq
        if self.history.add(event):
            self._size += size

    def _drop_unseen(self) -> None:
        if self._latest_only and (entries := len(self.history)):
            self.history.keep_latest()
            # Which of the entries were the large ones is not known.
            self._size = self._size * len(self.history) // entries

    def _clear(self) -> None:
        self.history = self._make(self._agent, self._branch, logger.warning)
        self._size = 0


K = TypeVar("K", bound=Hashable, contravariant=True)

IDLE_S = 600.0
"""What was not used for so long is dropped when something else is used."""

ViewKey = tuple[SessionKey, str | None, type[History] | None]
"""What a view is of: a session, seen from a branch, and what its log is compiled to."""


class MemoryUser(Protocol[K]):
    """What keeps something in a `ViewMemory`."""

    def drop(self, key: K) -> None:
        """Drop what has a key: there is no room for it."""
        ...


class ViewMemory:
    """The memory for what all agents in a process know of sessions: what was used least recently goes first, of any agent.

    Attributes:
        sights: the logs that the agents of the process have compiled for those that come after them.
    """

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.max_cache_bytes) -> None:
        self._eviction: CacheEviction[tuple[Any, Any]] = CacheEviction(max_bytes, IDLE_S)
        self.sights = FirstSights(self)

    @property
    def max_bytes(self) -> int:
        """Of all that they know; it may be changed at any time."""
        return self._eviction.max_bytes

    @max_bytes.setter
    def max_bytes(self, max_bytes: int) -> None:
        self._eviction.max_bytes = max_bytes

    @property
    def weight(self) -> int:
        """About how many bytes it takes."""
        return self._eviction.weight

    def use(self, owner: MemoryUser[K], key: K, weight: int, now_s: float) -> None:
        """Note that something is used now, and drop others to make room."""
        used = (owner, key)
        self._eviction.use(used, weight, now_s)
        for other in self._eviction.surplus(now_s):
            if other == used:
                # A session may be larger than the memory: the latest one stays all the same.
                return
            self._eviction.drop_key(other)
            other[0].drop(other[1])

    def free(self, owner: MemoryUser[K], key: K) -> None:
        """Note that something was given up."""
        self._eviction.drop_key((owner, key))


class SessionViews:
    """A cache of compiled logs. Nothing is lost when one is evicted: it is compiled again from the log.

    Args:
        ledger: makes what a feature folds of each log; None: none does.
    """

    def __init__(self, spec: AgentSpec, memory: ViewMemory, ledger: Callable[[], LogLedger] | None = None) -> None:
        self._spec = spec
        self._ledger = ledger
        self._memory = memory
        self._views: dict[ViewKey, AgentView] = {}

    def __len__(self) -> int:
        return len(self._views)

    @property
    def weight(self) -> int:
        """About how many bytes they take."""
        return sum(view.weight + OVERHEAD for view in self._views.values())

    def of(self, message: p.Invoke, history: type[History] | None = None) -> AgentView:
        """Return the view for a run, an empty one if there is none.

        Args:
            history: what the log is compiled to; None: as the agent sees a conversation.
        """
        key = _key(message, history)
        view = self._views.get(key)
        if view is None:
            compiled: MakeHistory = history or (History if self._ledger is None else self._watched)
            latest_only = history is None and getattr(self._spec.definition, "include_contents", "") == "none"
            sights = None
            if history is None and tool_root(message.branch) is None:
                sights = self._memory.sights, SightKey(message.turn.key, message.branch, latest_only)
            view = AgentView(self._spec.name, message.branch, compiled, latest_only=latest_only, sights=sights)
            self._views[key] = view
            if tool_root(message.branch) is not None:
                # Nothing before the question is seen there, so it need not be read.
                view.skip_before(message.user_event, message.turn.generation)
        return view

    def end_run(self, message: p.Invoke, history: type[History] | None, now_s: float) -> None:
        """Keep what a run has made of its view for the next one, and evict others to make room."""
        key = _key(message, history)
        view = self._views.get(key)
        if view is None:
            return
        if tool_root(message.branch) is not None:
            # Most are used once.
            del self._views[key]
            return
        view.end_run()
        self._memory.use(self, key, view.weight, now_s)

    def drop(self, key: ViewKey) -> None:
        """Drop a view."""
        del self._views[key]

    def _watched(self, agent: str, branch: str | None, warn: Warn) -> History:
        """An empty history, of which the ledger folds each event."""
        history = History(agent, branch, warn)
        assert self._ledger is not None
        history.ledger = self._ledger()
        return history

    def clear(self) -> None:
        """Drop all views, and give their memory back."""
        for key in self._views:
            self._memory.free(self, key)
        self._views.clear()


def _key(message: p.Invoke, history: type[History] | None) -> ViewKey:
    return message.turn.key, message.branch, history
