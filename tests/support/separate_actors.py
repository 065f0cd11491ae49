"""Links between actors as between processes: each message takes a way of its own, on which a test can hold it up.

On the local engine a message is handled inside of its sender's task, so that a cancellation of the sender reaches the receiver at
once, and a run ends before the run that it asked for. Between processes neither holds.
"""

from __future__ import annotations

import asyncio

from actors.definitions.tree import AgentTree
from actors.errors import ActorLostError
from actors.interfaces.transport import EarlyReply, Link
from actors.messages import protocol as p
from actors.messages.protocol.any_message import decode_message
from actors.messages.session import SessionKey
from runtime.engine.local import LocalDirectory


class Gate:
    """Holds messages up.

    Attributes:
        reached: a message has come.
    """

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Let all messages pass."""
        self._opened.set()

    async def let_pass(self) -> None:
        """Wait until it is open."""
        self.reached.set()
        await self._opened.wait()


class Ways:
    """The ways of all messages to some actors."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, type[p.Message]], Gate] = {}
        self._under_way: set[asyncio.Task[bytes]] = set()
        self._replies: set[asyncio.Task[bytes]] = set()
        self._cut: dict[str, asyncio.Future[None]] = {}

    def cut(self, actor: str) -> None:
        """Lose the replies that are under way from an actor, which lives on and does not notice. Later messages reach it."""
        self._cut.pop(actor).set_result(None)

    def hold(self, actor: str, kind: type[p.Message]) -> Gate:
        """Hold up the messages of a kind to an actor until the returned gate is opened."""
        return self._gates.setdefault((actor, kind), Gate())

    def link(self, actor: str, link: Link) -> Link:
        """A link that leads over these ways."""
        return _Way(self, actor, link)

    def deliver(self, actor: str, link: Link, raw: bytes) -> asyncio.Task[bytes]:
        """Deliver a message, whatever happens to its sender."""
        task = asyncio.create_task(self._pass(actor, link, raw))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task

    async def _pass(self, actor: str, link: Link, raw: bytes) -> bytes:
        gate = self._gates.get((actor, type(decode_message(raw))))
        if gate is not None:
            await gate.let_pass()
        cut = self._cut.setdefault(actor, asyncio.get_running_loop().create_future())
        reply = asyncio.create_task(link.send(raw))
        self._replies.add(reply)
        reply.add_done_callback(self._replies.discard)
        either: list[asyncio.Future[bytes] | asyncio.Future[None]] = [reply, cut]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not reply.done():
            raise ActorLostError(actor, "the connection is cut")
        return reply.result()


class _Way:
    """Implements `actors.interfaces.transport.Link`."""

    def __init__(self, ways: Ways, actor: str, link: Link) -> None:
        self._ways = ways
        self._actor = actor
        self._link = link

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply."""
        return await asyncio.shield(self._ways.deliver(self._actor, self._link, raw))


class SeparateDirectory(LocalDirectory):
    """Activates agents in this process, and gives links over `ways` to them."""

    def __init__(self, tree: AgentTree, ways: Ways) -> None:
        super().__init__(tree)
        self._ways = ways

    async def link(self, agent: str, key: SessionKey) -> Link:
        """A link to the agent's actor."""
        return self._ways.link(agent, await super().link(agent, key))
