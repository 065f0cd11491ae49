"""Processes of a deployment on Ray that die at exact messages.

They die before one arrives, before its reply is sent, early or at last, before one is sent, or before its reply is taken.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

from actors.actor import Actor
from actors.interfaces.transport import EarlyReply
from runtime.cluster.core.runner import RunnerHost
from runtime.cluster.core.session import SessionHost
from runtime.cluster.deployment import engine
from runtime.cluster.processes import ray_processes
from runtime.cluster.processes.agent_host import AgentHost
from runtime.cluster.transport.peer import ActorLink
from tests.graph.programs import Notes
from tests.support.any_message import decode_message
from tests.support.fixtures.lossy_engine import COUNTED

Kind = Literal["agent", "runner", "session"]
"""What lives in a process."""


class Death:
    """Kills the process in which it stands, at one moment of one play.

    The file `plan` in the folder of the notes says which: "PLAY KIND NUMBER".
    """

    def __init__(self, notes: Notes, kind: Kind) -> None:
        self._notes = notes
        self._kind = kind

    def pass_by(self) -> None:
        """A moment at which the process may die."""
        number = self._notes.count(self._kind)
        if (self._notes.folder / "plan").read_text().split() == [self._kind, str(number)]:
            self._notes.count("killed")
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self) -> None:
        """Let the messages of this process be such moments."""
        receive, send = Actor.receive, ActorLink.send

        def received(actor: Actor, raw: bytes) -> Coroutine[Any, Any, bytes]:
            return self._around(raw, receive(actor, raw))

        async def sent(link: ActorLink, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
            return await self._around(raw, send(link, raw, once=once, early=early))

        # For as long as the process lives.
        patch.object(Actor, "receive", received).start()
        patch.object(ActorLink, "send", sent).start()

    async def _around(self, raw: bytes, work: Coroutine[Any, Any, bytes]) -> bytes:
        if not _counts(raw):
            return await work
        self.pass_by()
        return await self._before_reply(work)

    async def _before_reply(self, work: Coroutine[Any, Any, bytes]) -> bytes:
        reply = await work
        self.pass_by()
        return reply


def _counts(raw: bytes) -> bool:
    return isinstance(decode_message(raw), COUNTED)


def mortal(host: Any, notes: Notes, kind: Kind) -> Any:
    """The class of Ray actors, of which each process can die."""

    class Mortal(host):  # type: ignore[misc]
        def __init__(self, *args: Any) -> None:
            Death(notes, kind).arm()
            if kind == "runner":
                patch.object(ray_processes, "AgentHost", mortal(AgentHost, notes, "agent")).start()
            super().__init__(*args)

    Mortal.__name__ = Mortal.__qualname__ = host.__name__
    return Mortal


@contextmanager
def mortal_processes(notes: Notes) -> Iterator[None]:
    """Deployments that are started inside the block have such processes."""
    (notes.folder / "plan").write_text("")
    with (
        patch.object(engine, "RunnerHost", mortal(RunnerHost, notes, "runner")),
        patch.object(engine, "SessionHost", mortal(SessionHost, notes, "session")),
    ):
        yield
