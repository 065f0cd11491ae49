"""What a tool has given that has ended is kept, whatever becomes of the calls beside it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from actors import CallbackContext, Content, Event, FunctionResponse, FunctionTool, LlmAgent, LoopAgent, Part, Plugin, ToolContext
from actors.errors import AgentFailedError, TurnCancelledError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.agents.conversation_tools import Gate
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, stored, stored_state

CALLS = 20

AT_ONCE = Settings(results_wait_s=0)


class Payments:
    """A tool that notes each payment in a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "paid"

    def pay(self, number: int, tool_context: ToolContext) -> str:
        """Pay."""
        with self._file.open("a") as file:
            file.write(f"{number}\n")
        tool_context.state[f"paid_{number}"] = True
        return f"paid {number}"

    def made(self) -> list[int]:
        return sorted(map(int, self._file.read_text().split()))


def payer(payments: Payments, gate: Gate, text: str = "done") -> LlmAgent:
    """An agent that pays twenty times, and waits at the gate beside that."""
    calls = [{"call": "pay", "args": {"number": number}} for number in range(CALLS)]
    model = ScriptedModel([{"parts": [*calls[:10], {"call": "wait"}, *calls[10:]]}, text])
    return LlmAgent(name="payer", model=model, tools=[FunctionTool(payments.pay), gate.tool()])


def results(events: list[Event]) -> dict[str, Any]:
    """The results of calls, by their ids."""
    return {response.id or "": response.response for event in events for response in event.function_responses()}


def until_paid(turn: Iterator[Event]) -> None:
    """Read a turn until all payments are in the log."""
    seen = 0
    while seen < CALLS:
        seen += len(list(next(turn).function_responses()))


def test_a_process_that_is_lost_beside_a_slow_call_repeats_no_payment(deploy: Deploy, tmp_path: Path) -> None:
    payments, gate = Payments(tmp_path), Gate(tmp_path)
    with deploy(payer(payments, gate), settings=AT_ONCE) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        events = iter(turn)
        until_paid(events)
        if deploy.engine == "ray":
            gate.wait_for_caller()
            gate.forget_callers()
            os.kill(rt.statistics().agents["payer"].pid, signal.SIGKILL)
            gate.wait_for_caller()
        gate.open()
        *_, last = events
        assert last.text == "done"
        calls = [call.id for event in stored(rt) for call in event.function_calls()]
        given = results(stored(rt))
        state = stored_state(rt)
    assert payments.made() == list(range(CALLS))
    assert set(given) == set(calls)
    assert sum(str(response["result"]).startswith("paid") for response in given.values()) == CALLS
    assert state == {f"paid_{number}": True for number in range(CALLS)}


def test_a_turn_that_is_cancelled_says_paid_of_what_was_paid(deploy: Deploy, tmp_path: Path) -> None:
    payments, gate = Payments(tmp_path), Gate(tmp_path)
    with deploy(payer(payments, gate), settings=AT_ONCE) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        until_paid(iter(turn))
        turn.cancel()
        with pytest.raises(TurnCancelledError):
            turn.result()
        given = results(stored(rt))
        gate.release()
    cancelled = [response for response in given.values() if response == {"error": "cancelled"}]
    assert (len(given), len(cancelled)) == (CALLS + 1, 1)


def test_the_model_gets_results_that_came_one_by_one_as_if_they_had_come_together(local: Deploy, tmp_path: Path) -> None:
    def asked(settings: Settings) -> list[Any]:
        one_by_one = OneByOne(3)
        model = ScriptedModel([{"parts": one_by_one.calls()}, "done"])
        agent = LlmAgent(name="root", model=model, tools=[one_by_one.tool()])
        one_by_one.play(local(agent, settings=settings, session_store="sqlite://"), waits=settings is AT_ONCE)
        # The ids of the calls are others in each run.
        return [
            [(part.text, part.function_response and part.function_response.response) for part in content.parts]
            for content in model.requests[1].contents
        ]

    assert asked(AT_ONCE) == asked(Settings(results_wait_s=30))


