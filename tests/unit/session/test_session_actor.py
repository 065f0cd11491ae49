"""The Session actor: who may write, what a cancel answers, state and its scopes, rewinds and forks (semantics.md 2 and 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from actors import Content, RunConfig
from actors.errors import (
    FencedError,
    InvalidIdError,
    InvocationNotFoundError,
    SessionExistsError,
    SessionNotFoundError,
    TooLargeError,
    UnknownFunctionCallError,
)
from actors.layers.forks import ForkSession
from actors.layers.listing.client import get_turn
from actors.layers.rewinds import RewindRequest
from actors.layers.stores.schedule import WaitingMessage, waiting_row
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import Limits
from actors.messages.event import decode_event
from actors.messages.session import SessionKey, SessionPlace
from actors.rules.checks import state as scopes
from tests.support import inside
from tests.support.fixtures.log_events import resp
from tests.support.fixtures.session_fixture import KEY, HeldCommits, SessionFixture, settled, state_of


async def test_a_session_is_made_by_its_first_turn_only_if_that_is_wanted(session: SessionFixture) -> None:
    raw = encode(session.event("user", "hi"))
    with pytest.raises(SessionNotFoundError, match="'s1' of user 'ada'"):
        await session.ref.open_turn(p.OpenTurn(key=KEY, invocation_id="e-1", event=raw))
    with pytest.raises(SessionNotFoundError):
        await session.ref.ask(p.FindTurn(key=KEY))
    assert (await session.ref.ask(p.FindTurn(key=KEY, auto_create=True))).authors == ()
    assert (await session.ref.ask(p.GetSessionRequest(key=KEY))).session is None


@pytest.mark.parametrize("removed", [RewindRequest(key=KEY, invocation_id="e-1"), p.DeleteSessionRequest(key=KEY)])
async def test_nothing_is_written_to_a_turn_that_has_the_id_of_one_that_was_removed(
    session: SessionFixture, removed: RewindRequest | p.DeleteSessionRequest
) -> None:
    await session.open()
    before = session.turn_ref()
    await session.close()
    if isinstance(removed, RewindRequest):
        await session.ref.ask(removed)
    else:
        await session.ref.ask(removed)
    await session.open()
    with pytest.raises(FencedError):
        await session.ref.ask(p.Append(turn=before, events=[encode(session.event("root", "late"))]))
    with pytest.raises(FencedError):
        await session.ref.ask(p.AbandonRuns(turn=before, lost=(0,)))
    with pytest.raises(FencedError):
        await session.ref.ask(p.CloseTurn(turn=before, agent="root", outcome=p.Finished()))
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="runner", running=before))
    assert isinstance(resumed, p.TurnResumed)
    await session.say(session.event("root", "in time"), epoch=2)


async def test_nothing_is_written_with_another_epoch_or_after_the_end(session: SessionFixture) -> None:
    await session.open()
    for epoch in (0, 2):
        with pytest.raises(FencedError, match="'e-1'"):
            await session.say(session.event("root", "late"), epoch=epoch)
        with pytest.raises(FencedError):
            await session.close(epoch=epoch)
    with pytest.raises(FencedError):
        await session.say(session.event("root", "x", turn="e-9"), turn="e-9")
    await session.close()
    with pytest.raises(FencedError):
        await session.say(session.event("root", "late"))
    with pytest.raises(FencedError):
        await session.ref.ask(p.TellPartial(turn=session.turn_ref(), events=[]))
    assert [text for _, _, text in await session.log()] == ["hi"]


async def test_of_several_answers_the_first_decides_and_every_id_must_be_known(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("a", call="c1"), session.event("root", call="c2"))
    assert (await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1", "c2")))).caller == "a"
    assert (await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c2", "c1")))).caller == "root"
    with pytest.raises(UnknownFunctionCallError, match="'c3'"):
        await session.ref.ask(p.FindTurn(key=KEY, call_ids=("c1", "c3")))
    # Where there is no session yet there is no call.
    with pytest.raises(UnknownFunctionCallError, match="'c1'"):
        await session.ref.ask(p.FindTurn(key=OTHER, call_ids=("c1",), auto_create=True))


async def test_one_that_interrupts_while_another_is_about_to_begin_has_to_interrupt_that(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", call="c1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c1",)))
    answering = asyncio.create_task(session.open("e-1", "yes", answers=("c1",)))
    # When this one comes, the session is taken, and there is no turn yet that could be cancelled.
    interrupting = asyncio.create_task(session.ask_to_open("e-2", config=RunConfig(on_concurrent_turn="interrupt")))
    assert await interrupting == p.CancelRequired(invocation_id="e-1")
    assert (await answering).epoch == 2


async def test_while_the_calls_of_a_cancelled_turn_are_answered_nobody_else_answers_them(session: SessionFixture) -> None:
    await session.open()
    await session.say(session.event("root", call="c1"))
    held = HeldCommits(session.store)
    closing = asyncio.create_task(session.close(outcome=p.Cancelled(agent="root")))
    await settled()
    answering = asyncio.create_task(session.say(session.event("root", "the answer of the agent")))
    await settled()
    assert not closing.done()
    assert not answering.done()
    held.let_go()
    await closing
    with pytest.raises(FencedError):
        await answering
    assert session.positions() == [1, 2, 3]


async def test_a_cancelled_turn_answers_the_calls_that_it_leaves_open(session: SessionFixture) -> None:
    await session.open()
    answer = msgspec.structs.replace(session.event("root"), content=Content(parts=[resp("c2")]))
    await session.say(session.event("root", call="c1"), session.event("root", call="c2"), session.event("a", call="c3"), answer)
    await session.close(outcome=p.Cancelled(agent="root"))
    fetched = await session.ref.ask(p.Fetch(key=KEY))
    events = [decode_event(stored.raw, stored.seq) for stored in fetched.events[5:]]
    assert [event.seq for event in events] == [6, 7]
    assert [(event.author, event.invocation_id) for event in events] == [("root", "e-1"), ("a", "e-1")]
    answers = [answer for event in events for answer in event.function_responses()]
    assert [(answer.id, answer.name, answer.response) for answer in answers] == [
        ("c1", "f", {"error": "cancelled"}),
        ("c3", "f", {"error": "cancelled"}),
    ]


@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_call_with_an_interim_response_is_not_answered_once_more_when_its_turn_is_cancelled(
    session: SessionFixture, is_paused: bool
) -> None:
    await session.open()
    call = msgspec.structs.replace(session.event("root", call="c1"), long_running_tool_ids=("c1",))
    interim = msgspec.structs.replace(session.event("root"), content=Content(parts=[resp("c1", "it has begun")]))
    await session.say(call, interim)
    if is_paused:
        await session.close(outcome=p.Paused(agent="root", call_ids=("c1",)))
    await session.ref.ask(p.CancelTurn(key=KEY, invocation_id="e-1", runner="runner"))
    assert (await get_turn(session.ref, KEY, "e-1")).state == "cancelled"
    assert session.positions() == [1, 2, 3]


async def test_a_turn_that_is_not_there_is_an_invocation_that_is_not_found(session: SessionFixture) -> None:
    await session.turn("e-1")
    for turn in ("e-2", ""):
        with pytest.raises(InvocationNotFoundError):
            await session.ref.subscribe(p.Subscribe(subscriber="d", key=KEY, invocation_id=turn))
        with pytest.raises(InvocationNotFoundError):
            await session.ref.ask(RewindRequest(key=KEY, invocation_id=turn))


async def test_the_newest_events_are_told_and_none_with_0(session: SessionFixture) -> None:
    await session.turn("e-1", "a", "b")
    assert await session.log(num_recent_events=2) == [(2, "root", "a"), (3, "root", "b")]
    assert await session.log(num_recent_events=0) == []
    assert await session.log(after_timestamp=3.0) == [(3, "root", "b")]


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


async def test_temp_state_that_belongs_to_no_turn_is_left_out(session: SessionFixture) -> None:
    made = (await session.ref.ask(p.CreateSessionRequest(key=OTHER, state={"a": 1, "temp:t": 3}))).session
    assert made is not None
    assert made.state == {"a": 1}
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
    random_ = Random(seed)
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


FORK = ForkSession(key=KEY, invocation_id="e-1", fork="other")
AGAIN = msgspec.structs.replace(FORK, again=True)
OTHER, LIKE_IT = SessionKey(KEY.app, KEY.user, "other"), SessionKey(KEY.app, KEY.user, "like it")


async def events(session: SessionFixture) -> int:
    reply = await session.ref.ask(p.GetSessionRequest(key=OTHER))
    return len(reply.session.events) if reply.session is not None else -1


async def test_a_request_that_is_sent_again_after_a_loss_finds_the_fork(session: SessionFixture) -> None:
    await session.turn("e-1", "a", "b")
    await session.turn("e-2", "c")
    await session.ref.ask(FORK)
    again = await session.restarted()
    with pytest.raises(SessionExistsError):
        await again.ref.ask(FORK)
    await again.ref.ask(AGAIN)
    assert await events(again) == 3
    # Another session that has the id is no fork of this turn, as long as it may be.
    await again.turn("e-1", "a", "b", key=LIKE_IT)
    for other in ({"invocation_id": "e-2"}, {"fork": LIKE_IT.session}):
        with pytest.raises(SessionExistsError):
            await again.ref.ask(msgspec.structs.replace(AGAIN, **other))
    await again.ref.stop()


async def test_a_request_that_is_sent_again_finds_the_fork_whatever_the_session_does(session: SessionFixture) -> None:
    await session.open("e-1")
    await session.say(session.event("root", call="c-1"))
    await session.close("e-1", p.Paused(agent="root", call_ids=("c-1",)))
    await session.ref.ask(FORK)
    answered = await session.answer("e-1", "c-1")
    assert isinstance(answered, p.TurnBegun)
    # It runs, and then it is longer than the fork.
    await session.ref.ask(AGAIN)
    await session.say(session.event("root", "x"), epoch=answered.epoch)
    await session.close("e-1", epoch=answered.epoch)
    await session.ref.ask(AGAIN)
    assert await events(session) == 2


@pytest.mark.parametrize("begun", [[], ["e-2"], ["e-3", "e-2"], ["e-3"]])
async def test_a_request_that_is_sent_again_finds_the_fork_by_its_message(session: SessionFixture, begun: list[str]) -> None:
    await session.turn("e-1", "a")
    message = waiting_row(OTHER, "b", "e-2", WaitingMessage(), RunConfig(), at_s=0)
    await session.ref.ask(msgspec.structs.replace(FORK, begins=message))
    for turn in begun:
        await session.turn(turn, "b", key=OTHER)
    await session.ref.ask(msgspec.structs.replace(AGAIN, begins=message))
    # One that another request has made has not.
    other = waiting_row(OTHER, "b", "e-9", WaitingMessage(), RunConfig(), at_s=0)
    with pytest.raises(SessionExistsError):
        await session.ref.ask(msgspec.structs.replace(AGAIN, begins=other))
    assert await events(session) == 2 + 2 * len(begun)
