"""Links whose losses are explained: that of an actor whose deployment has ended is no loss of an actor.

An actor may be the one to tell of it: a Runner that still lives has asked a Session actor which was ended before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.errors import ActorLostError, ActorRestartsError, RaygroveError, rebuild
from actors.interfaces.transport import EarlyReply, Link
from actors.messages.protocol.base import error_in
from runtime.cluster.handle import Handle
from runtime.cluster.transport.pair import Pair
from runtime.cluster.transport.wires import WireOptions, Wires

Explain = Callable[[ActorLostError], Awaitable[RaygroveError]]
"""Gives the error that is raised instead of the loss of an actor."""


class WatchedLink:
    """Implements `actors.interfaces.transport.Link` by another link.

    Args:
        explain: asked about each loss.
    """

    def __init__(self, link: Link, explain: Explain) -> None:
        self._link = link
        self._explain = explain

    async def send(self, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        """Deliver a message and return the reply. Raises what the other link raises, and what explains a loss."""
        try:
            reply = await self._link.send(raw, once=once, early=early)
        except ActorRestartsError:
            raise
        except ActorLostError as error:
            raise await self._explain(error) from error
        failure = error_in(reply)
        if failure is not None and failure.error == ActorLostError.__name__:
            lost = rebuild(failure.error, failure.args, failure.traceback)
            assert isinstance(lost, ActorLostError)
            raise await self._explain(lost)
        return reply


class WatchedWires(Wires):
    """Makes such links.

    Args:
        explain: see WatchedLink.
    """

    def __init__(self, options: WireOptions, explain: Explain) -> None:
        super().__init__(options)
        self._explain = explain

    def link(self, handle: Handle, name: str, restart_timeout_s: float = 0.0) -> Link:
        """A link to the only actor in a process: see RayLink."""
        return WatchedLink(super().link(handle, name, restart_timeout_s), self._explain)

    def pair_link(self, pair: Pair, name: str, restart_timeout_s: float) -> Link:
        """A link to the actor that has a standby: see RayLink."""
        return WatchedLink(super().pair_link(pair, name, restart_timeout_s), self._explain)