class OneByOne:
    """Calls that end one after the other: each when the result of the one before is in the log.

    Attributes:
        again: the calls that were made though their result was there.
        acts: what a call does besides, by its number.
    """

    def __init__(self, calls: int) -> None:
        self.again: list[int] = []
        self.acts: dict[int, Callable[[ToolContext], object]] = {}
        self._calls = calls
        self._gates = [threading.Event() for _ in range(calls)]
        self._seen: set[int] = set()

    def step(self, number: int, tool_context: ToolContext) -> int:
        """Make a step."""
        if number in self._seen:
            self.again.append(number)
        assert self._gates[number].wait(30)
        if number in self.acts:
            self.acts[number](tool_context)
        return number

    def tool(self, *, confirmed: bool = False) -> FunctionTool:
        return FunctionTool(self.step, require_confirmation=confirmed)

    def calls(self) -> list[dict[str, Any]]:
        """The calls, the first to end last."""
        return [{"call": "step", "args": {"number": number}} for number in reversed(range(self._calls))]

    def play(self, rt: Runtime, *, waits: bool = True, fails: bool = False) -> tuple[list[Event], dict[str, Any]]:
        """A turn. Returns its events, and the state after it.

        Args:
            waits: each call waits for the result of the one before.
            fails: the turn fails before the user agrees to its calls.
        """
        for gate in self._gates[: 1 if waits else None]:
            gate.set()
        with rt:
            events = self._read(self._asked(rt, fails=fails))
            if calls := [call for event in events for call in event.function_calls() if event.long_running_tool_ids]:
                yes = {"confirmed": True}
                parts = [Part(function_response=FunctionResponse(id=call.id, name=call.name, response=yes)) for call in calls]
                events += self._read(rt.run(user_id="ada", session_id="s1", message=Content(parts=parts)))
            return events, stored_state(rt)

    def _asked(self, rt: Runtime, *, fails: bool) -> Iterator[Event]:
        """The events of the first turn."""
        with pytest.raises(AgentFailedError) if fails else nullcontext():
            yield from rt.run(user_id="ada", session_id="s1", message="go")

    def _read(self, turn: Iterable[Event]) -> list[Event]:
        events = []
        for event in turn:
            events.append(event)
            for response in event.function_responses():
                self._seen.add(response.response["result"])
            for gate in self._gates[: len(self._seen) + 1]:
                gate.set()
        return events


def stepping(one_by_one: OneByOne, *, confirmed: bool = False) -> LoopAgent:
    """A loop that the first call of its agent ends."""

    def end(tool_context: ToolContext) -> None:
        tool_context.actions.escalate = tool_context.actions.skip_summarization = True
        tool_context.state["n"] = "first"

    one_by_one.acts[0] = end
    model = PatternModel([("tool:", "never said"), ("", {"parts": one_by_one.calls()})])
    return LoopAgent(
        name="lp", sub_agents=[LlmAgent(name="root", model=model, tools=[one_by_one.tool(confirmed=confirmed)])], max_iterations=3
    )


def played(losses: list[Loss], *, confirmed: bool = False, **options: Any) -> tuple[Any, int, list[int]]:
    """What a turn says, how many messages it took, and what was made again."""
    one_by_one = OneByOne(3)
    with quick_folder() as folder:
        rt, engine = lossy_runtime(stepping(one_by_one, confirmed=confirmed), Path(folder), losses, settings=AT_ONCE, **options)
        events, state = one_by_one.play(rt)
    given = Counter(response.response["result"] for event in events for response in event.function_responses())
    texts = [event.text for event in events if event.text]
    ends = [event.actions.escalate for event in events if event.actions.escalate]
    return (given, texts, ends, state, events[-1].is_final_response()), engine.messages, one_by_one.again


@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_no_stored_result_is_made_again_and_what_was_decided_counts(who: Victim) -> None:
    expected, messages, _ = played([])
    assert expected == (Counter(range(3)), [], [True], {"n": "first"}, True)
    for at in range(0, messages, 2):
        said, _, again = played([Loss(at, who, before=at % 4 == 0)])
        assert (said, again) == (expected, []), at


