"""The driver's handle: a tree made live, turns run in it, sessions looked after."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar

import msgspec

from actors.definitions.agents import Agent, Plugin
from actors.definitions.flows import Flow, FlowAgent, FlowPlan, ResultType, Task
from actors.definitions.tree import AgentTree
from actors.errors import DefinitionError, RaygroveError, RuntimeClosedError
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import USER, new_event_id, new_invocation_id
from actors.refs.session import SessionRef
from actors.refs.statistics import by_agent
from actors.rules.checks.ids import checked_app_name, checked_id, checked_key
from runtime.driver.event_loop import Portal
from runtime.driver.flows import flow_of, planned, result_of
from runtime.driver.services.aio import AsyncServices
from runtime.driver.services.artifacts import ArtifactsService
from runtime.driver.services.memory import MemoryService
from runtime.driver.services.sessions import SessionsService
from runtime.driver.statistics import RuntimeStatistics
from runtime.driver.turn import Turn
from runtime.driver.turns import TurnClient
from runtime.driver.user_message import as_content, as_mapping, has_answers
from runtime.engine import store_urls
from runtime.engine.deployment import Deployment, check_models
from runtime.engine.interface import Engine
from runtime.engine.local import LocalEngine
from runtime.settings import Settings

T = TypeVar("T")
_DEFAULT: Any = object()


class Runtime:
    """A tree of agents made live. Use it as a context manager, sync or async.

    Args:
        root_agent: the root of the tree; or a flow, which is then all that the app does.
        app_name: whose sessions these are; letters, digits, `_`, `-` and `.`.
        engine: "ray", or "local" for the same actors in this process.
        address: of a Ray cluster; None uses the Ray that is initialised, or starts a local one.
        session_store: URL of the log's database (`sqlite:///…`, `postgresql://…`), or a SessionStore.
        artifact_store: URL of a folder (`file://…`, `memory://…`, `s3://…`), or an ArtifactStore.
        auto_create_session: make a session with its first message; `run` can say otherwise for one turn.
        memory_store: URL of memory's database, or a MemoryStore; None: the app has no memory. By default beside the session
            store: the same PostgreSQL database, or `<name>.memory.db` for the SQLite file `<name>.db`.
        plugins: callbacks for all agents and for turns; they run before the agents' own, in this order.
        settings: everything else; by default from the environment.
        detached: leave the deployment running on its cluster when this program leaves it, or dies; `Runtime.connect` joins it,
            `shutdown` stops it. It needs a Ray that outlives the program, at an `address` or initialised before.

    Raises:
        DefinitionError: something above is missing or wrong; AgentTreeError and UnknownModelError are kinds of it.
        InvalidIdError: `app_name` cannot be one.

    Attributes:
        sessions, artifacts, memory: the services. `rt.aio` has them with the same names for callers on an event loop.
    """

    def __init__(
        self,
        root_agent: Agent | Flow | None,
        *,
        app_name: str,
        engine: Literal["ray", "local"] = "ray",
        address: str | None = None,
        session_store: str | SessionStore | None = _DEFAULT,
        artifact_store: str | ArtifactStore | None = _DEFAULT,
        auto_create_session: bool = True,
        memory_store: str | MemoryStore | None = _DEFAULT,
        plugins: Sequence[Plugin] = (),
        settings: Settings | None = None,
        detached: bool = False,
    ) -> None:
        app_name = checked_app_name(app_name)
        settings = settings or Settings()
        root = FlowAgent(root_agent) if isinstance(root_agent, Flow) else root_agent
        tree = AgentTree(root, plugins, settings.limits)
        check_models(tree)
        if session_store is _DEFAULT:
            session_store = store_urls.default_session_store(app_name, settings)
        if artifact_store is _DEFAULT:
            artifact_store = store_urls.default_artifact_store(settings)
        if session_store is None:
            raise DefinitionError("session service is required")
        if artifact_store is None:
            raise DefinitionError("artifact service is required")
        if memory_store is _DEFAULT:
            memory_store = store_urls.default_memory_store(session_store, app_name, settings)
        store_urls.check_writers(settings, session_store, memory_store)
        deployment = Deployment(
            app_name=app_name,
            tree=tree,
            session_store=store_urls.absolute(session_store) if isinstance(session_store, str) else session_store,
            artifact_store=store_urls.absolute(artifact_store) if isinstance(artifact_store, str) else artifact_store,
            memory_store=store_urls.absolute(memory_store) if isinstance(memory_store, str) else memory_store,
            settings=settings,
            auto_create_session=auto_create_session,
            detached=detached,
        )
        self._set_up(app_name, _engine(engine, deployment, address), tree)
        self._types.update({flow: plan.results for flow, plan in deployment.plans().items()})

    @classmethod
    def connect(cls, app_name: str, *, address: str | None = None, settings: Settings | None = None) -> Runtime:
        """Join a deployment that another program has started, detached or not.

        What comes is a Runtime like any other, to be used as a context manager, sync or async: only the agents are already
        there, and so are the flows: `run_flow` and `run_task` need the tree. Leaving it stops nothing, and its turns go on;
        `shutdown` stops the deployment for everybody. How much may be sent and where artifacts last is as the deployment was
        started. A store of artifacts in files has to be seen from here, too.

        Args:
            app_name: the app.
            address: of the Ray cluster; None uses the Ray that is initialised, else one that is found on this machine.
            settings: of this program, by default from the environment. Its namespace has to be that of the deployment.

        Returns:
            The Runtime, not started yet. Starting it raises DeploymentNotFoundError when the app does not run, and ClusterError
            when its actors, or Ray, do not answer.

        Raises:
            InvalidIdError: `app_name` cannot be one.
        """
        from runtime.cluster.deployment.joined import JoinedEngine

        runtime = cls.__new__(cls)
        runtime._set_up(checked_app_name(app_name), JoinedEngine(app_name, settings or Settings(), address), None)
        return runtime

    def _set_up(self, app_name: str, engine: Engine, tree: AgentTree | None) -> None:
        self.app_name = app_name
        self._engine = engine
        self._tree = tree
        self._types: dict[str, Mapping[str, ResultType]] = {}
        self._portal: Portal | None = None
        self._driver: TurnClient | None = None
        self.sessions = SessionsService(self)
        self.artifacts = ArtifactsService(self)
        self.memory = MemoryService(self)
        self.aio = AsyncServices(self)

    # ------------------------------------------------------------------------------------------------- life
    def __enter__(self) -> Runtime:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Runtime:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)

    def start(self) -> None:
        """Bring the deployment to life, or join it.

        Raises:
            DeploymentExistsError: the app runs already.
            DeploymentNotFoundError: the app that is to be joined does not run.
            ClusterError: there is no Ray, or actors do not answer.
            StoreError: a store cannot be used.
        """
        if self._driver is not None:
            raise RaygroveError(f"the runtime of app {self.app_name!r} is started already")
        self._engine.prepare()
        self._portal = Portal(f"raygrove-{self.app_name}")
        try:
            self._portal.run(self._engine.start())
        except BaseException:
            self._portal.close()
            self._portal = None
            raise
        self._driver = TurnClient(self.app_name, self._portal, self._engine)

    def close(self) -> None:
        """Leave. A deployment that is detached, or was joined, goes on; any other is stopped, and its turns are cancelled."""
        if self._driver is None:
            return
        if self._engine.lasts:
            self._end(self._driver.leave, self._engine.leave)
        else:
            self._end(self._engine.stop, self._driver.close)

    def shutdown(self) -> None:
        """Stop the deployment for good, whoever has started it. Turns that still run are cancelled.

        Raises:
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        self._end(self._engine.stop, self._live().close)

    def _end(self, *steps: Callable[[], Coroutine[Any, Any, None]]) -> None:
        portal, self._portal, self._driver = self._portal, None, None
        assert portal is not None
        try:
            for step in steps:
                portal.run(step())
        finally:
            portal.close()

    # ------------------------------------------------------------------------------------------------- turns
    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
    ) -> Turn:
        """Start a turn.

        Args:
            message: a text, a Content, or a google.genai Content; function responses answer long-running calls.
            run_config: options of the turn.
            state_delta: changes of session state that come with the message.
            invocation_id: makes the turn repeatable: the same id again joins the same turn.
            auto_create_session: make the session if there is none; None leaves it to the Runtime.

        Returns:
            The turn, which runs already. What is wrong with it is raised by iterating it, or by its `result()`.

        Raises:
            InvalidMessageError: the message is of no known kind, or not made as one.
            InvalidIdError: an id cannot be one.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        start = self._start_of(user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session)
        return self._started(start)

    def run_flow(
        self,
        flow: Flow,
        *,
        user_id: str,
        session_id: str,
        message: Any = None,
        tasks: Sequence[Task | str] | None = None,
        run_config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
    ) -> Turn:
        """Have the agents of the tree do the tasks of a flow, which need not be part of it.

        Args:
            message: what the user says to it, for all its agents to see; or the answer to a long-running call at which a run of
                this flow was paused, when the deployment may not know the flow any more. `run` takes such answers as well.
            tasks: do only these and what they need.
            rest: see `run`.

        Returns:
            The turn. Its `result().tasks` tells what has become of each task.

        Raises:
            DefinitionError: the flow has no tasks, or not those; or its agents are not in the tree.
            InvalidMessageError, InvalidIdError, RuntimeClosedError: see `run`.
        """
        name, plan = planned(self._own_tree(), flow, tasks)
        said = f"Complete the tasks of the flow {flow.name!r}." if message is None else message
        start = self._start_of(user_id, session_id, said, run_config, state_delta, invocation_id, auto_create_session)
        turn = self._started(msgspec.structs.replace(start, flow=name), plan)
        # For those who follow the turn later as well: who answers it, or attaches.
        self._types[name] = plan.results
        return turn

    def run_task(
        self,
        objective: str | Task,
        *,
        agents: Sequence[Agent | str] | None = None,
        user_id: str = USER,
        session_id: str | None = None,
        message: Any = None,
        run_config: RunConfig | None = None,
        state_delta: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Have one task done, with all that it depends on, and wait for its result. On an event loop: `rt.aio.run_task`.

        Args:
            objective: what is to be achieved, or a Task.
            agents: who works on it; by default the root agent.
            session_id: None makes one up.
            message, run_config, state_delta: see `run_flow`.
            options: of the task, such as result_type, tools or max_llm_calls.

        Returns:
            The result, of the task's `result_type`, by default a text.

        Raises:
            TaskFailedError: it failed or was skipped, or waits for the user.
            TurnError: the turn failed.
            DefinitionError: the task is defined wrongly, or its agents are not in the tree.
        """
        flow = flow_of(self._own_tree(), objective, agents, options)
        turn = self.run_flow(
            flow,
            user_id=user_id,
            session_id=session_id or uuid.uuid4().hex,
            message=message,
            run_config=run_config,
            state_delta=state_delta,
        )
        return result_of(flow, turn.result().tasks)

    def _start_of(
        self,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunConfig | None,
        state_delta: Mapping[str, Any] | None,
        invocation_id: str | None,
        auto_create_session: bool | None,
    ) -> p.StartTurn:
        if invocation_id is not None:
            checked_id("invocation id", invocation_id)
        return p.StartTurn(
            key=checked_key(self.app_name, user_id, session_id),
            invocation_id=invocation_id or new_invocation_id(),
            repeatable=invocation_id is not None,
            event_id=new_event_id(),
            content=as_content(message),
            config=run_config or RunConfig(),
            state_delta=as_mapping(state_delta),
            auto_create=self._engine.auto_create_session if auto_create_session is None else auto_create_session,
        )

    def _started(self, start: p.StartTurn, plan: FlowPlan | None = None) -> Turn:
        driver = self._live()
        answers = has_answers(start.content)
        turn = Turn(driver, start.key, start.invocation_id, answers=answers, types=self._types)
        driver.start_soon(turn, start, plan)
        return turn

    def attach(self, *, user_id: str, session_id: str, invocation_id: str, after_seq: int = 0) -> Turn:
        """Join a turn that was started before, by this driver or another.

        Args:
            after_seq: tell only events behind this place of the log; 0 tells the turn from its first event.

        Returns:
            The turn. InvocationNotFoundError is raised by iterating it, when there is no such turn.

        Raises:
            InvalidIdError: an id cannot be one.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        driver = self._live()
        key = checked_key(self.app_name, user_id, session_id)
        turn = Turn(driver, key, checked_id("invocation id", invocation_id), after_seq=after_seq, types=self._types)
        driver.attach_soon(turn, after_seq)
        return turn

    def statistics(self) -> RuntimeStatistics:
        """What lives, and what it has done."""
        return self.call(self.read_statistics())

    async def read_statistics(self) -> RuntimeStatistics:
        """`statistics` as a coroutine for the portal's loop."""
        runner, session = await asyncio.gather(self._engine.runner.statistics(), self._engine.session.statistics())
        permits = self._engine.permits
        models = (await permits.statistics()).models if permits is not None else {}
        return RuntimeStatistics(session=session, runner=runner, agents=by_agent(runner.agents), models=models)

    # ------------------------------------------------------------------------------------------------- for services
    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the driver's loop and wait for it."""
        return self._on_portal(work).run(work)

    async def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a caller on an event loop."""
        return await self._on_portal(work).run_async(work)

    def _on_portal(self, work: Coroutine[Any, Any, T]) -> Portal:
        if self._portal is None or self._driver is None:
            work.close()
            raise RuntimeClosedError(self.app_name)
        return self._portal

    @property
    def session(self) -> SessionRef:
        """A client of the Session actor."""
        return self._engine.session

    @property
    def artifact_store(self) -> str | ArtifactStore:
        """Where artifacts last. Raises RuntimeClosedError when only the deployment knows, and it is not joined yet."""
        store = self._engine.artifact_store
        if store is None:
            raise RuntimeClosedError(self.app_name)
        return store

    def _own_tree(self) -> AgentTree:
        if self._tree is None:
            raise DefinitionError(
                f"a flow is checked against the tree of app {self.app_name!r}, which only the program that has started it has: "
                "make the flow part of that tree, and run it with run"
            )
        return self._tree

    def _live(self) -> TurnClient:
        if self._driver is None:
            raise RuntimeClosedError(self.app_name)
        return self._driver


def _engine(name: str, deployment: Deployment, address: str | None) -> Engine:
    if name == "local":
        return LocalEngine(deployment)
    if name == "ray":
        # Imported here: a program on the local engine needs no Ray, which takes half a second to load.
        from runtime.cluster.deployment.engine import RayEngine

        return RayEngine(deployment, address)
    raise DefinitionError(f"engine must be 'ray' or 'local', not {name!r}")
