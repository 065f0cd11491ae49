"""A program's handle of a deployment: start or join it, run turns in it, look after its sessions."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from actors.definitions.agents import BaseAgent, Plugin
from actors.definitions.tree import AgentTree
from actors.definitions.tree.compaction import EventsCompactionConfig
from actors.errors import DefinitionError, OverloadedError, RequestError
from actors.errors.calls import explains_all_wrong_calls
from actors.interfaces.stores import ArtifactStore
from actors.layers.flows.definitions import Flow, ResultType, Task
from actors.messages.config import RunOptions
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping
from actors.rules.checks.ids import checked_app_name
from runtime.driver.aio import AsyncServices, Methods
from runtime.driver.engine_client import EngineClient
from runtime.driver.flow_plans import checked_plan, one_task_flow
from runtime.driver.questions import OnQuestion, TaskRun
from runtime.driver.services.agents import DeployedTree
from runtime.driver.services.services import Services, TurnCalls
from runtime.driver.turns.client import TurnClient
from runtime.driver.turns.turn import OnLeave, Turn
from runtime.driver.updates.methods import UpdateMethods
from runtime.driver.updates.trees import checked_tree
from runtime.driver.upgrade import UpgradeMethods
from runtime.driver.waits import Blocking
from runtime.engine.deployment import Deployment
from runtime.engine.flow_registry import FlowRegistry
from runtime.engine.interface import Engine, LoopClock
from runtime.engine.local import LocalEngine
from runtime.engine.process.import_folders import with_import_folders
from runtime.engine.store_urls import DEFAULT, Default, MemoryStores, SessionStores, resolve_stores
from runtime.settings import Settings


@explains_all_wrong_calls
class Runtime(UpgradeMethods, UpdateMethods, Services[Blocking]):
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
        sessions, turns, artifacts, memory, users, schedules, batches, limits: the services; `rt.aio` has them with the same
            names for callers on an event loop.
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
        stores = resolve_stores(app_name, settings, session_store, artifact_store, memory_store)
        deployment = Deployment(
            app_name=app_name,
            tree=tree,
            session_store=stores.session,
            artifact_store=stores.artifact,
            memory_store=stores.memory,
            settings=settings if engine == "local" else settings.with_variables(with_import_folders(settings.variables)),
            auto_create_session=auto_create_session,
            detached=detached,
            clock=clock,
            other_stores=stores.others,
        )
        types = {flow: plan.results for flow, plan in deployment.plans().items()}
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
            app_name: the app.
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
        calls = TurnCalls(self.run, self.answer, self._follow_session)
        Services.__init__(self, client, Blocking, deployed, calls)
        self._types = FlowRegistry(types)
        self._turns = None
        methods = Methods(
            start_task=self._start_task,
            map=self.map,
            ask=self._ask_async,
            shutdown=self.shutdown,
            drain=self._drain_async,
            update=self.update,
            rollback=self.rollback,
            upgrade=self.upgrade,
        )
        self.aio = AsyncServices(client, deployed, calls, methods)

    def __repr__(self) -> str:
        where = f" on the Ray at {self.address}" if self.address is not None else ""
        return f"Runtime({self.app_name!r}, {'started' if self._turns is not None else 'not started'}{where})"

    def __reduce__(self) -> tuple[Callable[[str, str, str], Runtime], tuple[str, str, str]]:
        """In another process, such as that of a Ray task, it is a Runtime that joins the deployment, not started yet.

        Raises:
            RuntimeClosedError: it is not started here, or is closed.
            DefinitionError: its deployment is in this process, on the local engine.
        """
        self._open_turns()
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
        self._turns = TurnClient(self._client)
        return self

    @property
    def address(self) -> str | None:
        """Where the Ray is that this Runtime uses, for the `address=` of other programs; None before it is started, and on the
        local engine."""
        return self._client.engine.address if self._turns is not None else None

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
        plan = checked_plan(self._tree, flow, tasks)
        if message is None:
            message = f"Complete the tasks of the flow {flow.name!r}."
        start = self._start_message(user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session)
        return self._start_plan(start, plan, on_leave)

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
        flow = one_task_flow(self._tree, objective, agents, options)
        turn = self.run_flow(
            flow,
            user_id=user_id,
            session_id=session_id or uuid.uuid4().hex,
            message=message,
            run_config=run_config,
            state_delta=state_delta,
        )
        return TaskRun(flow, turn, on_question, run_config)

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
        return self._open_turns().refusal(again=again, unread=unread)


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
