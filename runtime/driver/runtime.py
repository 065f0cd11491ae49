"""A program's handle of a deployment: start or join it, run turns in it, look after its sessions."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from actors.definitions.agents import BaseAgent, Plugin
from actors.errors import DefinitionError, OverloadedError, RequestError
from actors.errors.hints import explains_all_wrong_calls
from actors.interfaces.stores import ArtifactStore
from actors.layers.compaction.definitions import EventsCompactionConfig
from actors.layers.flows.definitions import Flow, ResultType, Task
from actors.layers.listing.messages import PendingCall
from actors.layers.retries import RetryTurn
from actors.layers.trees.tree import AgentTree
from actors.messages.event import USER, new_invocation_id
from actors.messages.json_types import JsonMapping
from actors.messages.topology import Topology
from actors.rules.checks.ids import checked_app_name, checked_id, checked_key, checked_known_id, checked_known_key
from runtime.driver.arguments import RunOptions, checked_choice, checked_number, run_config_of
from runtime.driver.ending import Drained, drain, drain_async, leave, stop
from runtime.driver.engine_client import EngineClient
from runtime.driver.scripts.inputs import MapInput, MapResult
from runtime.driver.scripts.questions import AnswerRun, OnQuestion, TaskRun, begin_asking, question
from runtime.driver.scripts.turn_map import Answering, ErrorKind, Inputs, MapOptions, Retries, TurnMap
from runtime.driver.services.deployed_tree import DeployedTree, checked_tree
from runtime.driver.services.services import TurnCalls
from runtime.driver.tree_updates import UpdateMethods
from runtime.driver.turns.program_turns import ProgramTurns, to_answers
from runtime.driver.turns.state import TurnState
from runtime.driver.turns.turn import Answers, OnLeave, Turn
from runtime.driver.upgrade import WITHIN_S, Successor, UpgradeReport, upgrade
from runtime.driver.waits import Awaited, Blocking
from runtime.engine.deployment import Deployment, FlowRegistry, plans_of
from runtime.engine.interface import Engine, LoopClock
from runtime.engine.local import LocalEngine
from runtime.engine.process.variables import with_import_folders
from runtime.engine.store_urls import DEFAULT, Default, MemoryStores, SessionStores, resolve_stores
from runtime.settings import Settings

CONCURRENCY = 32
"""Turns of a map that run at the same time, unless it says otherwise."""

MAX_NAME = 128
"""Characters of a map's name, which the ids of its turns begin with."""


