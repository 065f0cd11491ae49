"""The only place that wraps something for Ray."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError

from actors.actor import Actor
from actors.errors import ActorLostError, ActorRestartsError, ClusterError, FlowNotFoundError
from actors.interfaces.model import SharedModel
from actors.messages.model import LlmRequest, LlmResponse
from actors.messages.protocol import TakeOver
from actors.messages.wire import decode, encode
from runtime.cluster.parcels import unpacked
from runtime.plans import PlanBook

Handle = ActorHandle[Any]
"""What Ray gives for an actor: it can be sent to other processes."""


class Host:
    """A Ray actor: a process with one of our actors in it."""

    def __init__(self, build: Callable[[], Actor]) -> None:
        self._actor = build()

    async def receive(self, raw: bytes) -> bytes:
        """Hand a message to the actor and return its reply."""
        return await self._actor.receive(raw)


class SessionHost(Host):
    """The process of the Session actor.

    Args:
        pieces: a parcel with what makes the actor, and with what a driver that joins the deployment has to know.
    """

    def __init__(self, *pieces: bytes) -> None:
        build, self._terms = unpacked(pieces)
        super().__init__(build)

    async def terms(self) -> Any:
        """What a driver has to know that joins the deployment."""
        return self._terms


class RunnerHost(Host):
    """The process of the Runner, where agents find the definitions of flows as well.

    When Ray has started it again, the Runner looks for the turns that it had.

    Args:
        namespace: its own.
        pieces: a parcel with what makes the actor, and with pickled definitions of the flows of the tree, by name.
    """

    def __init__(self, namespace: str, *pieces: bytes) -> None:
        build, plans = unpacked(pieces)
        actor, self._fill = build()
        super().__init__(lambda: actor)
        self._plans = PlanBook(plans)
        with warnings.catch_warnings():
            # Ray's own: it looks by a method that it has deprecated itself.
            warnings.simplefilter("ignore", DeprecationWarning)
            is_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        if is_restarted:
            threading.Thread(target=_tell, args=(myself(namespace), encode(TakeOver())), daemon=True).start()

    async def fill(self) -> None:
        """Begin to have processes stand ready for agents."""
        self._fill()

    async def define(self, name: str, plan: bytes) -> None:
        """Keep a pickled definition."""
        self._plans.keep(name, plan)

    async def plan(self, name: str) -> bytes | None:
        """A pickled definition, or None."""
        pickled: bytes | None = self._plans.get(name)
        return pickled


def _tell(actor: Handle, raw: bytes) -> None:
    """Send a Runner a message until it has heard it. One that an actor sends to itself while it is being started may get lost."""
    heard: list[Any] = []
    while not heard:
        heard, _ = ray.wait([actor.receive.remote(raw)], timeout=1.0)
    actor.fill.remote()


class PermitsHost(Host):
    """The process of the actor that limits models.

    Args:
        pieces: a parcel with what makes the actor.
    """

    def __init__(self, *pieces: bytes) -> None:
        super().__init__(unpacked(pieces))


class ModelHost:
    """The process of the one living copy of a model that has a state of its own.

    Args:
        pieces: a parcel with the model.
    """

    def __init__(self, *pieces: bytes) -> None:
        self._model: SharedModel = unpacked(pieces)

    async def generate(self, request: bytes, stream: bool) -> list[bytes]:
        """Ask the model; its responses, encoded."""
        responses = self._model.generate(decode(request, LlmRequest), stream=stream)
        return [encode(response) async for response in responses]

    async def state(self) -> bytes:
        """What the model has become."""
        return self._model.state()


def myself(namespace: str) -> Handle:
    """The actor in whose process this runs. Ray tells the namespace of its driver, which may be another than its own."""
    return named(ray.get_runtime_context().get_actor_name() or "", namespace)


def named(name: str, namespace: str) -> Handle:
    """The actor of that name. Raises ValueError when there is none."""
    actor: Handle = ray.get_actor(name, namespace=namespace)
    return actor


def start(host: type[Any], name: str, namespace: str, max_concurrency: int, *args: Any, **resources: Any) -> Handle:
    """Start a Ray actor.

    Args:
        host: one of the classes above.
        name: under which `ray.get_actor` finds it, in `namespace`.
        max_concurrency: messages that it handles at the same time.
        args: for the host.
        resources: Ray's options for where it runs, and whether it is started again.

    Raises:
        ValueError: the name is taken.
    """
    options = {"num_cpus": 0, **resources}
    remote = ray.remote(host).options(
        name=name, namespace=namespace, max_concurrency=max_concurrency, enable_task_events=False, **options
    )
    handle: Handle = remote.remote(*args)
    return handle


def names(namespace: str | None = None) -> list[tuple[str, str]]:
    """Namespace and name of all actors that have one; with `namespace`, of those in it."""
    found = [(each["namespace"], each["name"]) for each in ray.util.list_named_actors(all_namespaces=True)]
    return sorted(each for each in found if namespace is None or each[0] == namespace)


async def define(runner: Handle, name: str, plan: bytes) -> None:
    """Have the host of a Runner keep a pickled definition of a flow. Raises ActorLostError."""
    try:
        await runner.define.remote(name, plan)
    except RayActorError as error:
        raise ActorLostError("the Runner", told(error)) from error


def fill(runner: Handle) -> None:
    """Have the host of a Runner begin to have processes stand ready."""
    runner.fill.remote()


async def terms_of(session: Handle) -> Any:
    """What the host of a Session actor tells drivers that join. Raises ActorLostError, ClusterError."""
    try:
        return await session.terms.remote()
    except RayActorError as error:
        raise ActorLostError("the Session actor", told(error)) from error
    except RayTaskError as error:
        raise ClusterError(f"the deployment cannot be joined: {error.cause or error}") from error


def start_task(function: Callable[..., Any], *args: Any, **resources: Any) -> ray.ObjectRef[Any]:
    """Start a Ray task; it is not run again when it fails.

    Args:
        resources: Ray's options for where it runs.
    """
    task: ray.ObjectRef[Any] = ray.remote(function).options(max_retries=0, **resources).remote(*args)
    return task


SPREAD: Mapping[str, Any] = {"scheduling_strategy": "SPREAD", "memory": 1}
"""Ray's options for actors of which there are many: each is started on another node than the one before, where it can be.

