"""A session store of one's own that overrides only what it must: turns run, and what it lacks is said by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from actors import LlmAgent
from actors.errors import StoreError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.runtimes import Deploy, run_turn
from tests.support.stores.plain_session_store import PlainStore


def desk() -> LlmAgent:
    return LlmAgent(name="desk", model=PatternModel([], default="hello"))


LACKS: list[tuple[Callable[[Runtime], Any], str]] = [
    (lambda rt: rt.sessions.archive(timedelta(days=1)), "has no archive: it has no method 'long_sessions'"),
    (lambda rt: rt.schedules.create("s", user_id="a", message="m", every=60), "keeps no schedules: it has no method 'schedule'"),
    (lambda rt: rt.batches.list(), "keeps no batches: it has no method 'batches'"),
    (lambda rt: rt.usage(), "reports no usage: it has no method 'usage'"),
]


def test_it_says_what_it_lacks_and_all_else_works(local: Deploy) -> None:
    with local(desk(), session_store=PlainStore(), settings=Settings(record_requests="on")) as rt:
        for call, why in LACKS:
            with pytest.raises(StoreError, match=f"PlainStore {why}"):
                call(rt)
        run_turn(rt, "hi")
        assert [result.text for result in rt.map(["a", "b"])] == ["hello", "hello"]
        (turn,) = rt.turns.list("ada", "s1")
        assert rt.turns.requests("ada", "s1", turn.invocation_id) == []
        assert [version.state for version in rt.versions()] == ["current"]
        assert rt.schedules.list() == []
        assert rt.users.delete("ada").sessions == 1


def test_it_is_not_one_of_several(local: Deploy) -> None:
    with pytest.raises(StoreError, match="PlainStore cannot be one of several stores: it has no method 'users'"):
        local(desk(), session_store=[PlainStore(), PlainStore()], memory_store=None).start()
