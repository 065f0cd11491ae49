"""A program's handle of a deployment: start or join it, run turns in it, look after its sessions."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

import msgspec

from actors.definitions.agents import Agent, Plugin
from actors.definitions.flows import Flow, FlowAgent, FlowPlan, ResultType, Task
from actors.definitions.tree import AgentTree
from actors.errors import DefinitionError, RuntimeClosedError
from actors.interfaces.stores import ArtifactStore, MemoryStore, SessionStore
from actors.messages import protocol as p
from actors.messages.config import RunConfig
from actors.messages.event import USER, new_event_id, new_invocation_id
from actors.messages.json_types import JsonMapping
from actors.rules.checks.ids import checked_app_name, checked_id, checked_key
from runtime.driver.engine_client import EngineClient
from runtime.driver.event_loop import Work
from runtime.driver.flows import last_result, named_plan, one_task_flow
from runtime.driver.services.aio import AsyncServices
from runtime.driver.services.artifacts import ArtifactsService
from runtime.driver.services.memory import MemoryService
from runtime.driver.services.sessions import SessionsService
from runtime.driver.statistics import RuntimeStatistics, read_statistics
from runtime.driver.turn import Turn
from runtime.driver.turn_state import TurnState
from runtime.driver.turns import TurnClient
from runtime.driver.user_message import has_function_responses, to_content, to_state
from runtime.engine.deployment import Deployment, check_models
from runtime.engine.interface import Engine
from runtime.engine.local import LocalEngine
from runtime.engine.store_urls import DEFAULT, Default, resolve_stores
from runtime.settings import Settings


class Runtime:
    """A tree of agents, deployed. Use it as a context manager, sync or async.

    Args:
        root_agent: the root of the tree; or a flow, which is then all that the app does.
        app_name: the app to which the sessions belong; letters, digits, `_`, `-` and `.`.
        engine: "ray", or "local" for the same actors in this process.
        address: of a Ray cluster; None uses the Ray that is initialised, or starts a local one.
        session_store: URL of the log's database (`sqlite:///…`, `postgresql://…`), or a SessionStore.
        artifact_store: URL of a folder (`file://…`, `memory://…`, `s3://…`), or an ArtifactStore.
        auto_create_session: create a session with its first message; `run` can override it for one turn.
        memory_store: URL of memory's database, or a MemoryStore; None: the app has no memory. By default beside the session
            store: the same PostgreSQL database, or `<name>.memory.db` for the SQLite file `<name>.db`.
        plugins: callbacks for all agents and for turns; they run before the agents' own, in this order.
        settings: everything else; by default from the environment.
        detached: leave the deployment running on its cluster when this program leaves it, or dies; `Runtime.connect` joins it,
            `shutdown` stops it. It needs a Ray that outlives the program, at an `address` or initialised before.

    Raises:
        DefinitionError: an argument is missing or wrong; AgentTreeError and UnknownModelError are kinds of it.
        InvalidIdError: `app_name` is no valid name.

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
        session_store: str | SessionStore | Default | None = DEFAULT,
        artifact_store: str | ArtifactStore | Default | None = DEFAULT,
        auto_create_session: bool = True,
        memory_store: str | MemoryStore | Default | None = DEFAULT,
        plugins: Sequence[Plugin] = (),
        settings: Settings | None = None,
        detached: bool = False,
    ) -> None:
        app_name = checked_app_name(app_name)
        settings = settings or Settings()
        tree = AgentTree(FlowAgent(root_agent) if isinstance(root_agent, Flow) else root_agent, plugins, settings.limits)
        check_models(tree)
        stores = resolve_stores(app_name, settings, session_store, artifact_store, memory_store)
        deployment = Deployment(
            app_name=app_name,
            tree=tree,
            session_store=stores.session,
            artifact_store=stores.artifact,
            memory_store=stores.memory,
            settings=settings,
            auto_create_session=auto_create_session,
            detached=detached,
        )
        self._set_up(app_name, _engine(engine, deployment, address), tree)
        self._types.update({flow: plan.results for flow, plan in deployment.plans().items()})

    @classmethod
    def connect(cls, app_name: str, *, address: str | None = None, settings: Settings | None = None) -> Runtime:
        """Join a deployment that another program has started, detached or not.

        The Runtime is used like any other, as a context manager, sync or async. `run_flow` and `run_task` raise DefinitionError:
        they need the tree, which only the program that started the deployment has. Leaving the Runtime stops nothing, and its
        turns go on; `shutdown` stops the deployment for all programs. Size limits and the artifact store are those of the
        deployment; artifacts in files can be read only where the same folder is.

        Args:
            app_name: the app.
            address: of the Ray cluster; None uses the Ray that is initialised, else one that is found on this machine.
            settings: of this program, by default from the environment. The namespace must be that of the deployment.

        Returns:
            The Runtime, not started yet. Starting it raises DeploymentNotFoundError when the app does not run, and ClusterError
            when its actors, or Ray, do not answer.

        Raises:
            InvalidIdError: `app_name` is no valid name.
        """
        from runtime.cluster.deployment.joined import JoinedEngine

        runtime = cls.__new__(cls)
        runtime._set_up(checked_app_name(app_name), JoinedEngine(app_name, settings or Settings(), address), None)
        return runtime

    def _set_up(self, app_name: str, engine: Engine, tree: AgentTree | None) -> None:
        self.app_name = app_name
        self._client = EngineClient(app_name, engine)
        self._tree = tree
        self._types: dict[str, Mapping[str, ResultType]] = {}
        self._turns: TurnClient | None = None
        self.sessions = SessionsService(self._client)
        self.artifacts = ArtifactsService(self._client)
        self.memory = MemoryService(self._client)
        self.aio = AsyncServices(self._client, self.artifacts, self.run_task, self.shutdown)

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
        """Start the deployment, or join it.

        Raises:
            DeploymentExistsError: the app runs already.
            DeploymentNotFoundError: the app to join does not run.
            ClusterError: there is no Ray, or actors do not answer.
            StoreError: a store cannot be used.
        """
        self._client.start()
        self._turns = TurnClient(self._client)

    def close(self) -> None:
        """Leave the deployment: one that is detached or was joined goes on, any other is stopped and its turns are cancelled."""
        if self._turns is None:
            return
        if self._client.engine.lasts:
            self._end(self._turns.leave, self._client.engine.leave)
        else:
            self._end(self._client.engine.stop, self._turns.close)

    def shutdown(self) -> None:
        """Stop the deployment for good, also one that another program started. Turns that still run are cancelled.

        Raises:
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        self._end(self._client.engine.stop, self._open_turns().close)

    def _end(self, *steps: Callable[[], Work[None]]) -> None:
        self._turns = None
        self._client.end(*steps)

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunConfig | None = None,
        state_delta: JsonMapping | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
    ) -> Turn:
        """Start a turn.

        Args:
            message: a text, a Content, or a google.genai Content; function responses answer long-running calls.
            run_config: options of the turn.
            state_delta: changes of session state that come with the message.
            invocation_id: makes the turn repeatable: the same id again joins the same turn.
            auto_create_session: create the session if there is none; None leaves it to the Runtime.

        Returns:
            The turn, which runs already. Its errors are raised by iterating it, or by its `result()`.

        Raises:
            InvalidMessageError: the message is of no known kind, or malformed.
            InvalidIdError: an id is invalid.
            NotEncodableError: `state_delta` is no mapping.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        start = self._start_message(user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session)
        return self._start(start)

    def run_flow(
        self,
        flow: Flow,
        *,
        user_id: str,
        session_id: str,
        message: Any = None,
        tasks: Sequence[Task | str] | None = None,
        run_config: RunConfig | None = None,
        state_delta: JsonMapping | None = None,
        invocation_id: str | None = None,
        auto_create_session: bool | None = None,
    ) -> Turn:
        """Have the agents of the tree do the tasks of a flow, which need not be part of it.

        Args:
            message: what the user says, which all agents of the flow see. Or the answer to a long-running call at which a run of
                this flow was paused: `run` takes such answers as well, but only while the deployment knows the flow.
            tasks: complete only these and all that they depend on.
            rest: see `run`.

        Returns:
            The turn. Its `result().tasks` has the result of each task.

        Raises:
            DefinitionError: the flow has no tasks, or lacks one of `tasks`; or its agents are not in the tree.
            InvalidMessageError, InvalidIdError, NotEncodableError, RuntimeClosedError: see `run`.
        """
        name, plan = named_plan(self._own_tree(), flow, tasks)
        if message is None:
            message = f"Complete the tasks of the flow {flow.name!r}."
        start = self._start_message(user_id, session_id, message, run_config, state_delta, invocation_id, auto_create_session)
        turn = self._start(msgspec.structs.replace(start, flow=name), plan)
        # Turns that answer this one, or are attached to it, give typed results as well.
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
        state_delta: JsonMapping | None = None,
        **options: Any,
    ) -> Any:
        """Have one task done, with all that it depends on, and wait for its result. On an event loop: `rt.aio.run_task`.

        Args:
            objective: what the task is to achieve, or a Task.
            agents: the agents that may work on it; by default the root agent.
            session_id: None chooses one.
            message, run_config, state_delta: see `run_flow`.
            options: of the task, such as result_type, tools or max_llm_calls.

        Returns:
            The result, of the task's `result_type`, by default a text.

        Raises:
            TaskFailedError: the task failed, was skipped, or waits for the user.
            TurnError: the turn failed.
            DefinitionError: the task is defined wrongly, or its agents are not in the tree.
        """
        flow = one_task_flow(self._own_tree(), objective, agents, options)
        turn = self.run_flow(
            flow,
            user_id=user_id,
            session_id=session_id or uuid.uuid4().hex,
            message=message,
            run_config=run_config,
            state_delta=state_delta,
        )
        return last_result(flow, turn.result().tasks)

    def _start_message(
        self,
        user_id: str,
        session_id: str,
        message: Any,
        run_config: RunConfig | None,
        state_delta: JsonMapping | None,
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
            content=to_content(message),
            config=run_config or RunConfig(),
            state_delta=to_state(state_delta),
            auto_create=self._client.engine.auto_create_session if auto_create_session is None else auto_create_session,
        )

    def _start(self, message: p.StartTurn, plan: FlowPlan | None = None) -> Turn:
        turns = self._open_turns()
        state = TurnState(message.key, message.invocation_id, is_answer=has_function_responses(message.content))
        turns.start_soon(state, message, plan)
        return Turn(turns, state, self._types)

    def attach(self, *, user_id: str, session_id: str, invocation_id: str, after_seq: int = 0) -> Turn:
        """Join a turn that this program or another has started.

        Args:
            after_seq: give only events with a higher `seq`; 0 gives the turn from its first event.

        Returns:
            The turn. Iterating it raises InvocationNotFoundError when there is no such turn.

        Raises:
            InvalidIdError: an id is invalid.
            RuntimeClosedError: the runtime is not started, or is closed.
        """
        turns = self._open_turns()
        key = checked_key(self.app_name, user_id, session_id)
        state = TurnState(key, checked_id("invocation id", invocation_id), after_seq=after_seq)
        turns.attach_soon(state, after_seq)
        return Turn(turns, state, self._types)

    def statistics(self) -> RuntimeStatistics:
        """The living actors of the deployment and their counts."""
        return self._client.run(read_statistics(self._client.engine))

    def _own_tree(self) -> AgentTree:
        if self._tree is None:
            raise DefinitionError(
                f"a flow is checked against the tree of app {self.app_name!r}, which only the program that has started it has: "
                "make the flow part of that tree, and run it with run"
            )
        return self._tree

    def _open_turns(self) -> TurnClient:
        if self._turns is None:
            raise RuntimeClosedError(self.app_name)
        return self._turns


def _engine(name: str, deployment: Deployment, address: str | None) -> Engine:
    if name == "local":
        return LocalEngine(deployment)
    if name == "ray":
        # Imported here: a program on the local engine needs no Ray, which takes half a second to load.
        from runtime.cluster.deployment.engine import RayEngine

        return RayEngine(deployment, address)
    raise DefinitionError(f"engine must be 'ray' or 'local', not {name!r}")
