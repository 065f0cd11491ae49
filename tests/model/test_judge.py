"""For each rule of the judge a small history that is possible, and one that only that rule forbids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from actors import Content, Event, FunctionCall, FunctionResponse, Part, RunConfig, Session
from actors.errors import (
    AgentFailedError,
    FencedError,
    InvocationNotFoundError,
    RepeatMismatchError,
    SessionBusyError,
    SessionExistsError,
    TurnCancelledError,
    TurnStateError,
    TurnTimeoutError,
    UnknownAgentError,
)
from tests.model import readers, sessions, steering, tools, turns
from tests.model.history import Ask, Found, TurnRecord
from tests.model.judge import HISTORY_RULES, STORY_RULES, heading, problems
from tests.model.story import Story
from tests.model.tales import HERE, Tale

STEER = RunConfig(on_concurrent_turn="steer")

CASES: dict[Any, list[Callable[[Tale, bool], None]]] = {}
"""By rule, histories that break it, or nearly do."""


def breaks(rule: Any) -> Callable[[Callable[[Tale, bool], None]], Callable[[Tale, bool], None]]:
    """The function tells a history that breaks a rule, or with False one that does not."""

    def add(tell: Callable[[Tale, bool], None]) -> Callable[[Tale, bool], None]:
        CASES.setdefault(rule, []).append(tell)
        return tell

    return add


@pytest.mark.parametrize("rule", [*STORY_RULES, *HISTORY_RULES], ids=lambda rule: rule.__name__)
def test_each_rule_finds_what_breaks_it_and_nothing_else(rule: Any) -> None:
    for tell in CASES[rule]:
        fine, broken = Tale(), Tale()
        tell(fine, False)
        tell(broken, True)
        assert problems(fine.over()) == []
        found = problems(broken.over())
        assert found
        assert {each.rpartition(" (")[2] for each in found} == {f"{heading(rule)})"}, found


@breaks(sessions.positions)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.message("e-2")
    tale.end("e-2")
    if broken:
        del tale.log[1]


@breaks(sessions.each_event_once)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.event("e-1", text="more", id="event 2" if broken else "event 3", usage=None)
    tale.history.asks.clear()


@breaks(sessions.no_partial_event)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.event("e-1", text="a piece", partial=broken or None)


@breaks(sessions.state_is_the_fold)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1", state_delta={"a": 1, "b": 2})
    tale.event("e-1", text="b is gone", state_delta={"b": None})
    if broken:
        tale.state["a"] = 2


@breaks(sessions.temp_is_not_stored)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1", state_delta={"temp:a" if broken else "a": 1})


@breaks(sessions.written_at)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-0")
    tale.written_s = tale.message("e-1").timestamp - broken
    tale.end("e-1")


@breaks(sessions.reads)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    ask = tale.ask("get")
    read = Session(app_name="a", user_id="ada", id="s1", state={}, events=tale.log[: 1 if broken else 2], last_update_time=0.0)
    tale.history.end(ask, "done", read)


@breaks(sessions.shared_state)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1", state_delta={"user:a": 1})
    tale.state["user:a"] = 2 if broken else 3
    other = tale.log[0]
    actions = msgspec.structs.replace(other.actions, state_delta={"user:a": 3})
    log = [msgspec.structs.replace(other, id="of s2", actions=actions)]
    tale.history.found["ada", "s2"] = Found(log=log, state={"user:a": 3})


def test_what_was_written_for_all_sessions_is_stored() -> None:
    tale = Tale()
    tale.message("e-1", state_delta={"user:a": 1})
    del tale.state["user:a"]
    assert [each.partition(" (")[0] for each in problems(tale.over())] == [
        "ada/s1: user:a is None, and sessions have set it to [1] last"
    ]


@breaks(sessions.created_once)
def _(tale: Tale, broken: bool) -> None:
    tale.give(tale.ask("create"), ended="done")
    tale.give(tale.ask("create"), ended="done" if broken else SessionExistsError("app", "ada", "s1"))


@breaks(sessions.deleted)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    if not broken:
        tale.log.clear()
        tale.history.remove(HERE)
    tale.give(tale.ask("delete"), ended="done")


@breaks(turns.one_message)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.message("e-1" if broken else "e-2")


@breaks(turns.other_requests)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1", fingerprint="a")
    tale.message("e-1", custom_metadata={"raygrove:fingerprint": "a"})
    answer = tale.model("e-1")
    tale.give(ask, answer)
    other = tale.ask("run", "e-1", fingerprint="b")
    if broken:
        tale.give(other, answer)
    else:
        tale.give(other, ended=RepeatMismatchError("e-1", "s1"))


def test_a_request_that_says_something_else_does_not_join_a_turn_that_has_forgotten_its_own() -> None:
    tale = Tale()
    ask = tale.ask("run", "e-1", fingerprint="a")
    tale.message("e-1")
    answer = tale.model("e-1")
    tale.give(ask, answer)
    tale.give(tale.ask("run", "e-1", fingerprint="b", message=Content.of_text("ho")), answer)
    assert list(turns.other_requests(Story(tale.over(), HERE)))


@breaks(turns.message_is_kept)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1", text="ho" if broken else "hi")
    tale.give(ask, tale.model("e-1"))


@breaks(turns.refused_is_not_stored)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    running = tale.ask("run", "e-2")
    tale.give(tale.ask("run", "e-3", program="q"), ended=SessionBusyError("s1", "e-2"))
    tale.message("e-2")
    tale.give(running, tale.model("e-2"))
    if broken:
        tale.message("e-3")


@breaks(turns.wrong_is_refused)
def _(tale: Tale, broken: bool) -> None:
    wrong = tale.ask("run", "e-1", how="wrong")
    if broken:
        tale.message("e-1")
        tale.give(wrong, tale.model("e-1"))
        tale.end("e-1")
    else:
        tale.give(wrong, ended=UnknownAgentError("nobody"))


@pytest.mark.parametrize("broken", [False, True])
def test_a_request_is_not_refused_if_its_turn_is_not_found_since_it_was_taken_back(broken: bool) -> None:
    tale = Tale()
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    tale.give(ask, ended=InvocationNotFoundError("e-1", "s1"))
    if not broken:
        tale.log.clear()
    assert bool(list(turns.refused_is_not_stored(Story(tale.over(), HERE)))) == broken


@breaks(turns.record_says_the_end)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1", status="running" if broken else "finished")


@breaks(turns.every_ask_ends)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.ask("run", "e-1", program="driver 1")
    tale.ask("run", "e-1", program="driver 2")
    tale.history.lose("driver 1")
    if not broken:
        tale.history.lose("driver 2")


@breaks(turns.nothing_internal)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.give(tale.ask("cancel", "e-1"), ended=FencedError("e-1", 1) if broken else "done")


@breaks(turns.one_turn_at_a_time)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    tale.message("e-2")
    if not broken:
        tale.response("e-1", "c", {"yes": 1}, author="user")
    tale.event("e-1", text="goes on")


@breaks(turns.order_of_turns)
def _(tale: Tale, broken: bool) -> None:
    early = None if broken else tale.ask("run", "e-1")
    for turn in ("e-1", "e-2"):
        tale.message(turn)
    tale.give(early or tale.ask("run", "e-1"))


@breaks(turns.line_of_a_program)
def _(tale: Tale, broken: bool) -> None:
    for turn in ("e-2", "e-1") if broken else ("e-1", "e-2", "e-1"):
        tale.ask("run", turn)
    for turn in ("e-1", "e-2"):
        tale.message(turn)
    for ask in tale.history.asks:
        tale.give(ask, ended="Finished")


def _steered(tale: Tale, *texts: str) -> list[Ask]:
    """A turn, to which a program sends these messages."""
    began = tale.ask("run", "e-1", program="q")
    tale.message("e-1")
    asks = [tale.ask("run", "e-1", message=Content.of_text(text), config=STEER) for text in texts]
    return [began, *asks]


def _read(tale: Tale, asks: Sequence[Ask], *texts: str) -> None:
    """An agent of the turn reads messages, and answers; all programs get that."""
    sent = [ask.message.text for ask in asks if ask.message is not None]
    for text in texts:
        tale.message("e-1", text, timestamp=float(sent.index(text)), custom_metadata={"steered": "root"})
    answer = tale.model("e-1")
    tale.end("e-1")
    for ask in asks:
        tale.give(ask, answer)


@breaks(steering.read_once)
def _(tale: Tale, broken: bool) -> None:
    _read(tale, _steered(tale, "more"), *["more"] * (1 + broken))


@breaks(steering.answered_with_it)
def _(tale: Tale, broken: bool) -> None:
    asks = _steered(tale, "more")
    _read(tale, asks, "more")
    asks[1].turn = "e-2" if broken else "e-1"


@breaks(steering.messages_in_order)
def _(tale: Tale, broken: bool) -> None:
    _read(tale, _steered(tale, "one", "two"), *(("two", "one") if broken else ("one", "two")))


@breaks(turns.busy_for_a_reason)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    running = None if broken else tale.ask("run", "e-2")
    tale.give(tale.ask("run", "e-3", program="q"), ended=SessionBusyError("s1", "e-2"))
    if running is not None:
        tale.message("e-2")
        tale.give(running)


@breaks(turns.model_calls)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1", config=RunConfig(max_llm_calls=1))
    tale.message("e-1")
    tale.give(ask, tale.model("e-1"))
    tale.history.ask_model("root", "e-1")
    if broken:
        tale.history.ask_model("root", "e-1")


@breaks(turns.transfers)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1", config=RunConfig(max_transfers=1))
    tale.message("e-1")
    made = [tale.event("e-1", text="you", transfer_to_agent="other") for _ in range(3 if broken else 2)]
    tale.give(ask, *made)


@breaks(turns.timeouts)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1", config=RunConfig(timeout=60.0 if broken else 1.0))
    tale.message("e-1")
    tale.give(ask, tale.model("e-1"), ended=TurnTimeoutError("took too long"))


@breaks(turns.used)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    if broken:
        tale.end("e-1", used={"llm_calls": 2, "input_tokens": 1})


@breaks(turns.failures_leave_an_event)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    error = tale.event("e-1", content=None, error_code="ValueError") if not broken else tale.event("e-1", text="so far")
    tale.give(ask, error, ended=AgentFailedError("root", "ValueError", "no"))
    tale.end("e-1", "failed")


@breaks(turns.ended_calls_stay_ended)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    tale.history.begin_tool("c")
    if not broken:
        tale.history.begin_tool("c")
    tale.response("e-1", "c", {"result": 1})
    if broken:
        tale.history.begin_tool("c")


@breaks(turns.ended_calls_stay_ended)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    if not broken:
        tale.history.lose("runner#1")
    tale.response("e-1", "c", {"result": 1})
    if broken:
        tale.history.lose("runner#1")
    tale.history.begin_tool("c").runner = "runner#1"


@breaks(turns.ended_calls_stay_ended)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    if broken:
        tale.history.begin_tool("c")
    tale.response("e-1", "c", {"error": "cancelled"})
    tale.history.begin_tool("c")


@breaks(turns.calls_are_the_logs)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    tale.history.begin_tool("d" if broken else "c")


@breaks(turns.last_write_counts)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.event("e-1", "root", *(Part(function_call=FunctionCall(id=call, name="f")) for call in "cd"))
    slow, quick = (tale.history.begin_tool(call) for call in "cd")
    for run, value in ((slow, 1), (quick, 2)):
        tale.history.write(run, "newest", value)
    responses = [Part(function_response=FunctionResponse(id=call, name="f", response={})) for call in "dc"]
    tale.event("e-1", "root", responses[0], state_delta={"newest": 2})
    tale.event("e-1", "root", responses[1], state_delta={"newest": 1} if broken else {})


@breaks(turns.attempts)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    for _ in range(5):
        tale.history.begin_tool("c")
    if not broken:
        tale.history.lose("runner#1")


@breaks(turns.lost_for_a_reason)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.event("e-1", content=None, error_code="ActorLostError")
    for _ in range(2 if broken else 3):
        tale.history.lose_run("e-1", "root", with_runner=False, waits=False)


@breaks(turns.alone_for_a_reason)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.history.lose_run("e-1", "root", with_runner=False, waits=broken)
    tale.history.lose_run("e-1", "root", with_runner=True, waits=False)
    tale.history.go_alone("e-1", "root")


@pytest.mark.parametrize("broken", [False, True])
def test_of_lost_runners_only_those_since_the_newest_event_have_a_run_go_on_alone(broken: bool) -> None:
    tale = Tale()
    tale.message("e-1")
    tale.history.resume("e-1", "runner#2")
    if broken:
        tale.model("e-1")
    tale.history.resume("e-1", "runner#3")
    tale.history.go_alone("e-1", "root")
    assert bool(list(turns.alone_for_a_reason(tale.over()))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_run_that_was_alone_is_alone_again_until_its_agent_has_said_something(broken: bool) -> None:
    tale = Tale()
    tale.message("e-1")
    for runner in ("runner#2", "runner#3"):
        tale.history.resume("e-1", runner)
    tale.history.go_alone("e-1", "root")
    tale.event("e-1", "root" if broken else "child", text="hello")
    tale.history.resume("e-1", "runner#4")
    tale.history.go_alone("e-1", "root")
    assert bool(list(turns.alone_for_a_reason(tale.over()))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_tool_that_ran_when_a_run_was_lost_counts_also_when_its_session_is_deleted_later(broken: bool) -> None:
    tale = Tale()
    tale.message("e-1")
    tale.call("e-1", "c")
    tale.history.begin_tool("c")
    if broken:
        tale.response("e-1", "c", {})
    tale.history.lose_run("e-1", "root", with_runner=False, waits=True)
    tale.history.go_alone("e-1", "root")
    tale.history.remove(HERE)
    assert bool(list(turns.alone_for_a_reason(tale.over()))) == broken


@breaks(turns.nothing_after_the_end)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    said = tale.model("e-1")
    tale.history.hear(ask, said)
    cancel = tale.ask("cancel", "e-1")
    if not broken:
        tale.event("e-1", text="late")
    tale.give(cancel, ended="done")
    if broken:
        tale.event("e-1", text="late")
    tale.give(ask, tale.log[-1], ended=TurnCancelledError("cancelled"))


@breaks(turns.cancelled_for_a_reason)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    if not broken:
        tale.give(tale.ask("cancel", "e-1"), ended="done")
    tale.give(ask, ended=TurnCancelledError("cancelled"))


@breaks(turns.calls_are_answered)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c")
    if not broken:
        tale.response("e-1", "c", {"error": "cancelled"})
    tale.end("e-1", "cancelled")


def test_a_response_on_another_branch_is_noticed() -> None:
    tale = Tale()
    tale.message("e-1")
    tale.call("e-1", "c", branch="b")
    tale.response("e-1", "c", {"result": 1})
    assert list(turns.calls_are_answered(Story(tale.over(), HERE)))


@pytest.mark.parametrize("delta", [{}, {"a": 1}])
def test_a_message_has_the_changes_with_which_it_was_sent(delta: dict[str, int]) -> None:
    tale = Tale()
    ask = tale.ask("run", "e-1", given={"state_delta": {"a": 1, "temp:b": 2}})
    tale.message("e-1", state_delta=delta)
    tale.give(ask, tale.model("e-1"))
    tale.end("e-1")
    assert bool(problems(tale.over())) == (not delta)


@breaks(turns.one_answer)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    for _ in range(2 if broken else 1):
        tale.response("e-1", "c", {"confirmed": True}, author="user")


@breaks(turns.declined_is_not_run)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    tale.response("e-1", "c", {"confirmed": not broken}, author="user")
    tale.history.begin_tool("c")


@breaks(turns.answers_are_kept)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    asks = [tale.ask("answer", "e-1", program, responses={"c": {"by": program}}) for program in ("p", "q")]
    tale.response("e-1", "c", {"by": "p"}, author="user")
    said = tale.model("e-1")
    tale.give(asks[0], said)
    if broken:
        tale.give(asks[1], said)
    else:
        tale.give(asks[1], ended=TurnStateError("it waits for no answer"))


@breaks(turns.rewound)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1", state_delta={"a": 1})
    tale.message("e-2", state_delta={"a": 2})
    del tale.log[1]
    tale.event("r", "user", seq=3, content=None, rewind_before_invocation_id="e-2", state_delta={"a": 2 if broken else 1})
    tale.give(tale.ask("rewind", "e-2"), ended="done")


@breaks(turns.run_again_from)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.event("e-1", text="nonsense")
    if not broken:
        del tale.log[2]
    reset = {"raygrove:reset": {"invocationId": "e-1", "eventId": "event 2"}}
    tale.event("r", "user", seq=4, content=None, custom_metadata=reset)
    tale.give(tale.ask("retry", "e-1", given={"from_event": "event 2"}), ended="Finished")


@breaks(turns.retries)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    error = tale.event("e-1", content=None, error_code="ValueError")
    tale.give(ask, error, ended=AgentFailedError("root", "ValueError", "no"))
    others = [] if broken else [tale.ask("retry", "e-1", program="q")]
    tale.give(tale.ask("retry", "e-1"), ended=TurnStateError("it runs"))
    for other in others:
        tale.give(other, tale.model("e-1"))


@breaks(turns.forked)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.give(tale.ask("fork", "e-1", given={"fork_id": "s2"}), ended="done")
    record = TurnRecord(status="finished", used={})
    tale.history.found["ada", "s2"] = Found(log=tale.log[: 1 if broken else 2], turns={"e-1": record})
    tale.give(tale.ask("retry", "e-1"), tale.model("e-1"))
    tale.end("e-1")


@breaks(turns.one_turn_a_due_time)
def _(tale: Tale, broken: bool) -> None:
    for turn in ("e-1", "e-2"):
        tale.message(turn, custom_metadata={"schedule": "s", "due": "8:00" if broken else turn})


@breaks(readers.acknowledged_is_kept)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.turn("e-1")
    if broken:
        tale.history.hear(ask, Event(id="lost", seq=3, author="root", invocation_id="e-2"))
        ask.turn = "e-2"


@breaks(readers.one_story)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    said = [tale.event("e-1", text=text) for text in ("one", "two", "three")]
    tale.give(ask, *(said[::2] if broken else said))


@breaks(readers.whole_story)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    said = [tale.event("e-1", text=text) for text in ("one", "two")]
    tale.give(ask, *(said[:1] if broken else said))


@breaks(readers.pieces)
def _(tale: Tale, broken: bool) -> None:
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    whole = tale.model("e-1", text="good day")
    for text in ("good ", "bye" if broken else "day"):
        tale.history.hear(ask, piece(whole, text))
    tale.give(ask, whole)


def piece(of: Event, text: str) -> Event:
    """A piece of an answer, as it is streamed."""
    return msgspec.structs.replace(of, seq=0, partial=True, content=Tale().model("", text=text).content)


@pytest.mark.parametrize("broken", [False, True])
def test_a_program_is_given_no_piece_of_another_turn(broken: bool) -> None:
    tale = Tale()
    tale.turn("e-1")
    ask = tale.turn("e-2")
    tale.history.hear(ask, piece(tale.event("e-1" if broken else "e-2"), "good "))
    assert bool(list(readers.pieces(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_the_time_of_a_turn_begins_anew_with_an_answer(broken: bool) -> None:
    tale, config = Tale(), RunConfig(timeout=5.0)
    tale.ask("run", "e-1", config=config)
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    for _ in range(9):
        tale.history.now()
    ask = tale.ask("run", "e-1", responses={"c": {"yes": 1}}, config=config)
    tale.response("e-1", "c", {"yes": 1}, author="user")
    for _ in range(0 if broken else 9):
        tale.history.now()
    tale.give(ask, tale.model("e-1"), ended=TurnTimeoutError("took too long"))
    assert bool(list(turns.timeouts(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_the_time_of_a_turn_runs_while_its_message_is_stored_and_not_in_line(broken: bool) -> None:
    tale = Tale()
    ask = tale.ask("run", "e-2", config=RunConfig(timeout=5.0))
    if broken:
        _pass(tale, 9)
    tale.turn("e-1")
    if not broken:
        _pass(tale, 9)
    tale.message("e-2")
    tale.give(ask, ended=TurnTimeoutError("took too long"))
    assert bool(list(turns.timeouts(Story(tale.over(), HERE)))) == broken


def _pass(tale: Tale, seconds: int) -> None:
    for _ in range(seconds):
        tale.history.now()


@pytest.mark.parametrize("broken", [False, True])
def test_another_attempt_at_an_answer_goes_on_where_it_begins_with_what_a_reader_has(broken: bool) -> None:
    tale = Tale()
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    whole = tale.model("e-1", text="good day")
    tale.history.lose("agent root")
    for attempt, text in (("lost", "good "), (whole.id, "good day" if broken else "day")):
        tale.history.hear(ask, msgspec.structs.replace(piece(whole, text), id=attempt))
    tale.give(ask, whole)
    assert bool(list(readers.pieces(Story(tale.over(), HERE)))) == broken


@breaks(readers.found_for_a_reason)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-1")
    tale.give(tale.ask("attach", "e-1" if broken else "e-9"), ended=InvocationNotFoundError("e-1", "s1"))


@pytest.mark.parametrize("broken", [False, True])
def test_a_program_that_answers_a_call_again_gets_all_behind_its_own_answer(broken: bool) -> None:
    tale = Tale()
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    for _ in range(2):
        ask = tale.ask("run", "e-1", responses={"c": {"yes": 1}})
        tale.response("e-1", "c", {"yes": 1}, author="user")
        said = [tale.event("e-1", text=text) for text in ("one", "two")]
        tale.give(ask, *said[broken:])
    assert bool(list(readers.one_story(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_fork_has_no_other_gap_than_before_an_event_that_takes_back(broken: bool) -> None:
    tale, fork = Tale(), ("ada", "s3")
    tale.turn("e-1")
    tale.give(tale.ask("retry", "e-1", given={"from_event": "event 1"}))
    reset = {"raygrove:reset": {"invocationId": "e-1", "eventId": "event 1"}}
    tale.event("e-9", "user", content=None, custom_metadata=None if broken else reset)
    tale.model("e-1")
    tale.give(tale.ask("fork", "e-1", given={"fork_id": "s3"}), ended="done")
    copied = [event for event in tale.log if event.seq != 2]
    for event in copied:
        tale.history.store(fork, event)
    tale.history.found[fork] = Found(log=copied)
    story = Story(tale.over(), fork)
    assert bool(list(sessions.positions(story))) == broken
    assert list(turns.one_turn_at_a_time(story)) == []


@pytest.mark.parametrize("broken", [False, True])
def test_a_turn_that_was_deleted_and_asked_for_again_may_stand_behind_later_ones(broken: bool) -> None:
    tale = Tale()
    first = tale.ask("run", "e-1")
    message = tale.message("e-1")
    if broken:
        tale.history.stored.clear()
    else:
        tale.history.remove(HERE)
    tale.log.clear()
    second = tale.ask("run", "e-2")
    tale.message("e-2", id="event of e-2")
    tale.message("e-1", id=message.id)
    for ask in (second, first):
        tale.give(ask)
    assert bool(list(turns.order_of_turns(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_fork_copies_all_answers_to_a_call_and_takes_no_other_one(broken: bool) -> None:
    tale, fork = Tale(), ("ada", "s3")
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    for _ in range(2):
        tale.ask("run", "e-1", responses={"c": {"yes": 1}})
        tale.response("e-1", "c", {"yes": 1}, author="user")
    tale.give(tale.ask("fork", "e-1", given={"fork_id": "s3"}), ended="done")
    copied = list(tale.log)
    if broken:
        tale.history.ask("answer", user="ada", session="s3", turn="e-1", responses={"c": {"yes": 1}})
        copied.append(msgspec.structs.replace(copied[-1], id="one more", seq=5))
    for event in copied:
        tale.history.store(fork, event)
    tale.history.found[fork] = Found(log=copied)
    assert bool(list(turns.one_answer(Story(tale.over(), fork)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_fork_that_is_made_when_one_was_deleted_has_what_was_known_before(broken: bool) -> None:
    tale, fork = Tale(), ("ada", "s3")
    tale.turn("e-1")
    forks = [tale.ask("fork", "e-1", given={"fork_id": "s3"}) for _ in range(2)]
    tale.give(forks[0], ended="done")
    if broken:
        tale.give(forks[1], ended=SessionExistsError("app", *fork))
    tale.history.end(tale.history.ask("delete", user="ada", session="s3"), "done")
    if not broken:
        tale.give(forks[1], ended="done")
    tale.history.found[fork] = Found(log=tale.log)
    assert bool(list(sessions.deleted(Story(tale.over(), fork)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_session_that_was_begun_anew_since_a_fork_was_deleted_is_none(broken: bool) -> None:
    tale, fork = Tale(), ("ada", "s3")
    tale.turn("e-1")
    tale.give(tale.ask("fork", "e-1", given={"fork_id": "s3"}), ended="done")
    tale.history.end(tale.history.ask("prune", user="eve" if broken else "ada"), "done")
    tale.history.found[fork] = Found(log=[msgspec.structs.replace(tale.log[0], id="of another life")])
    assert bool(list(turns.forked(tale.over()))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_a_session_is_busy_whose_turn_was_cancelled_while_the_store_took_nothing(broken: bool) -> None:
    tale = Tale()
    if not broken:
        tale.history.fail("store fails")
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    tale.give(ask, ended=TurnCancelledError("e-1"))
    tale.give(tale.ask("fork", "e-1", given={"fork_id": "s3"}), ended=SessionBusyError("s1", "e-1"))
    assert bool(list(turns.busy_for_a_reason(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize("broken", [False, True])
def test_an_answer_is_refused_before_its_turn_waits_again_since_it_was_run_again_from_a_step(broken: bool) -> None:
    tale = Tale()
    tale.message("e-1")
    tale.call("e-1", "c", waits=True)
    if broken:
        tale.give(tale.ask("retry", "e-1", given={"from_event": "event 1"}))
    tale.give(tale.ask("answer", "e-1", responses={"c": {"yes": 1}}), ended=TurnStateError("it was cancelled"))
    if not broken:
        tale.give(tale.ask("retry", "e-1", given={"from_event": "event 1"}))
    tale.end("e-1", "paused")
    assert bool(list(turns.answers_are_kept(Story(tale.over(), HERE)))) == broken


@pytest.mark.parametrize(("goes_on", "found"), [(False, 0), (True, 1)])
def test_only_the_call_of_a_run_that_was_given_up_stays_without_a_response(goes_on: bool, found: int) -> None:
    tale = Tale()
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    tale.call("e-1", "c")
    if goes_on:
        tale.model("e-1")
    tale.event("e-1", content=None, error_code="StoreUnavailableError")
    tale.give(ask, *tale.log[1:])
    tale.end("e-1")
    assert len([each for each in problems(tale.over()) if "has no response" in each]) == found


@pytest.mark.parametrize(("failed", "found"), [(True, 0), (False, 1)])
def test_a_run_that_was_a_tool_leaves_its_call_open_while_the_store_takes_nothing(failed: bool, found: int) -> None:
    tale = Tale()
    tale.history.fail("store fails")
    ask = tale.ask("run", "e-1")
    tale.message("e-1")
    tale.call("e-1", "c-1")
    tale.call("e-1", "c-2", branch="@root:c-1")
    tale.response("e-1", "c-1", {"error": "StoreError: it is away"} if failed else {"result": 1})
    tale.model("e-1")
    tale.give(ask, *tale.log[1:])
    tale.end("e-1")
    assert len([each for each in problems(tale.over()) if "has no response" in each]) == found


@breaks(tools.state_is_seen)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1", state_delta={"k": 1})
    tale.call("e-1", "c")
    tale.history.begin_tool("c").saw_first = {} if broken else {"k": 1}
    tale.response("e-1", "c", {"result": 1})
    tale.end("e-1")


@breaks(tools.scopes_are_seen)
def _(tale: Tale, broken: bool) -> None:
    tale.turn("e-0")
    for turn, temp, seen in (("e-1", 1, 1), ("e-2", 2, 1 if broken else 2)):
        ask = tale.ask("run", turn, given={"state_delta": {"user:k": temp, "temp:t": temp}})
        tale.message(turn, state_delta={"user:k": temp})
        call = tale.call(turn, turn)
        tale.history.begin_tool(turn).saw_first = {"user:k": temp, "temp:t": seen}
        tale.give(ask, call, tale.response(turn, turn, {"result": 1}))
        tale.end(turn)


@pytest.mark.parametrize("seen", [0, 1])
def test_a_tool_sees_what_another_session_has_written(seen: int) -> None:
    tale = Tale()
    before = tale.message("e-0", state_delta={"app:k": 0})
    actions = msgspec.structs.replace(before.actions, state_delta={"app:k": 1})
    tale.history.store(("bob", "s"), msgspec.structs.replace(before, id="of bob", actions=actions))
    tale.ask("run", "e-1")
    tale.message("e-1")
    tale.call("e-1", "c")
    tale.history.begin_tool("c").saw_first = {"app:k": seen}
    assert bool(list(tools.scopes_are_seen(Story(tale.over(), HERE)))) == (seen == 0)


@breaks(tools.calls_see_each_other)
def _(tale: Tale, broken: bool) -> None:
    tale.message("e-1")
    calls = [Part(function_call=FunctionCall(id=each, name="f")) for each in ("c", "d")]
    tale.event("e-1", "root", *calls)
    first, then = (tale.history.begin_tool(each) for each in ("c", "d"))
    then.began = first.began
    tale.history.write(first, "k", 1)
    tale.history.end_tool(then)
    then.saw = {} if broken else {"k": 1}
    for each in ("c", "d"):
        tale.response("e-1", each, {"result": 1})
    tale.end("e-1")
