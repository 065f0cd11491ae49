"""Following is not owning: programs join and leave turns, see where they are and what waits, and the turns go on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors import Content, Event, FunctionResponse, LlmAgent, Part, RunConfig
from actors.errors import InvocationNotFoundError, RequestError, SessionNotFoundError, TurnCancelledError, TurnStateError
from runtime import PendingCall, TurnInfo
from runtime.driver.runtime import Runtime
from runtime.driver.turns.turn import Turn
from tests.support.agents.web_agents import PIECES, Gate, SteppedModel, ask_manager, pay
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn

pytestmark = pytest.mark.sampled(2, of="module")

SSE = RunConfig(streaming="sse")


@pytest.fixture(scope="module", params=["local", "ray"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runtime, Path]]:
    """One Runtime for all tests of an engine; each has a session of its own."""
    if request.param == "ray":
        request.getfixturevalue("local_ray")
    folder = tmp_path_factory.mktemp("gates")
    root = LlmAgent(name="root", model=SteppedModel(folder), tools=[ask_manager, pay])
    with Deploy(request.param, tmp_path_factory.mktemp("stores"))(root) as rt:
        yield rt, folder


@pytest.fixture
def rt(shared: tuple[Runtime, Path]) -> Runtime:
    return shared[0]


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    return str(request.node.originalname)


@pytest.fixture
def gate(shared: tuple[Runtime, Path], session: str) -> Iterator[Gate]:
    made = Gate(shared[1], session)
    yield made
    made.let(99)


def start(rt: Runtime, session: str, message: str, **options: object) -> Turn:
    return rt.run(user_id="ada", session_id=session, message=message, run_config=SSE, **options)  # type: ignore[arg-type]


def attach(rt: Runtime, turn: Turn, session: str) -> Turn:
    return rt.attach(user_id="ada", session_id=session, invocation_id=turn.invocation_id)


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events]


async def test_a_program_waits_for_the_start_of_a_turn_and_sees_how_it_ended(rt: Runtime, session: str, gate: Gate) -> None:
    first = start(rt, session, gate.name)
    assert await first.aio.started() == first.invocation_id
    assert first.outcome is None
    second = start(rt, session, "hello")
    waiting = asyncio.ensure_future(second.aio.started())
    gate.let(99)
    assert await waiting == second.invocation_id
    await second
    assert type(second.outcome).__name__ == "Finished"
    paused = start(rt, session, "ask")
    answered = start(rt, session, "hello", auto_create_session=False)
    assert type((await paused).outcome).__name__ == type(paused.outcome).__name__ == "Paused"
    await answered
    with pytest.raises(SessionNotFoundError):
        await start(rt, f"{session} that is missing", "hello", auto_create_session=False).aio.started()


def test_leaving_an_attached_turn_cancels_nothing(rt: Runtime, session: str, gate: Gate) -> None:
    turn = start(rt, session, gate.name)
    reading = iter(turn)
    gate.let()
    assert next(reading).text == "one "
    for event in attach(rt, turn, session):
        assert event.text == "one "
        break

    async def follow() -> None:
        async for event in attach(rt, turn, session):
            assert event.text == "one "
            following.set()

    async def cancelled() -> None:
        task = asyncio.create_task(follow())
        await following.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    following = asyncio.Event()
    asyncio.run(cancelled())
    gc.collect()
    gate.let(4)
    assert texts(list(reading)) == [*PIECES[1:], "".join(PIECES)]
    assert turn.result().text == "".join(PIECES)


def test_leaving_a_turn_of_ones_own_is_a_choice(rt: Runtime, session: str, gate: Gate) -> None:
    turn = start(rt, session, gate.name, on_leave="continue")
    gate.let()
    for _ in turn:
        break
    gate.let(4)
    assert turn.result().text == "".join(PIECES)
    again = start(rt, session, gate.name)
    gate.let()
    for _ in again:
        break
    with pytest.raises(TurnCancelledError):
        again.result()
    with pytest.raises(RequestError, match="on_leave must be one of cancel, continue, not 'stay'"):
        start(rt, session, "hi", on_leave="stay")


def test_a_detached_turn_goes_on_and_can_be_attached(rt: Runtime, session: str, gate: Gate) -> None:
    turn = start(rt, session, gate.name)
    reading = iter(turn)
    gate.let()
    assert next(reading).text == "one "
    turn.detach()
    assert list(reading) == []
    with pytest.raises(RequestError, match=r"was detached before its end.*rt\.attach"):
        turn.result()
    gate.let(4)
    assert attach(rt, turn, session).result().text == "".join(PIECES)


def test_a_driver_that_comes_late_has_no_hole_in_the_answer(rt: Runtime, session: str, gate: Gate) -> None:
    turn = start(rt, session, gate.name)
    early = iter(turn)
    streamed = ""
    late: list[tuple[Iterator[Event], str]] = []
    for piece in PIECES:
        gate.let()
        streamed += next(early).text
        reading, heard = iter(attach(rt, turn, session)), ""
        while len(heard) < len(streamed):
            # What has just been said may come by itself.
            heard += next(reading).text
        assert heard == streamed, f"joined after {piece!r}"
        late.append((reading, streamed))
        # Another reader of the same Turn.
        same = iter(turn)
        assert next(same).text == streamed
        late.append((same, streamed))
    gate.let()
    assert texts(list(early)) == ["".join(PIECES)]
    for reading, heard in late:
        rest = list(reading)
        assert heard + "".join(event.text for event in rest if event.partial) == "".join(PIECES)
        assert [event.text for event in rest if not event.partial] == ["".join(PIECES)]


def test_turns_are_listed_with_where_they_are(rt: Runtime, session: str, gate: Gate) -> None:
    user = f"user of {session}"

    def run(message: str, session_id: str = session) -> Turn:
        return rt.run(user_id=user, session_id=session_id, message=message, run_config=SSE)

    done = run("hi")
    done.result()
    failed = run("fail", "other")
    with pytest.raises(Exception, match="customer"):
        failed.result()
    paused = run("ask", "third")
    paused.result()
    running = run(gate.name)
    gate.let()
    reading = iter(running)
    assert next(reading).text == "one "
    waiting = run("hi")
    cancelled = run(gate.name, "fourth")
    cancelled.cancel()
    while not rt.turns.list(user, session, "waiting"):
        # The Runner has yet to put the turn in line.
        continue
    listed = rt.turns.list(user)
    states = {turn.invocation_id: turn.state for turn in listed}
    assert states == {
        waiting.invocation_id: "waiting",
        running.invocation_id: "running",
        paused.invocation_id: "paused",
        failed.invocation_id: "failed",
        done.invocation_id: "finished",
        **({cancelled.invocation_id: "cancelled"} if cancelled.invocation_id in states else {}),
    }
    assert listed[0].state == "waiting"
    begun = [turn.begun_s for turn in listed[1:]]
    assert begun == sorted(begun, reverse=True)
    of_session = rt.turns.list(user, session)
    assert [turn.invocation_id for turn in of_session] == [turn.invocation_id for turn in (waiting, running, done)]
    pages = [rt.turns.list(user, limit=2)]
    while pages[-1]:
        pages.append(rt.turns.list(user, limit=2, before=pages[-1][-1]))
    assert [turn for page in pages for turn in page] == listed
    info = rt.turns.get(user, session, done.invocation_id)
    assert info == of_session[-1]
    assert (info.user_id, info.session_id, info.agent, info.first_seq, info.last_seq, info.epoch) == (
        user,
        session,
        "root",
        1,
        2,
        1,
    )
    assert 0 < info.begun_s <= info.ended_s
    [failure] = rt.turns.list(user, state="failed")
    assert (failure.agent, failure.error, failure.last_seq) == ("root", "KeyError: 'customer'", 2)
    assert rt.turns.list(user, session, "running")[0].ended_s == 0
    assert set(states) <= {turn.invocation_id for turn in rt.turns.list(limit=1_000)}
    assert rt.turns.list("nobody") == []
    counts = rt.turns.counts()
    assert {state: len(rt.turns.list(state=state, limit=1_000)) for state in ("waiting", "running", "paused")} == {
        "waiting": counts.waiting,
        "running": counts.running,
        "paused": counts.paused,
    }
    assert counts.open == counts.waiting + counts.running >= 2
    gate.let(99)
    assert list(reading)
    assert waiting.result().text == "hello"


def test_questions_about_turns_that_make_no_sense_are_refused_by_name(rt: Runtime, session: str) -> None:
    run_turn(rt, "hi", session)
    with pytest.raises(InvocationNotFoundError):
        rt.turns.get("ada", session, "e-unknown")
    with pytest.raises(SessionNotFoundError):
        rt.turns.get("ada", "not there", "e-1")
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: rt.turns.list(state="done"), "state must be one of waiting, running, .*, not 'done'"),
        (lambda: rt.turns.list(limit=-1), "limit must be a whole number from 0 on, not 'int -1'"),
        (lambda: rt.turns.list(session_id="s"), "give user_id"),
        (lambda: rt.turns.list(before=3), "before must be a TurnInfo"),  # type: ignore[arg-type]
        (lambda: rt.attach(user_id="ada", session_id=session, invocation_id="e", after_seq="1"), "after_seq must be"),  # type: ignore[arg-type]
        (lambda: rt.sessions.events("ada", session, after_seq=True), "after_seq must be a whole number"),
        (lambda: rt.sessions.get("ada", session, num_recent_events="3"), "num_recent_events must be"),  # type: ignore[arg-type]
        (lambda: rt.sessions.get("ada", session, after_timestamp="x"), "after_timestamp must be a time"),  # type: ignore[arg-type]
        (lambda: rt.memory.search("ada", 5), "query must be a text, not 'int 5'"),  # type: ignore[arg-type]
    ]
    for ask, wrong in refused:
        with pytest.raises(RequestError, match=wrong):
            ask()


def test_what_waits_for_a_person_is_listed_and_answered(rt: Runtime, session: str) -> None:
    turn = start(rt, session, "ask")
    turn.result()
    [call] = turn.pending
    assert call == rt.pending(user_id="ada", session_id=session)[0]
    assert (call.name, call.args, call.agent, call.is_confirmation) == ("ask_manager", {"amount": 7}, "root", False)
    assert (call.user_id, call.session_id, call.invocation_id) == ("ada", session, turn.invocation_id)
    with pytest.raises(
        TurnStateError, match=rf"call 'nothing' waits for no answer.*{call.call_id}' \(ask_manager of agent 'root'\)"
    ):
        rt.answer("nothing", {"allowed": True}, user_id="ada", session_id=session).result()
    answered = rt.answer(call, {"allowed": True})
    assert answered.result().text == "got [{'allowed': True}]"
    assert answered.invocation_id == turn.invocation_id
    assert turn.pending == rt.pending(user_id="ada", session_id=session) == []
    with pytest.raises(RequestError, match="Calls that wait: none"):
        rt.answer(call, "again").result()

    twice = start(rt, session, "ask twice")
    twice.result()
    first, second = twice.pending
    assert twice.answer({first.call_id: {"n": 1}, second.call_id: 2}).result().text == "got [{'n': 1}, {'result': 2}]"

    paying = start(rt, session, "pay")
    paying.result()
    [wanted] = rt.pending(user_id="ada")[:1]
    assert (wanted.name, wanted.is_confirmation) == ("pay", True)
    assert paying.answer(wanted, confirmed=True).result().text == "got [{'result': 'paid 7'}]"


def given(call: PendingCall, **response: object) -> Content:
    """An answer as a message of the program's own making."""
    return Content(parts=[Part(function_response=FunctionResponse(id=call.call_id, name=call.name, response=response))])


