"""After every event of any log, a history equals one that is built from scratch, or says that it keeps too little of the log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from actors import Content, Event, FunctionResponse, Part
from actors.rules.prompt import history as contents
from actors.rules.prompt.compiler import FOREIGN_MARK, NO_ANSWER, Compiler, Entry, arrange, latest_slice
from actors.rules.prompt.history import History
from actors.rules.routing.branches import is_visible
from tests.support.fixtures.log_events import call, event, image, resp, said, shown, thought
from tests.support.tries import tries

IDS = ["c1", "c2", "c3"]
AUTHORS = ["user", "me", "me", "B", "C"]
BRANCHES = [None, None, None, "", "b1", "b1.x", "b10", "@me:c1", "b1.@me:c1"]
TURNS = ["e-1", "e-1", "e-2", "e-3"]

parts = st.one_of(
    st.sampled_from([said("x"), said("y"), thought("hm"), Part(), Part(text=""), image(), Part(thought_signature=b"s")]),
    st.builds(call, st.sampled_from([*IDS, None]), st.sampled_from(["f", "transfer_to_agent"])),
    st.builds(resp, st.sampled_from([*IDS, "zzz", None, ""]), st.integers(0, 9)),
)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event at all, also such as no agent would ever make; but calls by the user are refused before they are stored."""
    author = draw(st.sampled_from(AUTHORS))
    pieces = draw(st.lists(parts, max_size=4))
    return event(
        author,
        *(part for part in pieces if author != "user" or part.function_call is None),
        turn=draw(st.sampled_from(TURNS)),
        branch=draw(st.sampled_from(BRANCHES)),
        partial=draw(st.sampled_from([None, None, None, True])),
        transfer=draw(st.sampled_from([None, None, None, "me"])),
        lro=draw(st.lists(st.sampled_from(IDS), max_size=2)),
    )


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    """A log as agents make it: every call has an id of its own, and is answered at once, late, in parts, twice or never."""
    log: list[Event] = []
    asked: list[str] = []
    for number in range(draw(st.integers(1, 14))):
        turn = draw(st.sampled_from(TURNS))
        match draw(
            st.sampled_from(["user", "say", "call", "call", "inputs", "answer", "answer", "late", "late", "other", "ask"])
        ):
            case "user":
                log.append(event("user", said(f"q{number}"), turn=turn))
            case "say":
                log.append(event("me", said(f"r{number}"), turn=turn))
            case "call":
                ids = [f"c{number}{letter}" for letter in draw(st.sampled_from(["a", "ab", "abc"]))]
                asked += ids
                lro = draw(st.lists(st.sampled_from(ids), unique=True))
                consents = draw(st.lists(st.sampled_from(lro), unique=True)) if lro else []
                log.append(event("me", *(call(each) for each in ids), turn=turn, lro=lro, consents=consents))
            case "inputs" if asked:
                log.append(event("me", turn=turn, asks=[draw(st.sampled_from(asked))]))
            case "ask":
                asked.append(f"o{number}")
                log.append(event("B", call(f"o{number}"), turn=turn, lro=[f"o{number}"]))
            case "answer" if asked:
                given_now = draw(st.lists(st.sampled_from(asked[-3:]), min_size=1, unique=True))
                log.append(event("me", *(resp(each, number) for each in given_now), turn=turn, role="user"))
            case "late" if asked:
                given_now = draw(st.lists(st.sampled_from(asked), min_size=1, max_size=3, unique=True))
                beside = draw(st.sampled_from([(), (said("beside"),)]))
                log.append(event("user", *beside, *(resp(each, number) for each in given_now), turn=turn))
            case _:
                log.append(event("B", said(f"o{number}"), turn=turn))
    return log


logs = st.one_of(st.lists(events(), max_size=10), conversations())
branches = st.sampled_from([None, "b1", "b1.x", "b10"])


def entries_of(log: Sequence[Event], branch: str | None) -> list[Entry]:
    compiler = Compiler("me", branch)
    entries = [entry for event in log if (entry := compiler.entry(event)) is not None]
    asking = {call_id for event in log for call_id in event.actions.requested_inputs}
    return [replace(entry, long_running=entry.long_running.union(asking.intersection(entry.calls))) for entry in entries]


