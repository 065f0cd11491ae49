"""How turns, models and tools have ended is counted by agent, model and tool, and stays when processes are lost."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress

from actors import LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool
from actors.errors import AgentFailedError
from actors.messages.protocol.statistics import MODEL_CALL, TOOL_CALL, TURN, VERSION
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.frontends.web.monitoring import exposition
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn


class ShakyModel(PatternModel):
    """Has a connection unless it is asked to break it."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        if "break" in request.contents[-1].text:
            raise ConnectionError("no connection")
        async for response in super().generate(request, stream=stream):
            yield response


def pay(amount: int) -> str:
    """Pay."""
    if amount > 80:
        raise ValueError("too much")
    return "paid"


def ask(question: str) -> None:
    """Ask a person."""


def desk() -> LlmAgent:
    billing = LlmAgent(
        name="billing",
        description="Pays.",
        model=ShakyModel(
            [
                ("tool:", "done"),
                ("pay 90", {"call": "pay", "args": {"amount": 90}}),
                ("pay", {"call": "pay", "args": {"amount": 8}}),
                ("ask", {"call": "ask", "args": {"question": "?"}}),
            ]
        ),
        tools=[pay, LongRunningFunctionTool(ask)],
    )
    return LlmAgent(
        name="desk", model=ShakyModel([("pay|ask|break2", {"transfer": "billing"})], default="hi"), sub_agents=[billing]
    )


def counted(rt: Runtime, kind: str) -> dict[tuple[str, ...], int]:
    return {tally.labels: tally.count for tally in rt.statistics().session.tallies if tally.kind == kind}


def test_turns_models_and_tools_are_counted_by_how_they_ended(deploy: Deploy) -> None:
    with deploy(desk()) as rt:
        for number, message in enumerate(("hi", "pay 8", "pay 90", "ask", "break", "hi")):
            with suppress(AgentFailedError):
                run_turn(rt, message, session_id=f"s{number}")
            if deploy.engine == "ray" and message == "pay 90":
                os.kill(rt.statistics().agents["billing"].pid, signal.SIGKILL)
        assert counted(rt, TURN) == {
            ("desk", "finished", ""): 2,
            ("billing", "finished", ""): 2,
            ("billing", "paused", ""): 1,
            ("desk", "failed", "ConnectionError"): 1,
        }
        [version] = rt.versions()
        of_version = {(version.id, "finished"): 4, (version.id, "paused"): 1, (version.id, "failed"): 1}
        assert counted(rt, VERSION) == of_version
        assert counted(rt, MODEL_CALL) == {
            ("desk", "ShakyModel", ""): 5,
            ("billing", "ShakyModel", ""): 5,
            ("desk", "ShakyModel", "ConnectionError"): 1,
        }
        assert counted(rt, TOOL_CALL) == {
            ("desk", "transfer_to_agent", "ok"): 3,
            ("billing", "pay", "ok"): 1,
            ("billing", "pay", "failed"): 1,
        }
        figures = rt.statistics()
        assert all(sum(tally.buckets) == tally.count for tally in figures.session.tallies if tally.kind == TURN)
        assert all(sum(tally.buckets) <= tally.count for tally in figures.session.tallies)
        text = exposition({"test": figures}, {}, 0)
    labels = 'app="test",agent="desk",outcome="failed",error_type="ConnectionError"'
    for line in (
        "# TYPE raygrove_turn_duration_seconds histogram",
        f"raygrove_turns_ended_total{{{labels}}} 1",
        f'raygrove_turn_duration_seconds_bucket{{{labels},le="+Inf"}} 1',
        f"raygrove_turn_duration_seconds_count{{{labels}}} 1",
        'raygrove_tool_calls_total{app="test",agent="billing",tool="pay",outcome="failed"} 1',
    ):
        assert line in text.splitlines()


def test_a_call_that_was_cancelled_with_its_turn_has_not_failed(local: Deploy) -> None:
    with local(desk()) as rt:
        run_turn(rt, "ask")
        [paused] = rt.turns.list()
        rt.attach(user_id="ada", session_id="s1", invocation_id=paused.invocation_id).cancel()
        until(lambda: rt.turns.list()[0].state == "cancelled")
        assert counted(rt, TOOL_CALL) == {("desk", "transfer_to_agent", "ok"): 1, ("billing", "ask", "cancelled"): 1}