@pytest.mark.parametrize("how", ["answer", "message"])
@pytest.mark.parametrize("kind", ["ask", "pay"])
def test_of_two_answers_to_a_call_that_stand_in_line_the_first_is_taken(
    shared: tuple[Runtime, Path], how: str, kind: str
) -> None:
    rt, folder = shared
    session = f"two-answers-{how}-{kind}"
    gate = Gate(folder, session)
    asking = start(rt, session, kind)
    asking.result()
    [call] = asking.pending
    running = start(rt, session, gate.name)

    def reply(number: int) -> Turn:
        response = {"confirmed": True} if kind == "pay" else {"n": number}
        if how == "answer":
            return rt.answer(call, response)
        return rt.run(user_id="ada", session_id=session, message=given(call, **response))

    first, second, last = reply(1), reply(2), start(rt, session, "hello")
    # What one program sends stands in line in its order.
    until(lambda: last.invocation_id in {each.invocation_id for each in rt.turns.list(user_id="ada", session_id=session)})
    gate.let(99)
    assert running.result().text == "".join(PIECES)
    assert first.result().text == ("got [{'result': 'paid 7'}]" if kind == "pay" else "got [{'n': 1}]")
    with pytest.raises(
        TurnStateError, match=f"call '{call.call_id}' waits for no answer .*it has been answered. Calls that wait: none"
    ):
        second.result()
    assert last.result().text == "hello"
    log = rt.sessions.get("ada", session)
    assert log is not None
    by_user = [response for event in log.events if event.author == "user" for response in event.function_responses()]
    assert len(by_user) == 1
    assert rt.turns.get("ada", session, asking.invocation_id).state == "finished"
    gate.close()