@explains_all_wrong_calls
class Runtime(UpdateMethods[Blocking]):
    """A tree of agents, deployed. Use it as a context manager, sync or async.

    Args:
        root_agent: the root of the tree; or a flow, which is then all that the app does; or an agent or App of google-adk, with
            the extra `raygrove[adk]`.
        app_name: the app to which the sessions belong; letters, digits, `_`, `-` and `.`.
        engine: "ray", or "local" for the same actors in this process.
        address: of a Ray cluster; None uses the Ray that is initialised, or starts a local one.
        session_store: URL of the log's database (`sqlite:///…`, `postgresql://…`), or a SessionStore; or a list of these, each of
            which has the data of some users. A list may get longer at its end, and its order stays.
        artifact_store: URL of a folder (`file://…`, `memory://…`, `s3://…`), or an ArtifactStore.
        auto_create_session: create a session with its first message; `run` can override it for one turn.
        memory_store: URL of memory's database, or a MemoryStore; None: the app has no memory. By default beside the session
            store: the same PostgreSQL database, or `<name>.memory.db` for the SQLite file `<name>.db`. With several session
            stores a list of as many.
        plugins: callbacks for all agents and for turns; they run before the agents' own, in this order.
        settings: everything else; by default from the environment.
        detached: leave the deployment running on its cluster when this program leaves it, or dies; `Runtime.connect` joins it,
            `shutdown` stops it. It needs a Ray that outlives the program, at an `address` or initialised before.
        mask_requests: gives what is stored in place of each text of a request that is recorded: see `Settings.record_requests`.
        clock: on the local engine, the clock of a test: see runtime.testing.FrozenClock.
        islands: for google-adk only: its own Runner runs what has no counterpart here, such as graphs of `Workflow`. By default
            that is refused.
        events_compaction_config: when conversations are summarised, so that requests to models stay short; None: never.

    Raises:
        DefinitionError: an argument is missing or wrong; AgentTreeError and UnknownModelError are kinds of it.
        InvalidIdError: `app_name` is no valid name.

    Attributes:
        sessions, turns, artifacts, memory, users, schedules, batches, background, limits: the services; `rt.aio` has them with
            the same names for callers on an event loop.
    """

    def __init__(
        self,
        root_agent: BaseAgent | Flow | object | None,
        *,
        app_name: str,
        engine: Literal["ray", "local"] = "ray",
        address: str | None = None,
        session_store: SessionStores | Default | None = DEFAULT,
        artifact_store: str | ArtifactStore | Default | None = DEFAULT,
        auto_create_session: bool = True,
        memory_store: MemoryStores | Default | None = DEFAULT,
        plugins: Sequence[Plugin] = (),
        settings: Settings | None = None,
        detached: bool = False,
        mask_requests: Callable[[str], str] | None = None,
        clock: LoopClock | None = None,
        islands: bool = False,
        events_compaction_config: EventsCompactionConfig | None = None,
    ) -> None:
        app_name = checked_app_name(app_name)
        settings = settings or Settings()
        compaction = events_compaction_config
        tree = checked_tree(root_agent, app_name, plugins, settings, mask_requests, islands=islands, compaction=compaction)
        stores, artifacts = resolve_stores(app_name, settings, session_store, artifact_store, memory_store)
        deployment = Deployment(
            app_name=app_name,
            tree=tree,
            stores=stores,
            artifact_store=artifacts,
            settings=settings if engine == "local" else settings.with_variables(with_import_folders(settings.variables)),
            auto_create_session=auto_create_session,
            detached=detached,
            clock=clock,
        )
        types = {flow: plan.results for flow, plan in plans_of(tree).items()}
        self._set_up(app_name, _engine(engine, deployment, address), tree, types)

    @classmethod
    def connect(
        cls,
        app_name: str,
        *,
        address: str | None = None,
        settings: Settings | None = None,
        logs: bool | Callable[[logging.LogRecord], object] = False,
    ) -> Runtime:
        """Join a deployment that another program has started, detached or not.

        The Runtime is used like any other, as a context manager, sync or async. Leaving it stops nothing, and its turns go on;
        `shutdown` stops the deployment for all programs. Size limits and the artifact store are those of the deployment;
        artifacts in files can be read only where the same folder is. The agents of a flow that is given to `run_flow` are those
        of the deployment with these names.

        Args:
            address: of the Ray cluster; None uses the Ray that is initialised, else one that is found on this machine.
            settings: of this program, by default from the environment. The namespace must be that of the deployment.
            logs: True brings what agents log and print from now on to this program, as to the one that started the deployment. A
                function is called with each record in place of that, in a thread: first with those that the deployment keeps.

        Returns:
            The Runtime, not started yet. Starting it raises DeploymentNotFoundError when the app does not run, and ClusterError
            when its actors, or Ray, do not answer.

        Raises:
            InvalidIdError: `app_name` is no valid name.
        """
        from runtime.cluster.deployment.joined import JoinedEngine

        runtime = cls.__new__(cls)
        engine = JoinedEngine(app_name, settings or Settings(), address, logs=logs)
        runtime._set_up(checked_app_name(app_name), engine, None, {})
        return runtime

    def _set_up(
        self, app_name: str, engine: Engine, tree: AgentTree | None, types: Mapping[str, Mapping[str, ResultType]]
    ) -> None:
        self.app_name = app_name
        client = EngineClient(app_name, engine)
        deployed = DeployedTree(client, tree)
        program = ProgramTurns(client, FlowRegistry(types), self.answer)
        calls = TurnCalls(self.run, self.answer, program.edit, program.follow_session)
        super().__init__(client, Blocking, deployed, calls, program)
        self.aio = AsyncServices(client, deployed, calls, self)

    def __repr__(self) -> str:
        where = f" on the Ray at {self.address}" if self.address is not None else ""
        return f"Runtime({self.app_name!r}, {'started' if self._program.is_open else 'not started'}{where})"

    def __reduce__(self) -> tuple[Callable[[str, str, str], Runtime], tuple[str, str, str]]:
        """In another process, such as that of a Ray task, it is a Runtime that joins the deployment, not started yet.

        Raises:
            RuntimeClosedError: it is not started here, or is closed.
            DefinitionError: its deployment is in this process, on the local engine.
        """
        self._program.client()
        settings = self._client.engine.settings
        if self.address is None or settings is None:
            raise DefinitionError(
                f"the runtime of app {self.app_name!r} is on the local engine, in this process, and no other one can use it: "
                "make one there, or start this one with engine='ray'"
            )
        return _joining, (self.app_name, self.address, settings.namespace)

    def start(self) -> Self:
        """Start the deployment, or join it.

        Returns:
            The Runtime: `rt = Runtime(…).start()`.

        Raises:
            DeploymentExistsError: the app runs already.
            DeploymentNotFoundError: the app to join does not run.
            ClusterError: there is no Ray, or actors do not answer.
            StoreError: the session store, or the folder of artifacts, cannot be used. A memory that cannot be used stops no turn.
        """
        self._client.start()
        self._program.open()
        return self

    def __enter__(self) -> Self:
        # Else it is `with Runtime(…).start() as rt`.
        return self if self._program.is_open else self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # A block that an exception leaves, Ctrl-C and SystemExit among them, belongs to a program that fails or was asked to end:
        # turns under way stay open, as if it had been killed.
        self.close(leave_turns=kind is not None)

    async def __aenter__(self) -> Self:
        return self if self._program.is_open else await asyncio.to_thread(self.start)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close, leave_turns=kind is not None)

    @property
    def address(self) -> str | None:
        """Where the Ray is that this Runtime uses, for the `address=` of other programs; None before it is started, and on the
        local engine."""
        return self._client.engine.address if self._program.is_open else None

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
        on_leave: OnLeave = "cancel",
        fingerprint: str = "",
    ) -> Turn:
        """Start a turn.

        Args:
            message: a text, a Content, a dictionary as web clients send it (see Content.from_dict), or a google.genai Content.
                Function responses answer long-running calls.
            run_config: options of the turn: a RunConfig, or a dictionary of its fields.
            state_delta: changes of session state that come with the message.
            invocation_id: makes the turn repeatable: the same id again joins the same turn.
            auto_create_session: create the session if there is none; None leaves it to the Runtime.
            on_leave: what leaving the turn's iteration before its end does: "cancel" the turn, or let it "continue".
            fingerprint: of the whole request, such as a hash: a turn of this `invocation_id` that began with another one is not
                joined, but its iteration or `result()` raises RepeatMismatchError. It is kept with the message.

        Returns:
            The turn, which runs already. Its errors are raised by iterating it, or by its `result()`.

        Raises:
            InvalidMessageError: the message is of no known kind, or malformed.
            InvalidIdError: an id is invalid.
            NotEncodableError: `state_delta` is no mapping.
            RequestError: `run_config` is wrong, or `on_leave` is neither "cancel" nor "continue".
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        start = self._program.message(
            user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session, fingerprint
        )
        return self._program.start(start, on_leave=on_leave)

    def attach(self, *, user_id: str, session_id: str, invocation_id: str, after_seq: int = 0) -> Turn:
        """Join a turn that this program or another has started. Leaving its iteration does not cancel it.

        Args:
            after_seq: give only events with a higher `seq`; 0 gives the turn from its first event. What has been streamed of
                an answer under way comes in any case, from the answer's beginning.

        Returns:
            The turn. Iterating it raises InvocationNotFoundError when there is no such turn.

        Raises:
            InvalidIdError: an id is invalid.
            RequestError: `after_seq` is no whole number, or less than 0.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        key = checked_known_key(self.app_name, user_id, session_id)
        after_seq = checked_number("after_seq", after_seq)
        state = TurnState(key, checked_known_id("invocation id", invocation_id), after_seq=after_seq)
        return self._program.attach(state, after_seq)

    def retry(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str,
        from_event: str | None = None,
        run_config: RunOptions | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Run a turn that has failed on from its last stored step: what has ended in it is not done again.

        With `from_event` any turn that does not run is run again from a step of it: what came after that is taken back, events
        and state, as by a rewind. What tools have done elsewhere is not.

        Args:
            from_event: the id of one of its events, the last that stays.
            run_config: options of the turn from now on; None: those that it had. Of one that has finished, or was cancelled, they
                are not known any more.
            on_leave: see `run`.

        Returns:
            The turn from there on. One that runs already is joined. Iterating it, or its `result()`, raises
            InvocationNotFoundError when there is no such turn, TurnStateError when it has not failed, and SessionBusyError while
            another turn of the session runs. With `from_event` TurnStateError when the turn runs, or when another one has spoken
            since, and RequestError when it has no such event.

        Raises:
            InvalidIdError: an id is invalid.
            RequestError: `run_config` is wrong, or `on_leave` is neither "cancel" nor "continue".
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        key = checked_known_key(self.app_name, user_id, session_id)
        state = TurnState(key, checked_known_id("invocation id", invocation_id))
        config = run_config_of(run_config) if run_config is not None else None
        step = checked_id("event id", from_event) if from_event is not None else ""
        request = new_invocation_id()
        message = RetryTurn(key=key, invocation_id=state.invocation_id, config=config, from_event=step, request=request)
        return self._program.retry(state, message, on_leave)

    def pending(self, *, user_id: str | None = None, session_id: str | None = None, limit: int = 100) -> list[PendingCall]:
        """The calls at which paused turns wait for a person, of the newest turn first.

        On an event loop: `await rt.aio.turns.pending(…)`.

        Args:
            user_id: of that user only; None: of all users of the app.
            session_id: of that session of the user only.
            limit: at most so many.

        Raises:
            SessionNotFoundError: there is no such session.
            RequestError: an argument is wrong.
            StoreError: the store cannot be read.
        """
        return self.turns.pending(user_id, session_id, limit)

    def answer(
        self,
        call: str | PendingCall | Answers,
        response: object = None,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        confirmed: bool | None = None,
        run_config: RunOptions | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Answer calls that wait for a person, in one message; their turn goes on.

        Args:
            call: the call, or its id; or answers to several calls of a turn, by the ids of the calls.
            response: the result of the call: a JSON object, or any other JSON value, which becomes `{"result": …}`. In a mapping
                of answers True and False answer calls that need confirmation.
            user_id, session_id: whose call it is; a PendingCall says it.
            confirmed: True or False in place of a response, for a call that needs confirmation.
            run_config: options of the turn from now on.
            on_leave: see `run`.

        Returns:
            The turn from the answer on. Iterating it, or its `result()`, raises TurnStateError when a call waits for no answer;
            the error names those that do.

        Raises:
            RequestError, InvalidIdError: an argument is wrong.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        answers = to_answers(call, response, confirmed)
        if isinstance(call, PendingCall):
            user_id, session_id = user_id or call.user_id, session_id or call.session_id
        if user_id is None or session_id is None:
            raise RequestError("answer needs user_id and session_id, or a PendingCall, which has both")
        key = checked_key(self.app_name, user_id, session_id)
        return self._program.answer(key, answers, run_config, on_leave)

    def run_flow(
        self,
        flow: Flow,
        *,
        user_id: str,
        session_id: str,
        message: Any = None,
        tasks: Sequence[Task | str] | None = None,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
        on_leave: OnLeave = "cancel",
    ) -> Turn:
        """Have the agents of the tree do the tasks of a flow, which need not be part of it.

        The flow goes on when agents, its Runner or its Session actor are lost. When all of the deployment was lost, or both of
        these at once, the same flow with the same `invocation_id` continues the turn.

        Args:
            message: what the user says, which all agents of the flow see. Or the answer to a long-running call at which a run of
                this flow was paused: `run` takes such answers as well, but only while the deployment knows the flow.
            tasks: complete only these and all that they depend on.
            rest: see `run`.

        Returns:
            The turn. Its `result().tasks` has the result of each task.

        Raises:
            DefinitionError: the flow has no tasks, or lacks one of `tasks`; or its agents are not in the tree.
            InvalidMessageError, InvalidIdError, NotEncodableError, RequestError, RuntimeClosedError: see `run`.
        """
        plan = self._tree.plan_of(flow, tasks)
        if message is None:
            message = f"Complete the tasks of the flow {flow.name!r}."
        start = self._program.message(user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session)
        return self._program.start_plan(start, plan, on_leave)

    def run_task(
        self,
        objective: str | Task,
        *,
        agents: Sequence[BaseAgent | str] | None = None,
        user_id: str = USER,
        session_id: str | None = None,
        message: Any = None,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
        on_question: OnQuestion | None = None,
        **options: Any,
    ) -> Any:
        """Have one task done, with all that it depends on, and wait for its result. On an event loop: `rt.aio.run_task`.

        Args:
            objective: what the task is to achieve, or a Task.
            agents: the agents that may work on it; by default the root agent.
            session_id: None chooses one.
            message, run_config, state_delta: see `run_flow`.
            on_question: for an interactive task: a function, sync or async, that is given each Question of its agents and returns
                the answer. What it raises is raised here, and leaves the turn paused: `rt.pending` and `rt.answer` go on with it.
            options: of the task, such as result_type, context, tools or max_llm_calls.

        Returns:
            The result, of the task's `result_type`, by default a text.

        Raises:
            TaskFailedError: the task failed, was skipped, or waits for the user.
            TurnError: the turn failed.
            DefinitionError: the task is defined wrongly, or its agents are not in the tree.
            RequestError: `on_question` is no function, or returns None.
        """
        return self._start_task(
            objective,
            agents=agents,
            user_id=user_id,
            session_id=session_id,
            message=message,
            run_config=run_config,
            state_delta=state_delta,
            on_question=on_question,
            **options,
        ).result()

    def _start_task(
        self,
        objective: str | Task,
        *,
        agents: Sequence[BaseAgent | str] | None = None,
        user_id: str = USER,
        session_id: str | None = None,
        on_question: OnQuestion | None = None,
        message: Any = None,
        run_config: RunOptions | None = None,
        state_delta: JsonMapping | None = None,
        **options: Any,
    ) -> TaskRun:
        if on_question is not None and not callable(on_question):
            raise RequestError(f"on_question must be a function of a Question, not {type(on_question).__name__}")
        flow = self._tree.one_task_flow(objective, agents, options)
        turn = self.run_flow(
            flow,
            user_id=user_id,
            session_id=session_id or uuid.uuid4().hex,
            message=message,
            run_config=run_config,
            state_delta=state_delta,
        )
        return TaskRun(flow, turn, on_question, run_config)

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
        return self._start_asking(
            *asked,
            result_type=result_type,
            user_id=user_id,
            session_id=session_id,
            run_config=run_config,
            state_delta=state_delta,
        ).result()

    def _start_asking(self, *asked: Any, **options: Any) -> AnswerRun:
        return begin_asking(self._tree, self._program, *asked, **options)

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
            message = self._program.message(
                given.user_id, session_id, given.content, config, given.state_delta, invocation_id, None
            )
            return asked.start(self._program, message, on_leave)

        options = MapOptions(
            name=name,
            user_id=checked_id("user id", user_id),
            concurrency=checked_number("concurrency", concurrency, least=1),
            in_order=in_order,
            progress=progress,
            total=checked_number("total", total) if total is not None else None,
        )
        return TurnMap(self._client, Answering(start, asked, Retries(retries), on_leave), inputs, options)

    def refusal(self, *, again: bool = False, unread: int = 0) -> OverloadedError | None:
        """The error that any new turn would get now: all lines were full just before, or this program's turns fill them.

        Args:
            again: the caller was told None before, and is still about to ask.
            unread: the turns that the caller was told None for, and will ask for before this one.

        Returns:
            None when there may be room for one, which the caller is about to ask for.

        Raises:
            RuntimeClosedError: the runtime is not started, or closed.
        """
        return self._program.client().refusal(again=again, unread=unread)

    def close(self, *, leave_turns: bool = False) -> None:
        """Leave the deployment: one that is detached or was joined goes on, any other is stopped and its turns are cancelled.

        Leaving a `with` block closes, too; by an exception, such as Ctrl-C or SystemExit, with `leave_turns`.

        Args:
            leave_turns: turns under way are not cancelled, but stay open in the store: the next deployment goes on with them when
                they are asked for.

        In a fork of the process that has started the Runtime this does nothing.
        """
        leave(self._client, self._program, leave_turns=leave_turns)

    def shutdown(self) -> None:
        """Stop the deployment for good, also one that another program started. Turns that still run are cancelled.

        Raises:
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        stop(self._client, self._program)

    def drain(self, within_s: float | None = None) -> Drained:
        """Stop the deployment for good as soon as the turns that it has accepted have ended. On an event loop: `rt.aio.drain`.

        Until then new turns, answers and retries are refused with DrainingError, in all programs. Turns that run or wait in line
        go on to their ends, and paused ones stay paused. When the time is over, the deployment stops, and turns that still run
        stay open in the store: the next deployment goes on with them when they are asked for. When this program is interrupted
        or lost, the deployment takes new turns again: at once, or after a minute.

        Args:
            within_s: the time that turns have to end; None: any.

        Returns:
            What became of the turns.

        Raises:
            RequestError: `within_s` is no time above zero.
            RuntimeClosedError: the runtime is not started, or is closed.
            ClusterError, StoreError: actors or the store do not answer; the deployment goes on.
        """
        return drain(self._client, self._program, within_s)

    def upgrade(self, successor: Runtime, *, within_s: float | None = WITHIN_S) -> UpgradeReport:
        """Have a deployment of this program's release of raygrove take this one's place. On an event loop: `rt.aio.upgrade`.

        New turns are refused with the time to ask again, those that run may end, and paused ones stay paused. Then this
        deployment stops, and the successor starts on its stores and goes on with turns that are open. Programs that have joined,
        and servers, stay up and follow their turns on. Each turn goes on by the version of the tree that it began with, if this
        program can load that.

        Args:
            successor: a Runtime of the same app, not started yet, with `detached=True` and the same stores; this Runtime is
                closed when it runs.
            within_s: the time that turns have to end; None: any. Those that run longer go on in the successor, as after a loss.

        Returns:
            What was done.

        Raises:
            UpgradeRefusedError: the successor has other stores, or lacks a part of the tree. Nothing was changed.
            RequestError: an argument is wrong.
            ClusterError, StoreError: actors or a store do not answer; or the successor did not start. Then the deployment has
                stopped, nothing that is stored is lost, and the next start of the app goes on with it.
        """
        following = Successor(successor._client, successor.start, successor.turns.resume)
        return upgrade(self._client, self._program, following, within_s)


@explains_all_wrong_calls
class AsyncServices(UpdateMethods[Awaited]):
    """The waiting methods of a Runtime, for callers on an event loop: `rt.aio`.

    `rt.run`, `rt.run_flow` and `rt.attach` do not wait, so they have no counterpart here; only the first `run_flow` of a program
    that has joined asks the deployment for its tree.
    """

    def __init__(self, client: EngineClient, tree: DeployedTree, calls: TurnCalls, rt: Runtime) -> None:
        super().__init__(client, Awaited, tree, calls, rt._program)
        self._rt = rt

    async def run_task(self, objective: str | Task, **options: Any) -> Any:
        """Have one task done and wait for its result: see Runtime.run_task, which takes the same."""
        run = await asyncio.to_thread(self._rt._start_task, objective, **options)
        return await run.result_async()

    async def ask(self, *asked: Any, **options: Any) -> Any:
        """Ask an agent and wait for its answer, as an object: see Runtime.ask, which takes the same."""
        return await self._rt._start_asking(*asked, **options).result_async()

    def map(self, inputs: Inputs, **options: Any) -> AsyncIterator[MapResult]:
        """Run a turn for each of many inputs: see Runtime.map, which takes the same."""
        return aiter(self._rt.map(inputs, **options))

    async def topology(self) -> Topology:
        """The shape of the tree, as far as this program knows it: a program that has joined asks for it once."""
        known = self._tree.definitions
        return known.topology if known is not None else await asyncio.to_thread(self._tree.topology)

    async def upgrade(self, successor: Runtime, **options: Any) -> UpgradeReport:
        """Have a deployment of this program's release take this one's place: see Runtime.upgrade, which takes the same."""
        return await asyncio.to_thread(self._rt.upgrade, successor, **options)

    async def shutdown(self) -> None:
        """Stop the deployment for good: see Runtime.shutdown."""
        await asyncio.to_thread(self._rt.shutdown)

    async def drain(self, within_s: float | None = None) -> Drained:
        """Stop the deployment for good as soon as its turns have ended: see Runtime.drain."""
        return await drain_async(self._client, self._rt._program, within_s)


def _joining(app_name: str, address: str, namespace: str) -> Runtime:
    return Runtime.connect(app_name, address=address, settings=Settings(namespace=namespace))


def _engine(name: str, deployment: Deployment, address: str | None) -> Engine:
    if name == "local":
        return LocalEngine(deployment)
    if name == "ray":
        # Imported here: a program on the local engine needs no Ray, which takes half a second to load.
        from runtime.cluster.deployment.engine import RayEngine

        return RayEngine(deployment, address)
    raise DefinitionError(f"engine must be 'ray' or 'local', not {name!r}")
