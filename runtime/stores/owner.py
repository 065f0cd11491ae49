"""The deployment that owns a store, as the store knows it: where its processes are, and how other programs join it."""

from __future__ import annotations

import os
import platform
import socket
import sys
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from actors.errors import StoreInUseError
from runtime.stores.taking_over import Presence

REACH_S = 0.5
"""How long a Ray on this machine may take to accept a connection."""

_PROC = Path("/proc")


class ProcessPlace(msgspec.Struct, frozen=True):
    """A process, such that no other one has the same place.

    Attributes:
        machine: the system, from one start to the next, in which process ids are counted.
        host: its name, for people.
        started: when the process was started, in the system's own words; "" where they are not known.
    """

    machine: str
    host: str
    pid: int
    started: str

    def presence(self) -> Presence:
        """Whether it lives, as seen from this process."""
        if self.machine != _machine():
            return Presence.ELSEWHERE
        if self == this_process():
            return Presence.HERE
        started = _started(self.pid)
        is_another = bool(started and self.started) and started != self.started
        return Presence.GONE if started is None or is_another else Presence.LIVES


class StoreOwner(msgspec.Struct, frozen=True):
    """A deployment that opens a store.

    Attributes:
        deployment: an id; its Session actors share it.
        process: the one of the Session actor that has opened the store last.
        driver: the program that ends the deployment with itself; None for a detached one.
        address: of the Ray; "" for the local engine.
        program: the name of the program that started it.
        renews: it renews its lease.
    """

    app: str
    deployment: str
    process: ProcessPlace
    driver: ProcessPlace | None = None
    address: str = ""
    program: str = ""
    renews: bool = True

    def can_restart(self) -> bool:
        """Whether a Session actor that is gone may be started again: not on the local engine, nor where its Ray is gone."""
        return bool(self.address) and not _is_gone(self.address)

    def where(self) -> str:
        """Where it is, in words."""
        program = f" ({self.program})" if self.program else ""
        host = f"in process {self.process.pid}{program} on host {self.process.host!r}"
        return f"on the Ray at {self.address}, {host}" if self.address else host

    def in_use(self, store: str) -> StoreInUseError:
        """The error for another deployment that opens the store."""
        advice = (
            "end that program first, since no other one can join its engine='local', or use another session_store or app_name"
        )
        if self.address:
            advice = (
                f"join it with Runtime.connect({self.app!r}, address={self.address!r}) or `raygrove run {self.app} …`, "
                f"or stop it with `raygrove stop {self.app}`"
            )
        return StoreInUseError(self.app, store, self.where(), advice)


@runtime_checkable
class TakesOwner(Protocol):
    """What a SessionStore has that one deployment of an app owns at a time."""

    owner: StoreOwner | None


def this_process() -> ProcessPlace:
    """The process that calls."""
    return ProcessPlace(_machine(), socket.gethostname(), os.getpid(), _started(os.getpid()) or "")


def this_program() -> str:
    """The name of this program, without its arguments: they may hold secrets."""
    path = Path(sys.argv[0] if sys.argv and sys.argv[0] else "python")
    return path.parent.name if path.name == "__main__.py" else path.name


@cache
def _machine() -> str:
    # Containers of one machine share its boot, and count their processes apart.
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').stat().st_ino}"
    return platform.node()


def _started(pid: int) -> str | None:
    """When a process of this machine was started; None if there is none, or it has ended and waits for its parent."""
    try:
        # Its name is in brackets, and may have any characters.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        # It is another user's.
        return ""
    return ""


def _is_gone(address: str) -> bool:
    """True when a Ray is of this machine, and nothing listens at its address."""
    host, _, port = address.rpartition(":")
    with suppress(OSError, ValueError, OverflowError):
        with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as own:
            # Only an address of this machine can be bound.
            own.bind((host.strip("[]"), 0))
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH_S).close()
        except ConnectionRefusedError:
            return True
    return False