def test_a_later_value_of_a_long_running_call_reaches_its_agent_and_a_second_consent_is_refused(
    rt: Runtime, session: str
) -> None:
    asking = start(rt, session, "ask")
    asking.result()
    [call] = asking.pending
    assert rt.answer(call, {"status": "on its way"}).result().text == "got [{'status': 'on its way'}]"
    later = rt.run(user_id="ada", session_id=session, message=given(call, status="there"))
    assert later.result().text == "got [{'status': 'there'}]"
    paying = start(rt, session, "pay")
    paying.result()
    [wanted] = paying.pending
    assert rt.answer(wanted, confirmed=False).result().text.startswith("got")
    with pytest.raises(TurnStateError, match="it has been answered"):
        rt.run(user_id="ada", session_id=session, message=given(wanted, confirmed=True)).result()


@pytest.mark.parametrize(
    ("arguments", "options", "wrong"),
    [
        (("c",), {}, "either response"),
        (("c", 1), {"confirmed": True}, "either response"),
        (({},), {}, "mapping of call ids is empty"),
        (({"c": 1}, 2), {}, "neither response nor confirmed"),
        (("c",), {"confirmed": "yes"}, "confirmed must be True or False, not str"),
    ],
)
def test_an_answer_that_is_none_is_refused_at_once(
    local: Deploy, arguments: tuple[object, ...], options: dict[str, object], wrong: str
) -> None:
    with local(LlmAgent(name="root", model=SteppedModel(local.folder))) as rt:
        with pytest.raises(RequestError, match=wrong):
            rt.answer(*arguments, user_id="ada", session_id="s", **options)  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="needs user_id and session_id"):
            rt.answer("c", 1)


