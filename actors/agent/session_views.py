"""What an agent's actor remembers of the sessions that it has run in."""

from __future__ import annotations

import asyncio

from actors.agent.session_view import SessionView
from actors.definitions.tree.spec import AgentSpec
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.rules.capacity.eviction import CacheEviction
from actors.rules.prompt.branches import tool_root
from actors.rules.prompt.history import History
from actors.rules.prompt.task_history import TaskHistory

IDLE_S = 600.0
"""A view that was not used for so long is evicted when another one is used."""

TOOL_SHARE = 16
"""One part in so many of the cache is for views of tool branches: most of these are used once."""

ViewKey = tuple[SessionKey, str | None, bool]
"""What a view is of: a session, seen from a branch, for work on tasks or not."""


class SessionViews:
    """A cache of compiled logs. Nothing is lost when one is evicted: it is compiled again from the log.

    Args:
        spec: the agent that sees the sessions.
    """

    def __init__(self, spec: AgentSpec) -> None:
        self._spec = spec
        self._views: dict[ViewKey, SessionView] = {}
        max_bytes = spec.limits.max_cache_bytes
        self._of_turns: CacheEviction[ViewKey] = CacheEviction(max_bytes, IDLE_S)
        self._of_tools: CacheEviction[ViewKey] = CacheEviction(max_bytes // TOOL_SHARE, IDLE_S)

    def __len__(self) -> int:
        return len(self._views)

    @property
    def weight(self) -> int:
        """About how many bytes they take."""
        return self._of_turns.weight + self._of_tools.weight

    def of(self, message: p.Invoke) -> SessionView:
        """Return the view for a run, an empty one if there is none."""
        key = _key(message)
        view = self._views.get(key)
        if view is None:
            compiled = History if message.work is None else TaskHistory
            latest_only = message.work is None and getattr(self._spec.definition, "include_contents", "") == "none"
            view = self._views[key] = SessionView(self._spec.name, message.branch, compiled, latest_only=latest_only)
            if tool_root(message.branch) is not None:
                # Nothing before the question is seen there, so it need not be read.
                view.skip_before(message.user_event, message.generation)
        return view

    def end_run(self, message: p.Invoke) -> None:
        """Keep what a run has made of its view for the next one, and evict others to make room."""
        key = _key(message)
        view = self._views.get(key)
        if view is None:
            return
        view.end_run()
        cache = self._of_turns if tool_root(message.branch) is None else self._of_tools
        now_s = asyncio.get_running_loop().time()
        cache.use(key, view.weight, now_s)
        for other in cache.surplus(now_s):
            if other == key:
                # A session may be larger than the cache: the latest one stays all the same.
                return
            cache.drop(other)
            del self._views[other]


def _key(message: p.Invoke) -> ViewKey:
    return message.turn.key, message.branch, message.work is not None
