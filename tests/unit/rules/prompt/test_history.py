"""What an agent sees of the log, sentence by sentence (semantics.md 5.4). The agent of every test is `me`."""

from __future__ import annotations

import pytest

from actors import Content, Event, Part
from actors.rules.prompt.compiler import IncludeContents, Warn
from actors.rules.prompt.history import History
from actors.rules.routing.branches import is_visible
from tests.support.fixtures.log_events import call, event, image, resp, said, shown, thought

Shown = list[tuple[str | None, list[str]]]


def seen(*log: Event, branch: str | None = None, include: IncludeContents = "default", warn: Warn | None = None) -> Shown:
    view = History("me", branch, warn)
    for each in log:
        view.add(each)
    return shown(view.contents(include))


def test_partial_and_content_less_events_are_dropped() -> None:
    assert seen(
        event("user", said("q")),
        event("me", said("answ"), partial=True),
        event("me"),
        event("me", Part()),
        event("me", Part(text="")),
        Event(author="me", content=Content(role="model", parts=[])),
        event("me", error_code="ValueError", error_message="no"),
        event("me", said("answer")),
    ) == [("user", ["q"]), ("model", ["answer"])]


@pytest.mark.parametrize(
    ("of_event", "of_agent", "visible"),
    [
        (None, None, True),
        ("", "b1", True),
        (None, "b1", True),
        ("b1", None, True),
        ("b1", "", True),
        ("b1", "b1", True),
        ("b1", "b1.x", True),
        ("b1", "b1.x.y", True),
        ("b1.x", "b1.x.y", True),
        ("b1", "b10", False),
        ("b1", "b10.x", False),
        ("b1.x", "b1", False),
        ("b1.x", "b1.y", False),
        ("b2", "b1", False),
        ("x", "b1.x", False),
    ],
)
def test_an_event_is_kept_if_a_branch_is_empty_or_they_are_equal_or_its_branch_is_an_ancestor(
    of_event: str | None, of_agent: str | None, visible: bool
) -> None:
    assert is_visible(of_event, of_agent) is visible
    assert seen(event("me", said("x"), branch=of_event), branch=of_agent) == ([("model", ["x"])] if visible else [])


def test_events_of_other_agents_become_user_content_that_says_who_did_what() -> None:
    assert seen(
        event("B", said("hello"), call("c1", "f", x=1, y=["é"]), said("bye")),
        event("B", resp("c1", {"ok": True}), role="user"),
    ) == [
        ("user", ["For context:", "[B] said: hello", '[B] called tool `f` with parameters: {"x":1,"y":["é"]}', "[B] said: bye"]),
        ("user", ["For context:", '[B] `f` tool returned result: {"result":{"ok":true}}']),
    ]


def test_others_images_stay_and_their_thoughts_are_dropped() -> None:
    assert seen(event("B", thought("hm"), image(), Part(text=""))) == [("user", ["For context:", "<image/png>"])]
    assert seen(event("B", thought("hm"))) == []
    signed = Part(thought_signature=b"s", text="so")
    assert seen(event("B", signed)) == [("user", ["For context:", "[B] said: so"])]


def test_what_another_model_signed_is_never_shown() -> None:
    assert seen(event("B", Part(thought_signature=b"s"))) == []
    view = History("me")
    view.add(event("B", Part(thought_signature=b"s", inline_data=image().inline_data), said("x")))
    assert [part.thought_signature for content in view.contents() for part in content.parts] == [None, None, None]


def test_own_calls_responses_and_thoughts_stay_as_they_are() -> None:
    signed = Part(text="hm", thought=True, thought_signature=b"s")
    view = History("me")
    view.add(event("me", signed, said("let me see"), call("c1")))
    view.add(event("me", resp("c1", 7), role="user"))
    assert shown(view.contents()) == [
        ("model", ["<thought hm>", "let me see", "<call f c1>"]),
        ("user", ["<resp f c1 7>"]),
    ]
    assert view.contents()[0].parts[0] == signed