def test_a_session_is_followed_over_its_turns(rt: Runtime, session: str, gate: Gate) -> None:
    run_turn(rt, "hi", session)
    tail = rt.sessions.tail("ada", session, after_seq=1, partials=True)
    reading = iter(tail)
    assert next(reading).text == "hello"
    turn = start(rt, session, gate.name)
    assert next(reading).text == gate.name
    gate.let()
    assert next(reading).text == "one "
    late = iter(rt.sessions.tail("ada", session, after_seq=3, partials=True))
    assert next(late).text == "one "
    gate.let(4)
    assert [next(reading).text for _ in range(4)] == [*PIECES[1:], "".join(PIECES)]
    turn.result()
    run_turn(rt, "bye", session)
    assert [(event.seq, event.text) for event in (next(reading), next(reading))] == [(5, "bye"), (6, "hello")]
    tail.close()
    assert list(reading) == []

    async def follow() -> list[int]:
        found = []
        async for event in rt.sessions.tail("ada", session):
            found.append(event.seq)
            if event.seq == 6:
                break
        return found

    assert asyncio.run(follow()) == [1, 2, 3, 4, 5, 6]
    last = iter(rt.sessions.tail("ada", session, after_seq=6))
    rt.sessions.delete("ada", session)
    with pytest.raises(SessionNotFoundError):
        next(last)