@settings(max_examples=tries(400))
@given(logs, branches, st.data())
def test_the_view_equals_arranging_from_scratch_after_every_event(
    log: list[Event], branch: str | None, data: st.DataObject
) -> None:
    always, sometimes = History("me", branch), History("me", branch)
    for length, newest in enumerate(log, start=1):
        always.add(newest)
        sometimes.add(newest)
        entries = entries_of(log[:length], branch)
        whole, slice_ = arrange(entries), arrange(latest_slice(entries))
        assert always.contents() == whole
        assert always.contents("none") == slice_
        if data.draw(st.booleans()):
            assert sometimes.contents("none") == slice_
            assert sometimes.contents() == whole


@settings(max_examples=tries(300))
@given(logs, branches, st.sampled_from(["default", "none"]))
def test_calls_and_responses_always_fit_together(log: list[Event], branch: str | None, include: str) -> None:
    contents = made_of(log, branch, include)
    for index, content in enumerate(contents):
        calls = [made.id for made in content.function_calls()]
        answers = [answer.id for answer in content.function_responses()]
        assert not (calls and answers)
        if answers:
            assert index > 0
            assert {made.id for made in contents[index - 1].function_calls()} >= set(answers)
            assert all(part.function_response is not None for part in content.parts)
        if calls:
            assert calls == [answer.id for answer in contents[index + 1].function_responses()]
        assert not content.is_empty()


def made_of(log: Sequence[Event], branch: str | None, include: str) -> list[Content]:
    view = History("me", branch)
    for newest in log:
        view.add(newest)
    return view.contents("none" if include == "none" else "default")


@settings(max_examples=tries(200))
@given(conversations())
def test_of_several_answers_to_a_call_the_latest_is_shown(log: list[Event]) -> None:
    latest: dict[str | None, FunctionResponse] = {}
    calls: set[str | None] = set()
    asking: set[str | None] = set()
    for each in log:
        if each.author == "me":
            calls.update(made.id for made in each.function_calls())
        asking.update(each.actions.requested_tool_confirmations, each.actions.requested_inputs)
        decided = asking if each.author == "user" else set()
        latest.update((answer.id, answer) for answer in each.function_responses() if answer.id in calls - decided)
    # While a late answer is the newest event, what its turn did meanwhile is left out.
    told = [
        answer
        for content in made_of([*log, event("me", said("done"))], None, "default")
        for answer in content.function_responses()
        if answer.response != NO_ANSWER
    ]
    assert {answer.id: answer for answer in told} == latest
    assert len(told) == len(latest)


@settings(max_examples=tries(200))
@given(st.lists(events(), max_size=10), branches)
def test_others_thoughts_signatures_calls_and_responses_are_never_shown_as_such(log: list[Event], branch: str | None) -> None:
    for content in made_of(log, branch, "default"):
        if content.parts[0].text == FOREIGN_MARK:
            assert content.role == "user"
            assert len(content.parts) > 1
            for part in content.parts:
                assert not part.thought
                assert part.thought_signature is None
                assert part.function_call is None
                assert part.function_response is None


@settings(max_examples=tries(100))
@given(st.lists(events(), max_size=10), branches)
def test_what_another_branch_says_changes_nothing(log: list[Event], branch: str | None) -> None:
    visible = [event for event in log if is_visible(event.branch, branch)]
    assert made_of(log, branch, "default") == made_of(visible, branch, "default")
    assert made_of(log, branch, "none") == made_of(visible, branch, "none")


@settings(max_examples=tries(500))
@given(logs, branches, st.data())
def test_what_is_left_shows_the_same_or_says_that_it_lacks_something(
    log: list[Event], branch: str | None, data: st.DataObject
) -> None:
    whole, cut = History("me", branch), History("me", branch)
    for newest in log:
        whole.add(newest)
        cut.add(newest)
        if data.draw(st.booleans()):
            cut.keep_latest()
        answered = [response.id for response in newest.function_responses()]
        if not cut.lacks(answered):
            assert cut.contents("none") == whole.contents("none")
            assert cut.still_open(answered) == whole.still_open(answered)
            assert cut.user_replies(answered) == whole.user_replies(answered)


