"""Turns are found by agent, error, id and age, by what their records say, page by page."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, tool
from actors.errors import AgentFailedError, RequestError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns import finding
from runtime.web import app_for
from tests.support import inside
from tests.support.agents.conversation_tools import Gate
from tests.support.models.metered_model import MeteredModel
from tests.support.polling import until
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving


def fail_if_told(context: CallbackContext, request: LlmRequest) -> None:
    """Fail with the words of the message after `fail`."""
    for content in request.contents:
        if content.text.startswith("fail "):
            raise ConnectionError(content.text.removeprefix("fail "))


def tree(gate: Gate) -> LlmAgent:
    """A root that hands over to a clerk."""
    clerk = LlmAgent(
        name="clerk",
        model=PatternModel([("tool:wait", "ok"), ("wait", {"call": "wait"})], default="ok"),
        tools=[gate.tool()],
        before_model_callback=fail_if_told,
    )
    model = PatternModel([("clerk|wait|fail", {"transfer": "clerk"})], default="ok")
    return LlmAgent(name="root", model=model, sub_agents=[clerk])


def found(rt: Runtime, **wanted: Any) -> list[str]:
    return [turn.invocation_id for turn in rt.turns.list(**wanted)]


def test_turns_are_found_by_what_their_records_say(deploy: Deploy, gate: Gate) -> None:
    with deploy(tree(gate)) as rt:

        def ends(invocation_id: str, message: str, session: str, user: str = "ada") -> None:
            turn = rt.run(user_id=user, session_id=session, message=message, invocation_id=invocation_id)
            if message.startswith("fail"):
                with pytest.raises(AgentFailedError):
                    turn.result()
            else:
                turn.result()

        ends("import-1", "hello", "s1")
        ends("import-2", "fail no connection", "s2")
        ends("e-3", "fail no room", "s3", "bob")
        # The agent of an ended turn is the one that was selected: here the one that spoke last before.
        ends("e-0", "clerk", "s4", "bob")
        ends("e-4", "hello", "s4", "bob")
        running = rt.run(user_id="ada", session_id="s5", message="wait", invocation_id="import-5")
        gate.wait_for_caller()
        in_line = rt.run(user_id="ada", session_id="s5", message="hello", invocation_id="import-6")
        until(lambda: rt.turns.counts().waiting)
        assert found(rt) == ["import-6", "import-5", "e-4", "e-0", "e-3", "import-2", "import-1"]
        assert found(rt, agent="clerk") == ["import-5", "e-4", "e-3", "import-2"]
        assert found(rt, agent="clerk", user_id="bob", limit=1) == ["e-4"]
        assert found(rt, agent="nobody") == []
        assert found(rt, error="NO CONN") == ["import-2"]
        assert found(rt, error="connectionerror", state="failed") == ["e-3", "import-2"]
        assert found(rt, invocation="import-") == ["import-6", "import-5", "import-2", "import-1"]
        assert found(rt, invocation="import-", agent="root", state="finished") == ["import-1"]
        assert found(rt, text="HELLO") == ["e-4", "import-1"]
        assert found(rt, text="no ", state="failed") == ["e-3", "import-2"]
        assert found(rt, text="ok", user_id="bob") == ["e-4", "e-0"]
        assert found(rt, text="wait") == ["import-5"]
        assert found(rt, text="hello", limit=1) == ["e-4"]
        assert found(rt, since=timedelta(hours=1)) == found(rt)
        assert found(rt, older_than=3600) == []
        [newest, *_] = rt.turns.list(agent="clerk")
        assert found(rt, agent="clerk", before=newest) == ["e-4", "e-3", "import-2"]
        gate.open()
        assert [turn.result().text for turn in (running, in_line)] == ["ok"] * 2


@tool
def check(number: int) -> str:
    """Check a number, of which there is none below zero."""
    if number < 0:
        raise LookupError(f"there is no {number}")
    return "checked"


@tool(require_confirmation=True)
def pay() -> str:
    """Pay."""
    return "paid"


def checking() -> LlmAgent:
    """An agent that checks numbers, pays once a number was not there, and counts tokens."""
    answers: list[tuple[str, Any]] = [
        ("tool:pay", "Paid."),
        ("tool:check", {"call": "pay"}),
        ("wrong twice", {"parts": [{"call": "check", "args": {"number": number}} for number in (-1, 1, -2)]}),
        ("right", {"call": "check", "args": {"number": 1}}),
    ]
    return LlmAgent(name="root", model=MeteredModel(PatternModel(answers, default="ok")), tools=[check, pay])


def test_a_turn_says_what_it_used_and_how_many_tools_failed_also_after_a_pause_and_a_restart(deploy: Deploy) -> None:
    with deploy(checking()) as rt:
        for invocation_id, message in (("e-1", "hello"), ("e-2", "right"), ("e-3", "wrong twice")):
            rt.run(user_id="ada", session_id=invocation_id, message=message, invocation_id=invocation_id).result()
        used = {turn.invocation_id: (turn.state, turn.tokens, turn.failed_tools) for turn in rt.turns.list()}
        assert used == {
            turn: (state, rt.usage("ada", turn).total.tokens, failed)
            for turn, state, failed in (("e-1", "finished", 0), ("e-2", "paused", 0), ("e-3", "paused", 2))
        }
        assert used["e-1"][1] > 0
        assert found(rt, failed_tools=True) == ["e-3"]
        assert found(rt, failed_tools=True, state="finished") == []
    with deploy(checking()) as rt:
        for call in rt.turns.pending("ada"):
            rt.answer({call.call_id: True}, user_id="ada", session_id=call.session_id).result()
        assert {turn.state for turn in rt.turns.list()} == {"finished"}
        assert found(rt, failed_tools=True) == ["e-3"]
        assert rt.turns.get("ada", "e-3", "e-3").failed_tools == 2
        with serving(app_for(rt)) as url:
            listed = httpx2.get(f"{url}/v1/apps/{rt.app_name}/turns", params={"failed_tools": "true"}, timeout=TIMEOUT_S).json()
        assert [(turn["invocationId"], turn["failedTools"]) for turn in listed["turns"]] == [("e-3", 2)]


def test_ages_count_from_the_beginning_of_a_turn(local: Deploy, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    with local(tree(gate)) as rt:
        for number in range(4):
            rt.run(user_id="ada", session_id=f"s{number}", message="hello", invocation_id=f"e-{number}").result()
        begun_s = rt.turns.get("ada", "s1", "e-1").begun_s
        monkeypatch.setattr(finding, "now_s", lambda: begun_s + 64.0)
        assert found(rt, older_than=64) == ["e-0"]
        assert found(rt, since=64) == ["e-3", "e-2", "e-1"]
        assert found(rt, since=timedelta(seconds=64), limit=2) == ["e-3", "e-2"]
        [last] = rt.turns.list(since=64, limit=1)
        assert found(rt, since=64, before=last) == ["e-2", "e-1"]
        [*_, oldest] = rt.turns.list()
        assert found(rt, older_than=64, before=oldest) == []
        assert found(rt, since=64, older_than=64) == []


@pytest.mark.parametrize("wrong", [{"agent": 1}, {"error": b"x"}, {"invocation": None, "since": 0}, {"older_than": "1h"}])
def test_what_is_wrong_is_refused(local: Deploy, gate: Gate, wrong: dict[str, Any]) -> None:
    with local(tree(gate)) as rt, pytest.raises(RequestError, match=f"^{list(wrong)[-1]} must be"):
        rt.turns.list(**wrong)


def test_a_list_goes_on_where_many_turns_do_not_fit(local: Deploy, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reply looks at so many records at most; nothing is left out, and the log of no session is read."""
    inside.change(monkeypatch, "lists", MAX_LISTED=3, MAX_SCANNED=6)
    with local(tree(gate)) as rt:
        for number in range(23):
            if number in (0, 9, 10, 22):
                rt.run(user_id="ada", session_id=f"s{number}", message="clerk").result()
            rt.run(user_id="ada", session_id=f"s{number}", message="hello", invocation_id=f"e-{number}").result()
        assert found(rt, agent="clerk") == ["e-22", "e-10", "e-9", "e-0"]
        assert found(rt, agent="clerk", limit=3) == ["e-22", "e-10", "e-9"]
        assert found(rt, agent="nobody") == []


