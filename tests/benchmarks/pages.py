"""What a page of the sessions of an app costs that has a hundred thousand."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore
from tests.benchmarks.figures import Figure, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, conversation, history, instant_agent, runtime, store_url
from tests.support.machine.process_use import cpu_s

NAME = "pages"
PAGE = 100
"""Sessions of a page, as the HTTP service has it by default."""

_EACH = 5
"""Sessions of a user."""
_COMMIT = 1_000
_EVENTS = 2


def measure(plan: Plan) -> list[Figure]:
    """The first pages of all sessions, the page in their middle, and a page of one user. CPU is that of both processes."""
    with TemporaryDirectory() as folder:
        keys = _write(Path(folder), plan.listed)
        with runtime(plan, instant_agent(), Path(folder)) as rt:
            middle = rt.sessions.get(keys[len(keys) // 2].user, keys[len(keys) // 2].session, num_recent_events=0)
            pids = {os.getpid(), rt.statistics().session.pid}
            rt.sessions.list(limit=PAGE)
            before_s = sum(map(cpu_s, pids))
            first_ms = [timed_ms(lambda: rt.sessions.list(limit=PAGE)) for _ in range(plan.pages)]
            each_ms = (sum(map(cpu_s, pids)) - before_s) * 1_000 / plan.pages
            middle_ms = [timed_ms(lambda: rt.sessions.list(limit=PAGE, before=middle)) for _ in range(plan.pages)]
            user_ms = [timed_ms(lambda: rt.sessions.list(keys[0].user, limit=PAGE)) for _ in range(plan.pages)]
    told = f"a page of {plan.listed:,} sessions"
    return [
        Figure(f"{told}: the first, median", median(first_ms), "ms"),
        Figure(f"{told}: CPU of the first", each_ms, "ms"),
        Figure(f"{told}: in the middle, median", median(middle_ms), "ms"),
        Figure(f"{told}: of a user, median", median(user_ms), "ms"),
    ]


def _write(folder: Path, count: int) -> list[SessionKey]:
    keys = [SessionKey(APP, f"user-{number // _EACH}", f"session-{number}") for number in range(count)]
    store = SqlSessionStore(store_url(folder))
    store.open()
    try:
        for first in range(0, count, _COMMIT):
            some = keys[first : first + _COMMIT]
            store.commit([write for key in some for write in history(key, conversation(_EVENTS))])
    finally:
        store.close()
    return keys