@settings(max_examples=tries(200))
@given(conversations())
def test_the_same_when_no_call_is_waited_for_for_long(log: list[Event]) -> None:
    whole, cut = History("me"), History("me")
    waited_for, contents.WAITED_FOR = contents.WAITED_FOR, 1
    try:
        for newest in log:
            whole.add(newest)
            cut.add(newest)
            cut.keep_latest()
            if not cut.lacks(()):
                assert cut.contents("none") == whole.contents("none")
    finally:
        contents.WAITED_FOR = waited_for


def test_of_a_long_conversation_little_is_left_and_nothing_is_lacking() -> None:
    view = History("me")
    for turn in range(1_000):
        view.add(event("user", said(f"q{turn}"), turn=f"e-{turn}"))
        view.add(event("me", call(f"c{turn}"), turn=f"e-{turn}"))
        view.add(event("me", resp(f"c{turn}", turn), turn=f"e-{turn}", role="user"))
        view.add(event("me", said(f"a{turn}"), turn=f"e-{turn}"))
        view.keep_latest()
        assert len(view) == 4
        assert not view.lacks(())
    assert shown(view.contents("none"))[0] == ("user", ["q999"])
    # The ids of old calls are known all the same, for none may be given out twice.
    assert view.has_call("c0")


def test_a_turn_that_waits_for_its_answer_is_kept_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    view = History("me")
    view.add(event("user", said("may I?"), turn="e-0"))
    view.add(event("me", call("c"), turn="e-0", lro=["c"]))
    for turn in range(1, 5):
        view.add(event("user", said(f"q{turn}"), turn=f"e-{turn}"))
        view.add(event("me", said(f"a{turn}"), turn=f"e-{turn}"))
        view.keep_latest()
    assert len(view) == 10
    monkeypatch.setattr(contents, "WAITED_FOR", 5)
    view.keep_latest()
    assert len(view) == 2
    assert not view.lacks(())
    view.add(event("user", resp("c", "yes"), turn="e-0"))
    assert view.lacks(["c"])
    assert view.lacks(())


def test_a_view_that_keeps_everything_never_lacks_anything() -> None:
    view = History("me")
    view.add(event("user", resp("nobody's"), turn="e-0"))
    assert not view.lacks(["c"])


@settings(max_examples=tries(400))
@given(logs, logs, branches, st.sampled_from(["me", "B", "C", "new"]), st.booleans())
def test_a_newcomer_sees_the_same_as_if_it_had_read_everything(
    before: list[Event], after: list[Event], branch: str | None, agent: str, latest_only: bool
) -> None:
    said_before, warned, warned_anew = History("stranger", branch), list[str](), list[str]()
    anew = History(agent, branch, warned_anew.append)
    for each in before:
        said_before.add(each)
        anew.add(each)
    if latest_only:
        said_before.keep_latest()
        anew.keep_latest()
    shown = said_before.contents("none")
    newcomer = said_before.for_newcomer(agent, warned.append)
    assume(newcomer is not None)
    assert newcomer is not None
    for each in after:
        for history in (newcomer, anew):
            history.add(each)
            if latest_only:
                history.keep_latest()
        answered = [response.id for response in each.function_responses()]
        assert newcomer.contents("none") == anew.contents("none")
        assert newcomer.lacks(answered) == anew.lacks(answered)
        assert newcomer.still_open(answered) == anew.still_open(answered)
        assert newcomer.user_replies(answered) == anew.user_replies(answered)
        if not latest_only:
            assert newcomer.contents() == anew.contents()
    assert warned == warned_anew
    # Whoever comes next begins with the same.
    assert said_before.contents("none") == shown


@settings(max_examples=tries(100))
@given(conversations())
def test_who_has_spoken_is_no_newcomer(log: list[Event]) -> None:
    seen = History("stranger")
    for each in log:
        seen.add(each)
    speakers = {each.author for each in log if each.content is not None and not each.content.is_empty()} - {"user"}
    assert {agent for agent in ("me", "B", "C") if seen.for_newcomer(agent) is None} == speakers


def test_what_a_speaker_has_compiled_serves_no_one_else() -> None:
    history = History("me")
    history.add(event("me", said("hi")))
    assert history.for_newcomer("B") is None
