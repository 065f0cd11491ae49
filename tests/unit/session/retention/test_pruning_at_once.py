"""Several that prune at once: a session begins anew when all that were told of it have deleted its artifacts, or are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from actors.layers.retention.messages import PruneSessions
from actors.messages import protocol as p
from actors.messages.session import SessionKey
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, OTHER, SessionFixture
from tests.support.inside import HOLD_S

APP = KEY.app

LATER = 1e12
"""Before which everything was written."""


def asked(before_s: float, *done: SessionKey, pruner: str) -> PruneSessions:
    return PruneSessions(app=APP, before_s=before_s, done=done, pruner=pruner)


async def test_of_two_that_prune_at_once_the_slower_one_deletes_no_artifact_of_a_session_begun_anew(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    for pruner in ("one", "two"):
        assert [each.key for each in (await desk.ref.ask(asked(LATER, pruner=pruner))).removed] == [KEY]
    opening = asyncio.create_task(desk.ask_to_open("e-2"))
    of_one = await desk.ref.ask(asked(LATER, KEY, pruner="one"))
    assert (of_one.removed, of_one.is_last) == ([], True)
    await desk.turn("e-1", "hello", key=OTHER)
    assert not opening.done(), "the other one may still be deleting"
    assert (await desk.ref.ask(asked(-1.0, KEY, pruner="two"))).removed == []
    assert isinstance(await opening, p.TurnBegun)
    assert desk.store.removals(APP, None) == []


async def test_of_two_that_prune_at_once_one_asks_while_the_other_has_just_removed_a_session(
    desk: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.open()
    await desk.close()
    is_on_disk, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow_write(write: Callable[..., Any], *given: Any) -> None:
        await write(*given)
        is_on_disk.set()
        await may_go_on.wait()

    inside.around(monkeypatch, "commit a change of a log", slow_write)
    removing = asyncio.create_task(desk.ref.ask(asked(LATER, pruner="one")))
    await is_on_disk.wait()
    assert (await desk.ref.ask(asked(LATER, pruner="two"))).removed == []
    may_go_on.set()
    assert [each.key for each in (await removing).removed] == [KEY]


async def test_of_two_that_prune_at_once_one_is_lost_and_the_session_begins_anew_after_a_while(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    for pruner in ("one", "two"):
        await desk.ref.ask(asked(LATER, pruner=pruner))
    await desk.ref.ask(asked(LATER, KEY, pruner="one"))
    assert [each.key for each in desk.store.removals(APP, None)] == [KEY]
    desk.clock.now_s = HOLD_S
    await desk.open("e-2")
    assert (await desk.ref.ask(asked(-1.0, pruner="three"))).removed == []
    assert desk.store.removals(APP, None) == []
    assert desk.positions() == [1]


async def test_of_two_that_prune_at_once_one_fails_and_the_other_one_ends_it(desk: SessionFixture) -> None:
    await desk.turn("e-1", "hello")
    for pruner in ("one", "two"):
        await desk.ref.ask(asked(LATER, pruner=pruner))
    await desk.ref.ask(asked(LATER, KEY, pruner="one"))
    opening = asyncio.create_task(desk.ask_to_open("e-2"))
    await desk.ref.ask(msgspec.structs.replace(asked(LATER, pruner="two"), is_given_up=True))
    assert isinstance(await opening, p.TurnBegun)
    assert desk.store.removals(APP, None) == []
