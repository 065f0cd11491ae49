"""The questions that agents of interactive tasks ask while `run_task` waits for their result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from actors.errors import RequestError
from actors.layers.flows.definitions import Flow
from actors.layers.flows.rules.prompt import ASK_USER
from actors.messages.protocol.runs import Paused
from actors.messages.shown import Shown
from runtime.driver.flows import last_result
from runtime.driver.run_options import RunOptions
from runtime.driver.turns.turn import Turn, TurnResult


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
