"""A history that was compiled in part gives the same contents as one that keeps all, or says that it cannot."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors import Event
from actors.rules.prompt import history as contents
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import call, event, resp, said, shown
from tests.support.tries import tries
from tests.unit.rules.prompt.test_history_step_by_step import branches, conversations, logs


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
