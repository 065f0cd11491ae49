"""Has the faults of a plan come: at messages, at moments of the store and of drivers, and at times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.cluster import Sent
from tests.simulation.faults import Fault, Phase
from tests.simulation.virtual_loop import SimProcess, outside

if TYPE_CHECKING:
    from tests.simulation.world import World


class Firing:
    """The faults of one simulation.

    Args:
        world: where they happen.
        faults: in the order of the plan.

    Attributes:
        fired: the faults that have happened, with their times.
        moments: how often each moment has come that is no message: see `moment`.
    """

    def __init__(self, world: World, faults: list[Fault]) -> None:
        self._world = world
        self._faults = faults
        self._places = {(fault.kind, fault.nth): place for place, fault in enumerate(faults) if fault.kind}
        self.fired: list[tuple[float, Fault]] = []
        self.moments: dict[str, int] = {}

    def begin(self) -> None:
        """Have the first fault come, if it waits for no message."""
        self._follow_up(-1)

    def moment(self, kind: str, process: SimProcess | None, phase: Phase) -> None:
        """Something happens that is no message, such as a commit; a fault may wait for it as for a message.

        Args:
            phase: "sent" counts it; "handled" is the same one, when it is over.
        """
        self.moments[kind] = nth = self.moments.get(kind, 0) + (phase == "sent")
        sent = Sent(kind, nth, process, None, b"")
        self.on_sent(sent) if phase == "sent" else self.on_handled(sent)

    def on_sent(self, sent: Sent) -> float:
        """A message is sent. Returns the seconds for which it is delayed."""
        place = self._places.get((sent.kind, sent.nth))
        if place is None:
            return 0.0
        fault = self._faults[place]
        if fault.what == "slow":
            self._note(place)
            return fault.for_s
        if fault.what == "break" and not _may_lose(sent):
            self._note(place)
        elif fault.what != "lose reply" and fault.phase == "sent":
            self._fire_later(place, sent, fault.after_s)
        return 0.0

    def on_handled(self, sent: Sent) -> bool:
        """A message was dealt with. Returns whether its reply arrives."""
        place = self._places.get((sent.kind, sent.nth))
        if place is None:
            return True
        fault = self._faults[place]
        if fault.what == "lose reply":
            self._note(place)
            return not _may_lose(sent)
        if fault.phase == "handled" and fault.what != "slow":
            self._fire_later(place, sent, fault.after_s)
        return True

    def unnoticed_s(self, sent: Sent) -> float:
        """How long the sender of a message waits for its reply, which is lost."""
        place = self._places.get((sent.kind, sent.nth))
        return self._faults[place].unnoticed_s if place is not None else 0.0

    def _fire_later(self, place: int, sent: Sent, seconds: float) -> None:
        if seconds:
            outside(self._world.loop.call_later, seconds, self._fire, place, sent)
        else:
            outside(self._fire, place, sent)

    def _follow_up(self, place: int) -> None:
        """Have the fault after one that has happened come, if it does not wait for a message."""
        if place + 1 < len(self._faults) and not self._faults[place + 1].kind:
            outside(self._world.loop.call_later, self._faults[place + 1].after_s, self._fire, place + 1, None)

    def _note(self, place: int) -> None:
        fault, now_s = self._faults[place], self._world.loop.time()
        if any(fault is each for _, each in self.fired):
            return
        self.fired.append((now_s, fault))
        self._world.loop.history.fail(fault.what)
        self._world.trace.add(now_s, f"FAULT {fault}")
        self._follow_up(place)

    def _fire(self, place: int, sent: Sent | None) -> None:
        fault, world = self._faults[place], self._world
        self._note(place)
        until_s = world.loop.time() + fault.for_s
        match fault.what:
            case "store away":
                world.disk.away_until_s = until_s
            case "store unsure":
                world.disk.unsure_until_s = until_s
            case "commits fail":
                world.disk.full_until_s = until_s
            case "commit conflicts":
                world.disk.conflicts += 1
            case "commit breaks":
                world.disk.breaks_at = fault.statement
            case "store fails":
                world.disk.fails_until_s = until_s
            case "store hangs":
                world.calls.hang(until_s)
            case "break" if sent is not None:
                world.wires.cut(sent)
            case "replace" if fault.who == "runner":
                world.replace_runner(fault.for_s)
            case "replace":
                world.replace_session(fault.for_s)
            case _:
                for process in self._found(fault.who, sent):
                    if fault.what == "kill":
                        world.kill(process, fault.for_s)
                    elif not process.is_dead:
                        world.freeze(process, fault.for_s)

    def _found(self, who: str, sent: Sent | None) -> list[Any]:
        """The living processes that a fault means."""
        world = self._world
        directory = world.directory
        match who:
            case "session":
                found: list[Any] = [world.session]
            case "runner":
                found = [world.runner]
            case "standby":
                found = [world.standby]
            case "limiter":
                found = [world.limiter]
            case "agents":
                found = list(directory.processes()) if directory is not None else []
            case "driver":
                found = list(world.drivers[-1:])
            case "sender" | "receiver":
                found = [getattr(sent, who) if sent is not None else None]
            case _:
                links = directory.links if directory is not None else {}
                name = who.removeprefix("agent ")
                found = [links[name][1]] if name in links else []
        return [each for each in found if each is not None and not each.is_dead]


def _may_lose(sent: Sent) -> bool:
    """True for a message whose sender can bear that its reply gets lost while the receiver lives: see ActorLink."""
    name = sent.receiver.name if sent.receiver is not None else ""
    sender = sent.sender.name if sent.sender is not None else ""
    return not (name.startswith("runner") and not sender.startswith("driver"))
