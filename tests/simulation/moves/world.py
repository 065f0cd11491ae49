"""Session actors of several stores, programs that move users between them, and what goes wrong at the steps of a move."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import msgspec
from sqlalchemy import delete, func, select

from actors.layers.placing.client import StoresSessionRef
from actors.layers.services import session_actor
from actors.messages.topology import AgentNode, Topology
from actors.refs import SessionRef
from actors.session.environment import SessionEnvironment, StorePlace
from runtime.stores.sql import schema
from tests.simulation.cluster import Handle, HostProcess, Sent, Trace, Wires
from tests.simulation.faults import PATIENT_S
from tests.simulation.moves.plan import Plan
from tests.simulation.stores import Disk, DiskStore, StoreCalls
from tests.simulation.virtual_loop import SimProcess, VirtualLoop, outside
from tests.simulation.world import wall_s

TREE = Topology.of((AgentNode(name="root"),))

STEPS = frozenset(
    {
        "HoldUser",
        "ListArrivals",
        "BeginArrival",
        "ReadUserRows",
        "StageUserRows",
        "GetArrivalDigest",
        "LeaveStore",
        "AdmitUser",
        "ReleaseUser",
    }
)
"""Messages of a move."""

LATE_S = 120.0
"""The longest time that a message is late: twice as long as a hold lasts that is not renewed."""

FAULTS = ("kill sender", "freeze sender", "freeze sender", "kill receiver", "kill another", "replace", "store unsure")
"""What goes wrong, some more often than others; the last one in some simulations only."""


class Mover(SimProcess):
    """A program that moves users. It may be lost, and stopped. `gone`: set when it is lost."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.gone = asyncio.Event()

    def note_lost(self) -> None:
        self.gone.set()


class MovesWorld:
    """Everything that runs.

    Args:
        given: what goes wrong, and how often.
        seed: decides when.

    Attributes:
        disks: the stores.
        is_calm: nothing goes wrong any more.
        fired: what has gone wrong, and how often.
        spoils: does something to the data of a user who is moved; set by what knows what users have.
    """

    def __init__(self, loop: VirtualLoop, given: Plan, calls: StoreCalls, seed: int) -> None:
        self.loop = loop
        self.trace = Trace()
        self.disks = [Disk(loop, number) for number in range(given.stores)]
        self.is_calm = False
        self.fired: dict[str, int] = {}
        self.spoils: Callable[[Sent, int], None] = lambda sent, store: None
        self._given = given
        self._calls = calls
        calls.most_s = given.store_s
        self._chance = random.Random(f"faults of moves {seed}")
        self._wires = Wires(loop, self.trace, given.network)
        self._wires.on_sent, self._wires.on_handled = self._on_sent, self._on_handled
        self._started = 0
        self._sessions: list[HostProcess] = []

    def start(self) -> None:
        """Start a Session actor for each store."""
        self._sessions = [self._session(number) for number in range(self._given.stores)]

    def _session(self, number: int) -> HostProcess:
        self._started += 1
        process = HostProcess(f"session {number}#{self._started}", can_restart=True)
        environment = SessionEnvironment(
            cast(Any, DiskStore(self.disks[number], process)),
            TREE,
            store_timeout_s=PATIENT_S,
            writer="session",
            on_replaced=lambda: outside(self.kill, process),
            place=StorePlace(number, self._given.stores),
            now_s=lambda: wall_s(self.loop),
        )
        process.actors[""] = process.run(session_actor, environment)
        self.trace.add(self.loop.time(), f"{process.name} starts")
        return process

    def ref(self, sender: SimProcess) -> StoresSessionRef:
        """A client of all Session actors for a process."""

        def one(number: int) -> SessionRef:
            handle = Handle(self._wires, sender, lambda: self._sessions[number], can_restart=True)
            return SessionRef(handle.link(f"the Session actor of store {number}"))

        return StoresSessionRef([one(number) for number in range(self._given.stores)])

    def kill(self, process: SimProcess) -> None:
        """Kill a process. A Session actor is started again after a while."""
        if process.is_dead:
            return
        process.is_held = process.is_dead = True
        self.trace.add(self.loop.time(), f"{process.name} is lost")
        process.note_lost()
        if isinstance(process, HostProcess):
            self._wires.died(process)
            self._calls.lose(process)
            if process in self._sessions:
                outside(self.loop.call_later, self._chance.uniform(0, 1), self._restart, self._sessions.index(process))

    def _restart(self, number: int) -> None:
        if self._sessions[number].is_dead:
            self._sessions[number] = self._session(number)

    def _replace(self, process: HostProcess) -> None:
        """Start another Session actor beside one that lives on for a while."""
        number = self._sessions.index(process)
        self._sessions[number] = self._session(number)
        outside(self.loop.call_later, self._chance.uniform(0, 3), self.kill, process)

    def _on_sent(self, sent: Sent) -> float:
        if self.is_calm or sent.kind not in STEPS:
            return 0.0
        self._go_wrong(sent)
        if self._chance.random() < self._given.spoil and sent.receiver in self._sessions:
            self.spoils(sent, self._sessions.index(sent.receiver))
        return self._chance.uniform(0, LATE_S) if self._chance.random() < self._given.late else 0.0

    def _on_handled(self, sent: Sent, _: bytes) -> bool:
        if self.is_calm or sent.kind not in STEPS:
            return True
        self._go_wrong(sent)
        return self._chance.random() >= self._given.fault

    def _go_wrong(self, sent: Sent) -> None:
        if self._chance.random() >= self._given.fault:
            return
        what = self._chance.choice(FAULTS if self._given.is_unsure else FAULTS[:-1])
        receiver, sender = sent.receiver, sent.sender
        self.note(what)
        if what == "kill sender" and isinstance(sender, Mover):
            self.kill(sender)
        elif what == "freeze sender" and isinstance(sender, Mover) and not sender.is_dead:
            sender.is_held = True
            outside(self.loop.call_later, 10 ** self._chance.uniform(-2, 2.3), sender.go_on)
        elif what == "kill receiver" and receiver is not None:
            self.kill(receiver)
        elif what == "kill another":
            self.kill(self._chance.choice(self._sessions))
        elif what == "store unsure":
            # Longer than calls are repeated: they fail, and were done.
            self._chance.choice(self.disks).unsure_until_s = self.loop.time() + 2 * PATIENT_S
        elif what == "replace" and receiver in self._sessions and not receiver.is_dead:
            self._replace(receiver)

    def note(self, what: str) -> None:
        """Something has gone wrong."""
        self.fired[what] = self.fired.get(what, 0) + 1
        self.trace.add(self.loop.time(), what)

    def lose_part(self, user: str, store: int) -> bool:
        """Have a store lose the last part that it keeps of a user. False: it keeps none."""
        arrivals = schema.arrivals

        def lose(transaction: Any) -> None:
            connection = transaction.connection
            of_user = (arrivals.c.user == user, arrivals.c.number > 0)
            last = connection.execute(select(func.max(arrivals.c.number)).where(*of_user)).scalar_one()
            lost.append(last)
            connection.execute(delete(arrivals).where(arrivals.c.user == user, arrivals.c.number == last))

        lost: list[int | None] = []
        self.change(store, lose)
        return lost != [None]

    def change(self, store: int, work: Any) -> None:
        """Change what a store has, past its Session actor."""
        self.disks[store].store._claim = None
        self.disks[store].store._written(work)


def user_in(sent: Sent) -> str:
    """The user whom a message is about."""
    return str(msgspec.msgpack.decode(sent.raw).get("user", ""))