An actor that needs nothing Ray starts anywhere, whatever its strategy; one byte is something.
"""

PAUSE_S = 0.05
"""Between two tries to reach an actor that is being started again."""


class RayLink:
    """A way to the actor in a host.

    Args:
        name: the actor's, for messages.
        patience_s: how long an actor that Ray starts again may take for it; 0: a lost process is not waited for.
        seat: its number, in a host that has several.
    """

    def __init__(self, handle: Handle, name: str, patience_s: float = 0.0, seat: int = 0) -> None:
        self.handle = handle
        self.name = name
        self._patience_s = patience_s
        # The first one's is not sent along: most hosts have one only.
        self._to = (seat,) if seat else ()

    async def send(self, raw: bytes, *, once: bool = False) -> bytes:
        """Deliver a message and return the reply: see Link."""
        given_up_s: float | None = None
        while True:
            try:
                reply: bytes = await self.handle.receive.remote(raw, *self._to)
                return reply
            except ActorUnavailableError as error:
                now_s = asyncio.get_running_loop().time()
                given_up_s = given_up_s or now_s + self._patience_s
                if now_s >= given_up_s:
                    raise ActorLostError(self.name, told(error)) from error
                if once:
                    raise ActorRestartsError(self.name, told(error)) from error
                # Ray tells nobody when it lives again.
                await asyncio.sleep(PAUSE_S)
            except RayActorError as error:
                raise ActorLostError(self.name, told(error)) from error
            except RayTaskError as error:
                raise ClusterError(f"{self.name} failed: {error.cause or error}") from error


def told(error: RayActorError) -> str:
    """The last line that says something, of what Ray tells in many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


class RemotePlans:
    """Definitions of flows as an agent in another process finds them. Each travels there once.

    Args:
        handle: the Runner's.
        load: makes a definition of its pickled form.
    """

    def __init__(self, handle: Handle, load: Callable[[bytes], Any]) -> None:
        self._handle = handle
        self._load = load
        self._known = PlanBook({})

    async def find(self, name: str) -> Any:
        """A definition. Raises FlowNotFoundError, ActorLostError."""
        known = self._known.get(name)
        if known is None:
            try:
                pickled: bytes | None = await self._handle.plan.remote(name)
            except RayActorError as error:
                raise ActorLostError("the Runner", told(error)) from error
            if pickled is None:
                raise FlowNotFoundError(name)
            known = self._load(pickled)
            self._known.keep(name, known)
        return known


class RemoteModel:
    """A model whose living copy is elsewhere.

    Args:
        name: what it is called where models are limited.
    """

    def __init__(self, handle: Handle, name: str) -> None:
        self._handle = handle
        self.name = name

    async def generate(self, request: LlmRequest, *, stream: bool) -> Any:
        """Ask the living copy. Raises what it raises."""
        asked: ray.ObjectRef[list[bytes]] = self._handle.generate.remote(encode(request), stream)
        try:
            replies = await asked
        except asyncio.CancelledError:
            ray.cancel(asked)
            raise
        except RayTaskError as error:
            raise error.cause from None
        for raw in replies:
            yield decode(raw, LlmResponse)
