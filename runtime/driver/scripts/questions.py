"""Scripts that ask and wait: how `rt.ask` asks for an answer of a type and reads it, and how `rt.run_task` waits for a result.

Rules for answers of a type:

- A root with an `output_schema` answers with JSON, and so does a root that is no LLM agent, if its last agent has one: that is a
  plain turn, whose text is read.
- An LLM agent without `output_schema` is given the message as a task. Then its model has a tool for the result, and a result that
  does not fit comes back to the model, which can correct it. The same holds for an agent that is not the root.
- A text, and the output of a graph, are asked for with a plain turn.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import pydantic

from actors.definitions.agents import BaseAgent
from actors.errors import AgentFailedError, DefinitionError, OutputSchemaError, RequestError, TaskFailedError
from actors.errors.hints import problems
from actors.layers.flows.definitions import Flow, FlowPlan
from actors.layers.flows.rules.prompt import ASK_USER
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping
from actors.messages.protocol.runs import Paused
from actors.messages.protocol.turns import StartTurn
from actors.messages.shown import Shown, shown
from runtime.driver.arguments import RunOptions
from runtime.driver.services.deployed_tree import DeployedTree
from runtime.driver.turns.program_turns import ProgramTurns
from runtime.driver.turns.turn import OnLeave, TaskResult, Turn, TurnResult, as_text

OBJECTIVE = "Answer the user's message."
"""Of the task that asks an agent for an answer of a type."""

BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII")
"""Finish reasons that make an answer unusable. Those of other vendors have these words, too."""

_MAX_SHOWN = 300


class Asking(NamedTuple):
    """How an answer of a type is asked for and read.

    Attributes:
        plan: the flow whose only task has the answer as its result; None for a plain turn.
        read: gives the answer. Raises AgentFailedError, OutputSchemaError, TaskFailedError.
    """

    plan: FlowPlan | None
    read: Callable[[TurnResult], Any]

    def start(self, turns: ProgramTurns, message: StartTurn, on_leave: OnLeave = "cancel") -> Turn:
        """Start the turn that asks. Raises RuntimeClosedError."""
        if self.plan is None:
            return turns.start(message, on_leave=on_leave)
        return turns.start_plan(message, self.plan, on_leave)


class AnswerRun(NamedTuple):
    """A turn that asks for an answer of a type: see TaskRun for tasks."""

    asking: Asking
    turn: Turn

    def result(self) -> Any:
        """Wait for the answer. Raises what Runtime.ask raises."""
        return self._read(self.turn.result())

    async def result_async(self) -> Any:
        """Wait for the answer on an event loop."""
        return self._read(await self.turn)

    def _read(self, result: TurnResult) -> Any:
        check_answered(result)
        return self.asking.read(result)


def begin_asking(
    tree: DeployedTree,
    turns: ProgramTurns,
    *asked: Any,
    result_type: Any = None,
    user_id: str = USER,
    session_id: str | None = None,
    run_config: RunOptions | None = None,
    state_delta: JsonMapping | None = None,
) -> AnswerRun:
    """Ask an agent: see Runtime.ask, which takes the same."""
    if len(asked) not in (1, 2) or (len(asked) == 2 and not isinstance(asked[0], BaseAgent | str)):
        raise RequestError("ask takes a message, or an agent and a message: rt.ask('…') or rt.ask(agent, '…')")
    if len(asked) == 2 and isinstance(asked[1], type):
        raise RequestError(f"the type of the answer is given by name: rt.ask({asked[0]!r}, result_type={asked[1].__name__})")
    asking = question(tree, asked[0] if len(asked) == 2 else None, result_type)
    message = turns.message(user_id, session_id or uuid.uuid4().hex, asked[-1], run_config, state_delta, None, None)
    return AnswerRun(asking, asking.start(turns, message))


def question(tree: DeployedTree, agent: BaseAgent | str | None, result_type: Any) -> Asking:
    """The request that asks an agent for an answer of a type.

    Args:
        agent: None is the root.
        result_type: None is the agent's `output_schema`, or else a text.

    Raises:
        UnknownAgentError: the tree has no agent of that name.
        DefinitionError: the agent is not in the tree, it cannot work on tasks, or `result_type` is no type.
    """
    topology = tree.topology()
    root = topology.root
    if agent is None:
        name = root.name
    elif isinstance(agent, str):
        name = topology[agent].name
    else:
        name = agent.name
    schema = tree.output_schema(name)
    wanted = result_type if result_type is not None else schema
    if name == root.name and tree.is_same(agent):
        if wanted is None or wanted is str:
            return Asking(None, _text if wanted is str else _answer)
        if schema is not None or not root.is_llm:
            return Asking(None, _reader(wanted))
    return _task(tree, name if agent is None else agent, str if wanted is None else wanted)


def _text(result: TurnResult) -> str:
    """The text of the answer. Raises AgentFailedError when the model, or the filter of its service, has refused it."""
    ends = (event for event in reversed(result.events) if event.is_final_response() and (event.text or event.error_code))
    newest = next(ends, None)
    if newest is None:
        return result.text
    if result.error_code:
        raise AgentFailedError(newest.author, result.error_code, result.error_message)
    if newest.finish_reason in BLOCKED:
        stopped = f"the service of the model stopped it in the middle of its answer: {newest.text[:_MAX_SHOWN]}"
        raise AgentFailedError(newest.author, newest.finish_reason, stopped)
    return result.text


def _answer(result: TurnResult) -> Any:
    """The output of a graph, or the text of the answer. Raises AgentFailedError as `_text` does."""
    return _text(result) if result.output is None else result.output


def _reader(wanted: Any) -> Callable[[TurnResult], Any]:
    try:
        adapter = pydantic.TypeAdapter(wanted)
    except pydantic.errors.PydanticUserError as error:
        raise DefinitionError(
            f"result_type is a type, a pydantic model or a dataclass where the agent has an output_schema; not {wanted!r}"
        ) from error

    def read(result: TurnResult) -> Any:
        output = result.output
        if isinstance(output, str):
            # A text that is the answer as it is, such as one of several labels.
            with suppress(pydantic.ValidationError):
                return adapter.validate_python(output)
        text = _text(result) if output is None else as_text(output)
        try:
            return adapter.validate_json(text)
        except pydantic.ValidationError as error:
            author = _author(result) if output is None else result.outcome.agent
            raise OutputSchemaError(author, f"{problems(error)}. It answered {shown(text)}; asked for is {wanted!r}") from error

    return read


def _author(result: TurnResult) -> str:
    """The agent that gave the last answer."""
    authors = (event.author for event in reversed(result.events) if event.is_final_response() and event.text)
    return next(authors, result.agent)


def _task(tree: DeployedTree, agent: BaseAgent | str, wanted: Any) -> Asking:
    flow = tree.one_task_flow(OBJECTIVE, [agent], {"name": "answer", "result_type": wanted})
    plan = tree.plan_of(flow)
    [kind] = plan.results.values()

    def read(result: TurnResult) -> Any:
        try:
            return kind.typed(last_result(flow, result.tasks))
        except pydantic.ValidationError as error:
            # The type has changed since the answer was stored.
            raise OutputSchemaError(result.agent, problems(error)) from error

    return Asking(plan, read)


def check_answered(result: TurnResult) -> None:
    """Raise TaskFailedError when a turn waits for a person instead of having an answer."""
    if isinstance(result.outcome, Paused):
        raise TaskFailedError("ask", "pending", "its turn waits for the answer to a long-running call: start it with rt.run")


def last_result(flow: Flow, tasks: Mapping[str, TaskResult]) -> Any:
    """The result of a flow's last task. Raises TaskFailedError when it has none."""
    name = flow.name_of(flow.tasks[-1])
    task = tasks.get(name, TaskResult(name=name, status="pending"))
    if task.status != "successful":
        paused = (
            "the turn waits for the answer to a long-running call: give run_task on_question=…, which answers the questions of "
            "interactive tasks, or run such a task with run_flow"
        )
        raise TaskFailedError(name, task.status, task.reason or paused)
    return task.result