def test_a_users_response_to_another_agents_call_is_quoted_in_place() -> None:
    assert seen(
        event("user", said("q")),
        event("B", call("c1", "ask"), lro=["c1"]),
        event("B", said("I asked")),
        event("user", resp("c1", "yes", "ask")),
        event("user", said("and now?")),
    ) == [
        ("user", ["q"]),
        ("user", ["For context:", "[B] called tool `ask` with parameters: {}"]),
        ("user", ["For context:", "[B] said: I asked"]),
        ("user", ['[user] `ask` tool returned result: {"result":"yes"}']),
        ("user", ["and now?"]),
    ]


def test_a_users_response_belongs_to_the_newest_call_of_that_id() -> None:
    assert seen(
        event("me", call("c1"), lro=["c1"]),
        event("B", call("c1", "ask"), lro=["c1"]),
        event("user", resp("c1", "yes", "ask")),
    ) == [
        ("model", ["<call f c1>"]),
        ("user", ["<waits f c1>"]),
        ("user", ["For context:", "[B] called tool `ask` with parameters: {}"]),
        ("user", ['[user] `ask` tool returned result: {"result":"yes"}']),
    ]


def test_every_call_is_followed_directly_by_one_merged_response() -> None:
    assert seen(
        event("me", said("both"), call("c1"), call("c2", "g")),
        event("me", resp("c2", 2, "g"), role="user"),
        event("B", said("hi")),
        event("me", resp("c1", 1), role="user"),
        event("me", said("done")),
    ) == [
        ("model", ["both", "<call f c1>", "<call g c2>"]),
        ("user", ["<resp f c1 1>", "<resp g c2 2>"]),
        ("user", ["For context:", "[B] said: hi"]),
        ("model", ["done"]),
    ]


def test_the_latest_response_of_an_id_wins_also_a_late_one() -> None:
    assert seen(
        event("me", call("c1"), lro=["c1"]),
        event("me", resp("c1", "pending"), role="user"),
        event("me", said("wait")),
        event("user", said("any news?"), turn="e-2"),
        event("me", said("no"), turn="e-2"),
        event("user", resp("c1", "done")),
        event("me", said("there it is")),
    ) == [
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 done>"]),
        ("model", ["wait"]),
        ("user", ["any news?"]),
        ("model", ["no"]),
        ("model", ["there it is"]),
    ]


def test_what_the_user_decides_on_a_call_is_not_what_came_of_it() -> None:
    log = [
        event("me", call("c1", "pay"), call("c2", "ask"), lro=["c1"], consents=["c1"]),
        event("me", asks=["c2"]),
        event("user", resp("c1", {"confirmed": True}, "pay"), resp("c2", "blue", "ask")),
        event("user", said("done?"), turn="e-2"),
    ]
    calls = ("model", ["<call pay c1>", "<call ask c2>"])
    assert seen(*log) == [calls, ("user", ["<waits pay c1>", "<waits ask c2>"]), ("user", ["done?"])]
    results = event("me", resp("c1", "paid", "pay"), resp("c2", "painted", "ask"))
    assert seen(*log, results)[-2:] == [calls, ("user", ["<resp pay c1 paid>", "<resp ask c2 painted>"])]


def test_what_the_user_decides_on_another_agents_call_is_not_quoted_but_what_came_of_it_is() -> None:
    assert seen(
        event("B", call("c1", "pay"), lro=["c1"], consents=["c1"]),
        event("user", resp("c1", {"confirmed": True}, "pay")),
        event("B", resp("c1", "paid", "pay"), role="user"),
    ) == [
        ("user", ["For context:", "[B] called tool `pay` with parameters: {}"]),
        ("user", ["For context:", '[B] `pay` tool returned result: {"result":"paid"}']),
    ]


def test_calls_that_were_never_answered_are_dropped_unless_they_are_long_running() -> None:
    log = [
        event("user", said("q")),
        event("me", said("trying"), call("c1"), call("c2"), call("c3"), lro=["c2"]),
        event("me", call("c4")),
        event("me", call(None, "nameless")),
        event("user", said("never mind"), turn="e-2"),
    ]
    assert seen(*log) == [
        ("user", ["q"]),
        ("model", ["trying", "<call f c2>"]),
        ("user", ["<waits f c2>"]),
        ("user", ["never mind"]),
    ]


def test_of_several_calls_only_those_with_an_answer_stay() -> None:
    assert seen(event("me", call("c1"), call("c2")), event("me", resp("c2", 2), role="user")) == [
        ("model", ["<call f c2>"]),
        ("user", ["<resp f c2 2>"]),
    ]