def test_events_are_read_in_pages(rt: Runtime, session: str) -> None:
    for _ in range(4):
        run_turn(rt, "hi", session)

    def seqs(**options: int | bool) -> list[int]:
        return [event.seq for event in rt.sessions.events("ada", session, **options)]  # type: ignore[arg-type]

    assert seqs() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert seqs(limit=3) == [1, 2, 3]
    assert seqs(after_seq=3, limit=3) == [4, 5, 6]
    assert seqs(newest_first=True, limit=3) == [8, 7, 6]
    assert seqs(newest_first=True, limit=3, before_seq=6) == [5, 4, 3]
    assert seqs(newest_first=True, before_seq=6, after_seq=3) == [5, 4]
    assert (seqs(limit=0), seqs(after_seq=8), seqs(before_seq=1)) == ([], [], [])
    with pytest.raises(SessionNotFoundError):
        rt.sessions.events("ada", "not there")


async def test_the_end_of_a_turn_is_awaited_and_not_waited_for(rt: Runtime, session: str, gate: Gate) -> None:
    turn = start(rt, session, gate.name)
    with pytest.raises(RequestError, match=r"would block the event loop.*`await turn`"):
        turn.result()
    waiting = asyncio.create_task(turn.result_async())
    gate.let(5)
    assert (await waiting).text == (await turn).text == turn.result().text == "".join(PIECES)
    assert (await rt.aio.turns.get("ada", session, turn.invocation_id)).state == "finished"
    assert await turn.aio.pending() == await rt.aio.turns.pending("ada", session) == []
    assert len(await rt.aio.turns.list("ada", session)) == 1
    assert [event.seq for event in await rt.aio.sessions.events("ada", session, newest_first=True)] == [2, 1]


def test_the_structs_of_turns_are_small_to_read(rt: Runtime, session: str) -> None:
    run_turn(rt, "ask", session)
    [turn], [call] = rt.turns.list("ada", session), rt.pending(user_id="ada", session_id=session)
    assert isinstance(turn, TurnInfo)
    assert isinstance(call, PendingCall)
    assert "error" not in repr(turn)
    assert "is_confirmation" not in repr(call)


def test_all_that_follow_a_session_share_one_subscription_wherever_each_begins(rt: Runtime, session: str, gate: Gate) -> None:
    for _ in range(3):
        run_turn(rt, "hi", session)
    before = rt.statistics().session.counts["subscribers"]
    # The first one begins where the log does not reach yet, and may not keep others from what comes before.
    beyond = iter(rt.sessions.tail("ada", session, after_seq=8, partials=True))
    tails = {after_seq: rt.sessions.tail("ada", session, after_seq=after_seq, partials=True) for after_seq in (0, 5, 2, 6, 3)}
    reading = {after_seq: iter(tail) for after_seq, tail in tails.items()}
    for after_seq, events in reading.items():
        assert [next(events).seq for _ in range(6 - after_seq)] == list(range(after_seq + 1, 7))
    turn = start(rt, session, gate.name)
    assert [next(events).seq for events in reading.values()] == [7] * len(reading)
    gate.let(2)
    assert [[next(events).text, next(events).text] for events in reading.values()] == [PIECES[:2]] * len(reading)
    # One that begins in the middle of an answer, and reads the log first.
    late = iter(rt.sessions.tail("ada", session, partials=True))
    assert [next(late).seq for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
    assert next(late).text == "".join(PIECES[:2])  # every other reader has both, so they have come
    assert rt.statistics().session.counts["subscribers"] <= before + 2
    gate.close()
    for events in (*reading.values(), late):
        assert [next(events).text for _ in range(3)] == [*PIECES[2:], "".join(PIECES)]
    turn.result()
    run_turn(rt, "bye", session)
    for events in (*reading.values(), late):
        assert [next(events).seq, next(events).seq] == [9, 10]
    assert next(event.seq for event in beyond if event.seq) == 9