def test_a_text_is_found_in_whatever_letters_and_however_many_turns_lack_it(
    local: Deploy, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.change(monkeypatch, "lists", MAX_READ=3)
    with local(tree(gate)) as rt:
        for number in range(12):
            text = "Grüße aus Köln" if number in (0, 5, 11) else "hello"
            rt.run(user_id="ada", session_id="s1", message=text, invocation_id=f"e-{number}").result()
        assert found(rt, text="KÖLN") == ["e-11", "e-5", "e-0"]
        assert found(rt, text="köln", limit=2) == ["e-11", "e-5"]
        assert found(rt, text="AUS") == ["e-11", "e-5", "e-0"]
        assert found(rt, text="functionCall") == []


def test_the_service_finds_turns_and_errors_for_administrators_only(local: Deploy, gate: Gate) -> None:
    with local(tree(gate), app_name="desk") as rt, serving(app_for(rt)) as url:
        with pytest.raises(AgentFailedError):
            rt.run(user_id="ada", session_id="s1", message="fail no room", invocation_id="e-1").result()
        for number in range(2):
            rt.run(user_id="ada", session_id="s2", message="clerk", invocation_id=f"e-2{number}").result()

        def listed(**query: Any) -> list[str]:
            reply = httpx2.get(f"{url}/v1/apps/desk/turns", params=query, timeout=TIMEOUT_S)
            assert reply.status_code == 200, reply.text
            return [turn["invocationId"] for turn in reply.json()["turns"]]

        assert listed(agent="clerk", since=3600) == ["e-21", "e-1"]
        assert listed(error="no room") == ["e-1"]
        assert listed(text="no room") == ["e-1"]
        assert listed(invocation="e-2", older_than=3600) == []
        wrong = httpx2.get(f"{url}/v1/apps/desk/turns", params={"older_then": 1}, timeout=TIMEOUT_S)
        assert (wrong.status_code, "older_than" in wrong.text) == (400, True)
