"""What scripts do with a Runtime: turns over many inputs, and questions with typed answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from actors.definitions.agents import BaseAgent
from actors.errors import RequestError
from actors.errors.calls import explains_all_wrong_calls
from actors.messages.config import RunOptions, run_config_of
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping
from actors.rules.checks.arguments import checked_choice, checked_number
from actors.rules.checks.ids import checked_id
from runtime.driver.scripts.answering import Answering
from runtime.driver.scripts.inputs import MapInput
from runtime.driver.scripts.questions import Asking, check_answered, question
from runtime.driver.scripts.retries import ErrorKind, Retries
from runtime.driver.scripts.turn_map import Inputs, MapOptions, TurnMap
from runtime.driver.services.agents import DeployedTree
from runtime.driver.turns.methods import TurnMethods
from runtime.driver.turns.turn import OnLeave, Turn

CONCURRENCY = 32
"""Turns of a map that run at the same time, unless it says otherwise."""

MAX_NAME = 128
"""Characters of a map's name, which the ids of its turns begin with."""


@explains_all_wrong_calls
class ScriptMethods(TurnMethods):
    """The methods of a Runtime for programs that begin many turns, or want an object as the answer."""

    _tree: DeployedTree

    def map(
        self,
        inputs: Inputs,
        *,
        name: str = "map",
        concurrency: int = CONCURRENCY,
        in_order: bool = False,
        user_id: str = USER,
        result_type: Any = None,
        retries: int | Mapping[ErrorKind, int] = 0,
        timeout: float | None = None,
        run_config: RunOptions | None = None,
        progress: bool | None = None,
        total: int | None = None,
        on_leave: OnLeave = "continue",
    ) -> TurnMap:
        """Run a turn for each of many inputs: `for result in rt.map(…)`, or `async for`.

        It can be run again, also after its program or the deployment was killed: the ids of turns come from the map's name and
        the inputs, so an input that was answered is not answered again, and a turn under way is joined. Inputs that failed, or
        were cancelled, are tried again. Another `name` asks everything anew.

        Args:
            inputs: an iterable or async iterable, read as needed: texts, Contents, or dictionaries with `message` and any of
                `user_id`, `session_id`, `state_delta` and `invocation_id`.
            name: begins the ids of the turns.
            concurrency: how many turns run at the same time.
            in_order: give results in the order of the inputs; otherwise as they come.
            user_id: of inputs that name none.
            result_type: the type of the answers: see `ask`.
            retries: further attempts after a failure: a number, for any error but a refused request, or numbers by class of
                error, or by the name of one. An attempt is a turn of its own, in a new session if the input names none.
            timeout: seconds after which an attempt is cancelled and fails.
            run_config: options of the turns: a RunConfig, or a dictionary of its fields.
            progress: True shows it, False does not; None does in a terminal and in a notebook.
            total: the number of inputs, for the progress, where `len(inputs)` does not tell it.
            on_leave: what leaving the iteration does to turns under way: they "continue" where the deployment does, or "cancel".

        Returns:
            The results, one for each input. What was wrong with an input, or failed, is the `error` of its result. Iterating it
            raises RuntimeClosedError or ActorLostError when the deployment is gone.

        Raises:
            RequestError, InvalidIdError, DefinitionError, ValueError: an argument is wrong.
        """
        checked_choice("on_leave", on_leave, ("cancel", "continue"))
        if len(checked_id("map's name", name)) > MAX_NAME:
            raise RequestError(f"a map's name has at most {MAX_NAME} characters, not {len(name)}")
        config = run_config_of(run_config)
        if timeout is not None:
            config = msgspec.structs.replace(config, timeout=timeout)
        asked = question(self._tree, None, result_type)

        def start(given: MapInput, session_id: str, invocation_id: str) -> Turn:
            return self._ask(
                asked, given.content, given.user_id, session_id, config, given.state_delta, invocation_id, on_leave=on_leave
            )

        options = MapOptions(
            name=name,
            user_id=checked_id("user id", user_id),
            concurrency=checked_number("concurrency", concurrency, least=1),
            in_order=in_order,
            progress=progress,
            total=checked_number("total", total) if total is not None else None,
        )
        return TurnMap(self._client, Answering(start, asked, Retries(retries), on_leave), inputs, options)

    def ask(
        self,
        *asked: Any,
        result_type: Any = None,
        user_id: str = USER,
        session_id: str | None = None,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
    ) -> Any:
        """Ask an agent and wait for its answer, as an object: `rt.ask("…", result_type=Invoice)`, `rt.ask(agent, "…")`.

        On an event loop: `await rt.aio.ask(…)`.

        Args:
            asked: the message; or an agent of the tree, or its name, and the message. Without an agent the root is asked.
            result_type: a plain type, a pydantic model, a dataclass, or a list of labels of which one is chosen. None: the
                agent's `output_schema`; if it has none, the answer is a text.
            user_id, session_id: whose session; by default a new one.
            run_config, state_delta: see `run`.

        Returns:
            The answer. An agent with an `output_schema` is asked in a plain turn, and its text is read. An LLM agent without one,
            or one that is not the root, gets the message as a task, as `run_task` does.

        Raises:
            OutputSchemaError: the answer is not of the type.
            TaskFailedError: the agent gave the task up, or its turn waits for a person.
            AgentFailedError: the model refused to answer, in the words of the error.
            TurnError: the turn failed.
            UnknownAgentError: the tree has no agent of that name.
            DefinitionError: the agent is not in the tree, it cannot work on tasks, or `result_type` is no type.
            RequestError: the message cannot be used.
        """
        asking, turn = self._begin_asking(asked, result_type, user_id, session_id, run_config, state_delta)
        result = turn.result()
        check_answered(result)
        return asking.read(result)

    async def _ask_async(
        self,
        *asked: Any,
        result_type: Any = None,
        user_id: str = USER,
        session_id: str | None = None,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
    ) -> Any:
        asking, turn = self._begin_asking(asked, result_type, user_id, session_id, run_config, state_delta)
        result = await turn
        check_answered(result)
        return asking.read(result)

    def _begin_asking(
        self,
        asked: tuple[Any, ...],
        result_type: Any,
        user_id: str,
        session_id: str | None,
        run_config: RunOptions | None,
        state_delta: JsonMapping | None,
    ) -> tuple[Asking, Turn]:
        if len(asked) not in (1, 2) or (len(asked) == 2 and not isinstance(asked[0], BaseAgent | str)):
            raise RequestError("ask takes a message, or an agent and a message: rt.ask('…') or rt.ask(agent, '…')")
        if len(asked) == 2 and isinstance(asked[1], type):
            raise RequestError(f"the type of the answer is given by name: rt.ask({asked[0]!r}, result_type={asked[1].__name__})")
        asking = question(self._tree, asked[0] if len(asked) == 2 else None, result_type)
        turn = self._ask(asking, asked[-1], user_id, session_id or uuid.uuid4().hex, run_config, state_delta)
        return asking, turn

    def _ask(
        self,
        asking: Asking,
        message: Any,
        user_id: str,
        session_id: str,
        run_config: RunOptions | None,
        state_delta: JsonMapping | None,
        invocation_id: str | None = None,
        *,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        start = self._start_message(user_id, session_id, message, run_config, state_delta, invocation_id, None)
        if asking.plan is None:
            return self._start(start, on_leave=on_leave)
        return self._start_plan(start, asking.plan, on_leave)
