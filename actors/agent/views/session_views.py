"""What an agent's actor remembers of the sessions that it has run in, within the memory that the agents of a process share."""

from __future__ import annotations

from collections.abc import Callable

from actors.agent.views.first_sights import FirstSights, SightKey
from actors.agent.views.session_view import AgentView, MakeHistory
from actors.definitions.tree.spec import AgentSpec
from actors.messages import protocol as p
from actors.messages.limits import DEFAULT_LIMITS
from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import OVERHEAD, CacheEviction
from actors.rules.prompt.compiler import Warn
from actors.rules.prompt.history import History, LogLedger
from actors.rules.routing.branches import tool_root

IDLE_S = 600.0
"""A view that was not used for so long is evicted when another one is used."""

TOOL_SHARE = 16
"""One part in so many of the cache is for views of tool branches: most of these are used once."""

SIGHT_SHARE = 5
"""One part in so many is for logs that agents have compiled for each other."""

ViewKey = tuple[SessionKey, str | None, type[History] | None]
"""What a view is of: a session, seen from a branch, and what its log is compiled to."""


class ViewMemory:
    """The memory for the views of all agents in a process: the view that was used least recently goes first, whose it may be.

    Args:
        max_bytes: of all that they know of sessions.

    Attributes:
        sights: the logs that the agents of the process have compiled for those that come after them.
    """

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.max_cache_bytes) -> None:
        self._of_turns: CacheEviction[tuple[SessionViews, ViewKey]] = CacheEviction(0, IDLE_S)
        self._of_tools: CacheEviction[tuple[SessionViews, ViewKey]] = CacheEviction(0, IDLE_S)
        self.sights = FirstSights(0)
        self.max_bytes = max_bytes

    @property
    def max_bytes(self) -> int:
        """Of all that the agents know of sessions."""
        return self._max_bytes

    @max_bytes.setter
    def max_bytes(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._of_tools.max_bytes = max_bytes // TOOL_SHARE
        self.sights.cache.max_bytes = max_bytes // SIGHT_SHARE
        self._of_turns.max_bytes = max_bytes - self._of_tools.max_bytes - self.sights.cache.max_bytes

    @property
    def weight(self) -> int:
        """About how many bytes they take."""
        return self._of_turns.weight + self._of_tools.weight + self.sights.cache.weight

    def use(self, owner: SessionViews, key: ViewKey, weight: int, now_s: float) -> None:
        """Note that an agent has used a view, and evict others to make room."""
        cache, used = self._cache(key), (owner, key)
        cache.use(used, weight, now_s)
        if not cache.is_due(now_s):
            return
        for other in cache.surplus(now_s):
            if other == used:
                # A session may be larger than the cache: the latest one stays all the same.
                return
            cache.drop_key(other)
            other[0].drop_view(other[1])

    def drop_view(self, owner: SessionViews, key: ViewKey) -> None:
        """Note that an agent has given up a view."""
        self._cache(key).drop_key((owner, key))

    def _cache(self, key: ViewKey) -> CacheEviction[tuple[SessionViews, ViewKey]]:
        branch = key[1]
        return self._of_turns if branch is None or tool_root(branch) is None else self._of_tools


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
        self._weights: dict[ViewKey, int] = {}

    def __len__(self) -> int:
        return len(self._views)

    @property
    def weight(self) -> int:
        """About how many bytes they take."""
        return sum(self._weights.values())

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
        view.end_run()
        weight = view.weight
        self._weights[key] = weight + OVERHEAD
        self._memory.use(self, key, weight, now_s)

    def drop_view(self, key: ViewKey) -> None:
        """Drop a view."""
        del self._views[key], self._weights[key]

    def _watched(self, agent: str, branch: str | None, warn: Warn) -> History:
        """An empty history, of which the ledger folds each event."""
        history = History(agent, branch, warn)
        assert self._ledger is not None
        history.ledger = self._ledger()
        return history

    def clear(self) -> None:
        """Drop all views, and give their memory back."""
        for key in self._weights:
            self._memory.drop_view(self, key)
        self._views.clear()
        self._weights.clear()


def _key(message: p.Invoke, history: type[History] | None) -> ViewKey:
    return message.turn.key, message.branch, history