class Replacing(Plugin):
    """Puts another event in the place of each."""

    async def on_event_callback(self, callback_context: CallbackContext, event: Event) -> Event:
        return msgspec.structs.replace(event, custom_metadata={"seen": True})


@pytest.mark.parametrize(
    ("who", "options"),
    [("agents", {"confirmed": True}), ("runner", {"confirmed": True}), ("agents", {"plugins": [Replacing()]})],
    ids=["agreed, agents", "agreed, runner", "replaced by a plugin"],
)
def test_so_it_is_with_calls_to_which_the_user_has_agreed_and_where_a_plugin_replaces_events(
    who: Victim, options: dict[str, Any]
) -> None:
    expected, messages, _ = played([], **options)
    assert expected == (Counter(range(3)), [], [True], {"n": "first"}, True)
    for at in range(messages):
        said, _, again = played([Loss(at, who, before=False)], **options)
        assert (said, again) == (expected, []), at


@pytest.mark.parametrize("who", ["agents", "runner"])
def test_so_it_is_with_calls_to_which_the_user_has_agreed_when_their_turn_had_failed(who: Victim) -> None:
    def fail(tool: Any, args: dict[str, Any], tool_context: ToolContext, tool_response: Any) -> None:
        if tool.name == "check":
            raise ValueError("kaput")

    def check() -> str:
        """Check."""
        return "checked"

    def agreed(losses: list[Loss]) -> tuple[Any, int, list[int]]:
        one_by_one = OneByOne(3)
        model = PatternModel([("tool:step", "done"), ("", {"parts": [*one_by_one.calls(), {"call": "check"}]})])
        tools = [one_by_one.tool(confirmed=True), FunctionTool(check)]
        root = LlmAgent(name="root", model=model, tools=tools, after_tool_callback=fail)
        with quick_folder() as folder:
            rt, engine = lossy_runtime(root, Path(folder), losses, settings=AT_ONCE)
            events, _ = one_by_one.play(rt, fails=True)
        given = Counter(response.response["result"] for event in events for response in event.function_responses())
        return (given, events[-1].text), engine.messages, one_by_one.again

    expected, messages, _ = agreed([])
    assert expected == (Counter(range(3)), "done")
    for at in range(messages):
        said, _, again = agreed([Loss(at, who, before=False)])
        assert (said, again) == (expected, []), at


def test_what_was_written_last_into_the_state_is_stored_also_when_its_call_has_ended_first(local: Deploy) -> None:
    """Two calls write one key: the slow one first, and it ends last."""
    one_by_one = OneByOne(2)
    wrote = threading.Event()

    def write_first(tool_context: ToolContext) -> None:
        assert wrote.wait(30)
        tool_context.state["n"] = "newest"

    one_by_one.acts[0] = write_first

    async def begin(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        if args["number"] == 1:
            tool_context.state["n"] = "oldest"
            wrote.set()

    model = ScriptedModel([{"parts": one_by_one.calls()}, "done"])
    agent = LlmAgent(name="root", model=model, tools=[one_by_one.tool()], before_tool_callback=begin)
    events, state = one_by_one.play(local(agent, settings=AT_ONCE))
    assert (len(events), state) == (4, {"n": "newest"})


def test_what_has_ended_is_kept_when_a_callback_of_another_call_fails(local: Deploy) -> None:
    one_by_one = OneByOne(2)
    failed: list[int] = []

    async def fail_once(tool: Any, args: dict[str, Any], tool_context: ToolContext, response: Any) -> None:
        if args["number"] == 1 and not failed:
            failed.append(1)
            raise ValueError("kaput")

    model = ScriptedModel([{"parts": one_by_one.calls()}, "done"])
    agent = LlmAgent(name="root", model=model, tools=[one_by_one.tool()], after_tool_callback=fail_once)
    rt = local(agent, settings=AT_ONCE)
    with pytest.raises(AgentFailedError, match="kaput"):
        one_by_one.play(rt)
    with local(agent) as rt:
        turn = rt.turns.list()[0]
        result = rt.retry(user_id="ada", session_id="s1", invocation_id=turn.invocation_id).result()
        assert (result.text, one_by_one.again) == ("done", [])