class Question(Shown, msgspec.Struct, frozen=True, kw_only=True):
    """What an agent of an interactive task asks the user.

    Attributes:
        call_id: the call that the answer is for.
        task: the task that it asks about; the first of them, when it works on several.
    """

    text: str
    call_id: str
    agent: str
    task: str


OnQuestion = Callable[[Question], Any]
"""Returns the answer to a question, any JSON value but None, or an awaitable of it."""


class TaskRun:
    """A flow of `run_task` that is under way.

    Args:
        on_question: answers questions; None leaves the turn at the first.
        run_config: options of the turn, which also hold for what comes after an answer.
    """

    def __init__(self, flow: Flow, turn: Turn, on_question: OnQuestion | None, run_config: RunOptions | None) -> None:
        self._flow = flow
        self._turn = turn
        self._on_question = on_question
        self._run_config = run_config
        self._interactive = {node.name for node in flow.plan.nodes if node.interactive}
        self._known: dict[str, Question] = {}

    def result(self) -> Any:
        """Wait for the result of the task, and have its questions answered. Raises what `run_task` raises."""
        result = self._turn.result()
        while asked := self._asked(result):
            answers = {}
            for question in asked:
                answer = self._answer(question)
                answers[question.call_id] = _checked(
                    question, asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
                )
            self._turn = self._turn.answer(answers, run_config=self._run_config)
            result = self._turn.result()
        return last_result(self._flow, result.tasks)

    async def result_async(self) -> Any:
        """See `result`. A function that is not async is called in a thread, so that it may wait for the user."""
        result = await self._turn
        while asked := self._asked(result):
            answers = {}
            for question in asked:
                answer = await asyncio.to_thread(self._answer, question)
                answers[question.call_id] = _checked(question, await answer if inspect.isawaitable(answer) else answer)
            self._turn = self._turn.answer(answers, run_config=self._run_config)
            result = await self._turn
        return last_result(self._flow, result.tasks)

    def _answer(self, question: Question) -> Any:
        assert self._on_question is not None
        return self._on_question(question)

    def _asked(self, result: TurnResult) -> Sequence[Question]:
        """The questions at which the turn waits."""
        if self._on_question is None or not isinstance(result.outcome, Paused):
            return ()
        for event in result.events:
            about = [task for task in event.flow.tasks if task in self._interactive] if event.flow is not None else []
            for call in event.function_calls():
                if about and call.id and call.name == ASK_USER:
                    text = str((call.args or {}).get("question", ""))
                    self._known[call.id] = Question(text=text, call_id=call.id, agent=event.author, task=about[0])
        return [self._known[call_id] for call_id in result.outcome.call_ids if call_id in self._known]


async def _awaited(answer: Any) -> Any:
    return await answer


def _checked(question: Question, answer: object) -> object:
    if answer is None:
        raise RequestError(
            f"on_question returned None for {question.text!r}: it has to return the answer, as a text for instance"
        )
    return answer