def test_orphan_responses_are_dropped_with_a_warning() -> None:
    warnings: list[str] = []
    log = [event("user", said("q")), event("user", resp("zzz", 1), said("beside")), event("me", resp("c9", 1), role="user")]
    assert seen(*log, warn=warnings.append) == seen(*log) == [("user", ["q"]), ("user", ["beside"])]
    assert warnings == [
        "agent 'me': dropped the response 'zzz', which answers no call that it sees",
        "agent 'me': dropped the response 'c9', which answers no call that it sees",
    ]


def test_a_response_to_a_call_on_another_branch_is_an_orphan() -> None:
    log = [event("B", call("c1"), branch="p.B", lro=["c1"]), event("user", resp("c1", 1))]
    assert seen(*log, branch="p.me") == []
    assert seen(*log, branch="p.B.me") != []


def test_with_a_late_answer_as_the_newest_event_its_call_moves_directly_before_it() -> None:
    assert seen(
        event("user", said("buy")),
        event("me", call("c1"), lro=["c1"]),
        event("me", resp("c1", "pending"), role="user"),
        event("me", said("I wait for the approval")),
        event("user", said("what time is it?"), turn="e-2"),
        event("me", said("noon"), turn="e-2"),
        event("B", said("psst"), turn="e-2"),
        event("user", resp("c1", "approved")),
    ) == [
        ("user", ["buy"]),
        ("user", ["what time is it?"]),
        ("model", ["noon"]),
        ("user", ["For context:", "[B] said: psst"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 approved>"]),
    ]


def test_text_beside_a_late_answer_stands_behind_it() -> None:
    assert seen(
        event("me", call("c1"), lro=["c1"]),
        event("user", said("hm"), turn="e-2"),
        event("user", said("be quick"), resp("c1", "ok")),
    ) == [("user", ["hm"]), ("model", ["<call f c1>"]), ("user", ["<resp f c1 ok>"]), ("user", ["be quick"])]


def test_several_late_answers_in_one_message_bring_all_their_calls_along() -> None:
    assert seen(
        event("me", call("c1"), lro=["c1"]),
        event("me", said("one asked")),
        event("user", said("more"), turn="e-2"),
        event("me", call("c2", "g"), lro=["c2"], turn="e-2"),
        event("me", said("two asked"), turn="e-2"),
        event("user", said("hm"), turn="e-3"),
        event("user", resp("c2", 2, "g"), resp("c1", 1)),
    ) == [
        ("user", ["more"]),
        ("user", ["hm"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
        ("model", ["<call g c2>"]),
        ("user", ["<resp g c2 2>"]),
    ]


def test_a_late_answer_to_one_call_of_a_turn_keeps_what_it_said_before_that_call() -> None:
    assert seen(
        event("me", said("first")),
        event("me", call("c1"), lro=["c1"]),
        event("me", said("second")),
        event("user", said("other"), turn="e-2"),
        event("user", resp("c1", 1)),
    ) == [("model", ["first"]), ("user", ["other"]), ("model", ["<call f c1>"]), ("user", ["<resp f c1 1>"])]


def test_parts_left_empty_by_an_answer_are_no_content() -> None:
    assert seen(event("me", call("c1")), event("user", Part(text=""), resp("c1", 1))) == [
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
    ]


def test_what_others_said_in_the_same_turn_stays_in_front_of_a_late_answer() -> None:
    assert seen(
        event("me", call("c1"), lro=["c1"]),
        event("B", said("from B")),
        event("me", said("mine")),
        event("user", said("from the user")),
        event("user", resp("c1", 1)),
    ) == [
        ("user", ["For context:", "[B] said: from B"]),
        ("user", ["from the user"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
    ]


def latest(*log: Event) -> Shown:
    """What an agent with `include_contents="none"` sees."""
    return seen(*log, include="none")


def test_with_none_it_begins_with_the_newest_message_of_the_user() -> None:
    assert latest(
        event("user", said("q1")),
        event("me", said("r1")),
        event("user", said("q2"), turn="e-2"),
        event("me", call("c1"), turn="e-2"),
        event("me", resp("c1", 1), role="user", turn="e-2"),
    ) == [("user", ["q2"]), ("model", ["<call f c1>"]), ("user", ["<resp f c1 1>"])]


def test_with_none_it_begins_with_the_newest_event_of_another_agent() -> None:
    assert latest(event("user", said("q")), event("B", said("one")), event("B", said("two")), event("me", said("mine"))) == [
        ("user", ["For context:", "[B] said: two"]),
        ("model", ["mine"]),
    ]


def test_neither_a_transfers_call_nor_its_response_begins_it() -> None:
    log = [
        event("user", said("q")),
        event("B", call("t1", "transfer_to_agent", agent_name="me")),
        event("B", resp("t1", None, "transfer_to_agent"), role="user", transfer="me"),
    ]
    assert [parts[0] for _, parts in latest(*log)] == ["q", "For context:", "For context:"]


def test_any_event_with_a_transfer_action_counts_as_a_transfers_response() -> None:
    log = [
        event("user", said("q")),
        event("B", call("c1", "route"), resp("x", 1, "transfer_to_agent")),
        event("B", resp("c1", "routed", "route"), role="user", transfer="me"),
    ]
    assert [parts[0] for _, parts in latest(*log)] == ["q", "For context:", "For context:"]


def test_a_user_event_of_mere_responses_does_not_begin_it() -> None:
    log = [
        event("user", said("q")),
        event("B", call("c1", "ask"), lro=["c1"]),
        event("user", resp("c1", "yes", "ask")),
    ]
    assert [parts[-1] for _, parts in latest(*log)] == [
        "[B] called tool `ask` with parameters: {}",
        '[user] `ask` tool returned result: {"result":"yes"}',
    ]
    assert latest(*log, event("user", said("and?"), resp("c1", "no", "ask"))) == [
        ("user", ["and?", '[user] `ask` tool returned result: {"result":"no"}'])
    ]


def test_with_a_late_answer_it_begins_no_later_than_the_message_of_the_turn_that_made_the_call() -> None:
    assert latest(
        event("user", said("old"), turn="e-0"),
        event("me", said("older"), turn="e-0"),
        event("user", said("buy")),
        event("me", call("c1"), lro=["c1"]),
        event("me", said("waiting")),
        event("user", said("time?"), turn="e-2"),
        event("me", said("noon"), turn="e-2"),
        event("user", resp("c1", "approved")),
    ) == [
        ("user", ["buy"]),
        ("user", ["time?"]),
        ("model", ["noon"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 approved>"]),
    ]


def test_the_message_of_a_turn_that_was_paused_is_its_first() -> None:
    assert latest(
        event("user", said("old"), turn="e-0"),
        event("user", said("buy")),
        event("me", call("c1"), lro=["c1"]),
        event("user", said("yes"), resp("c1", 1)),
        event("me", call("c2"), lro=["c2"]),
        event("user", said("time?"), turn="e-2"),
        event("user", resp("c2", 2)),
    ) == [
        ("user", ["buy"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
        ("user", ["yes"]),
        ("user", ["time?"]),
        ("model", ["<call f c2>"]),
        ("user", ["<resp f c2 2>"]),
    ]


def test_a_late_answer_that_the_longer_slice_takes_in_lengthens_it_further() -> None:
    assert latest(
        event("user", said("first")),
        event("me", call("c1"), lro=["c1"]),
        event("user", said("second"), turn="e-2"),
        event("me", call("c2"), lro=["c2"], turn="e-2"),
        event("user", resp("c1", 1)),
        event("me", said("one is there")),
        event("user", said("third"), turn="e-3"),
        event("user", resp("c2", 2), turn="e-2"),
    ) == [
        ("user", ["first"]),
        ("model", ["<call f c1>"]),
        ("user", ["<resp f c1 1>"]),
        ("user", ["second"]),
        ("model", ["one is there"]),
        ("user", ["third"]),
        ("model", ["<call f c2>"]),
        ("user", ["<resp f c2 2>"]),
    ]


def test_the_latest_contents_without_any_beginning_are_everything() -> None:
    assert latest(event("me", said("a")), event("me", said("b"))) == [("model", ["a"]), ("model", ["b"])]
    assert latest() == []
