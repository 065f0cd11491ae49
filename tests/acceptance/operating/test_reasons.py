"""Why a message of the user went to the agent that got it, told by the log and the tree."""

from __future__ import annotations

import pytest

from actors import Content, Event, LlmAgent, SequentialAgent, tool
from actors.errors import InvocationNotFoundError
from actors.messages.turn_info import PassedOver
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.reports import SelectionReason
from tests.support.runtimes import Deploy, run_turn, stored

DONE = PatternModel([], default="Done.")


@tool(require_confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def tree() -> LlmAgent:
    """A root that hands over to an agent, to one that keeps nothing, and to a workflow."""
    billing = LlmAgent(
        name="billing",
        description="Money.",
        model=PatternModel([("tool:pay", "Paid."), ("pay", {"call": "pay", "args": {"amount": 3}})], default="Billing."),
        tools=[pay],
    )
    oracle = LlmAgent(name="oracle", description="Knows.", model=DONE, disallow_transfer_to_parent=True)
    line = SequentialAgent(name="line", description="Works.", sub_agents=[LlmAgent(name="worker", model=DONE)])
    targets = [(name, {"transfer": name}) for name in ("billing", "oracle", "line")]
    return LlmAgent(name="root", model=PatternModel(targets, default="Hello."), sub_agents=[billing, oracle, line])


def reasons(rt: Runtime) -> list[SelectionReason]:
    """Those of the newest turn of the session."""
    return rt.turns.why("ada", "s1", stored(rt)[-1].invocation_id)


def test_each_message_has_its_reason(deploy: Deploy) -> None:
    with deploy(tree()) as rt:
        run_turn(rt, "hi")
        assert reasons(rt) == [SelectionReason(seq=1, agent="root", because="root")]
        run_turn(rt, "oracle")
        asked = run_turn(rt, "line")
        assert asked[0].author == "root"
        passed = (PassedOver(agent="oracle", because="disallowed", by="oracle"),)
        assert reasons(rt) == [SelectionReason(seq=asked[0].seq - 1, agent="root", because="spoke", passed_over=passed)]
        said = run_turn(rt, "billing")
        workflow = tuple(PassedOver(agent=name, because="kind", by="line") for name in ("worker", "line"))
        assert reasons(rt) == [SelectionReason(seq=said[0].seq - 1, agent="root", because="spoke", passed_over=workflow)]
        paused = run_turn(rt, "pay")
        call_id = next(paused[-1].function_calls()).id or ""
        answered = list(rt.answer({call_id: True}, user_id="ada", session_id="s1"))
        assert answered[-1].text == "Paid."
        assert reasons(rt) == [
            SelectionReason(seq=paused[0].seq - 1, agent="billing", because="spoke"),
            SelectionReason(seq=answered[0].seq - 1, agent="billing", because="answers", call_id=call_id),
        ]
        with pytest.raises(InvocationNotFoundError):
            rt.turns.why("ada", "s1", "none")


def test_it_is_found_behind_any_number_of_events_of_agents_that_get_no_messages(deploy: Deploy) -> None:
    with deploy(tree()) as rt:
        for message in ("hi", *["line"] * 3):
            run_turn(rt, message)
        event = stored(rt)[-1]
        assert event.author == "worker"
        for number in range(1_100):
            said = Event(author="gone" if number % 2 else "worker", content=Content.of_text("…", role="model"))
            rt.sessions.append_event("ada", "s1", said)
        run_turn(rt, "hi")
        [reason] = reasons(rt)
        assert (reason.agent, reason.because) == ("root", "spoke")
        assert [(passed.agent, passed.because) for passed in reason.passed_over] == [
            ("gone", "unknown"),
            ("worker", "kind"),
            ("line", "kind"),
        ]
