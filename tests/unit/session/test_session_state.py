"""State, rewinding and deletion, as the Session actor keeps them (semantics.md sections 2 and 6)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from actors.errors import InvalidIdError, TooLargeError
from actors.layers.forks import ForkSession
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import Limits
from actors.messages.event import decode_event
from actors.messages.session import SessionKey, SessionPlace
from actors.rules.checks import state as scopes
from tests.support import inside
from tests.support.fixtures.session_fixture import KEY, SessionFixture, state_of


async def rewind(session: SessionFixture, turn: str, key: SessionKey = KEY) -> None:
    await session.ref.ask(RewindRequest(key=key, invocation_id=turn))


async def test_the_sessions_of_many_users_are_listed_with_two_reads(
    session: SessionFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [SessionKey("app", f"u{number}", "s") for number in range(30)]
    for number, key in enumerate(keys):
        await session.turn("e-1", "x", key=key, state={"a": number, "user:u": number, "app:x": number})
    again = await session.restarted()
    # One of them is in memory, with a state that is there only.
    await again.open("e-2", key=keys[3], state_delta={"user:u": "new"})
    hops = inside.asked_of_store(monkeypatch)
    listed = (await again.ref.ask(p.ListSessionsRequest(app="app"))).sessions
    assert len(hops) == 2
    expected: dict[str, dict[str, Any]] = {
        key.user: {"a": number, "user:u": number, "app:x": 29} for number, key in enumerate(keys)
    }
    expected["u3"]["user:u"] = "new"
    assert {info.key.user: info.state for info in listed} == expected
    place = SessionPlace(listed[3].updated_s, listed[3].key.user, listed[3].key.session)
    page = (await again.ref.ask(p.ListSessionsRequest(app="app", limit=7, before=place))).sessions
    assert [info.key for info in page] == [info.key for info in listed[4:11]]
    assert len(hops) == 4
    await again.ref.stop()


async def test_calls_of_a_rewound_turn_cannot_be_answered_any_more(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    await rewind(session, "e-1")
    with pytest.raises(LookupError, match="'c1'"):
        await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1",)))


@pytest.mark.parametrize("seed", range(6))
async def test_a_session_is_as_its_visible_turns_have_made_it_whatever_is_rewound_and_forked(
    session: SessionFixture, seed: int
) -> None:
    chance = Random(seed)
    shared: dict[str, Any] = {}
    # The visible turns of each session, each with the state behind it.
    told: dict[SessionKey, list[tuple[str, dict[str, Any]]]] = {KEY: []}
    for number in range(60):
        key = chance.choice([*told][-2:])
        turns, turn = told[key], f"e-{number}"
        if not turns or chance.random() < 0.6:
            asked, said = some_state(chance), some_state(chance)
            await session.open(turn, key=key, state_delta=asked)
            await session.say(session.event("root", turn, turn=turn, state_delta=said), turn=turn, key=key)
            await session.close(turn, key=key)
            written = asked | said
            shared |= {name: written.pop(name) for name in [*written] if name.startswith("user:")}
            turns.append((turn, state_behind(turns) | written))
            continue
        place = chance.randrange(len(turns))
        if chance.random() < 0.5:
            await rewind(session, turns[place][0], key)
            del turns[place:]
        else:
            fork = SessionKey(key.app, key.user, f"fork-{number}")
            await session.ref.ask(ForkSession(key=key, invocation_id=turns[place][0], fork=fork.session))
            told[fork] = turns[: place + 1]
    for actor in (session, await session.restarted()):
        for key, turns in told.items():
            assert await actor.state(key) == state_behind(turns) | shared
            assert [text for _, author, text in await actor.log(key) if author == "root"] == [turn for turn, _ in turns]
    await actor.ref.stop()


def some_state(chance: Random) -> dict[str, Any]:
    return {name: chance.choice([None, 1, 2, 3]) for name in ("a", "b", "user:u") if chance.random() < 0.3}


def state_behind(turns: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return turns[-1][1] if turns else {}


async def test_temp_state_of_a_paused_turn_is_there_when_it_goes_on(session: SessionFixture) -> None:
    await session.open("e-1", state_delta={"temp:a": 1})
    await session.say(session.event("root", call="c1"), temp={"c": 3})
    await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    assert await session.state() == {}
    again = await session.restarted()
    assert state_of(await again.open("e-1", answers=("c1",))) == {"temp:a": 1, "temp:c": 3}
    await again.ref.stop()


async def test_temp_state_of_an_event_that_belongs_to_no_turn_is_left_out(session: SessionFixture) -> None:
    await session.turn("e-1", "x")
    event = session.event("root", "y", turn="e-2", state_delta={"temp:a": 1, "b": 2})
    seq = await session.ref.append_event(p.AppendEventRequest(key=KEY, event=encode(event)))
    (stored,) = (await session.ref.ask(p.Fetch(key=KEY, after_seq=seq - 1))).events[-1:]
    assert decode_event(stored.raw, 0).actions.state_delta == {"b": 2}
    assert await session.state() == {"b": 2}


async def test_temp_state_has_a_size_too(session: SessionFixture) -> None:
    await session.open("e-1")
    for number in range(9):
        await session.say(session.event("root", "x"), temp={f"k{number}": "x" * 100_000})
    with pytest.raises(TooLargeError, match="the temp state"):
        await session.say(session.event("root", "x"), temp={"k9": "x" * 200_000})
    assert "temp:k9" not in await session.state()


@pytest.mark.parametrize("seed", range(8))
async def test_state_is_let_in_exactly_as_long_as_it_fits(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    limit = random_.randrange(200, 1_500)
    session = SessionFixture(tmp_path, limits=Limits.model_construct(max_state_bytes=limit))
    await session.open()
    state: dict[str, str] = {}
    for _ in range(40):
        delta = {f"{random_.choice(['', 'user:', 'app:'])}k{random_.randrange(8)}": "x" * random_.randrange(250)}
        would_be = max(len(encode(scope)) for scope in scopes.split({**state, **delta}))
        try:
            await session.say(session.event("root", state_delta=delta))
        except TooLargeError:
            assert would_be > limit
        else:
            assert would_be <= limit
            state |= delta
        assert await session.state() == state
    await session.ref.stop()


@pytest.mark.parametrize("wrong", [{"id": ""}, {"invocation_id": "e\n1"}, {"author": " root"}])
async def test_an_event_needs_ids_and_an_author(session: SessionFixture, wrong: dict[str, str]) -> None:
    await session.open()
    event = session.event("root", "said")
    with pytest.raises(InvalidIdError):
        await session.say(msgspec.structs.replace(event, **wrong))
    await session.say(event)
    assert session.positions() == [1, 2]
