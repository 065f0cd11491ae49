"""The gate of a Runner, in simulated time: turns come in to be opened by the rules by which the real one lets them in."""

from __future__ import annotations

from actors.rules.queues import FairQueue, opened_at_once
from actors.runner.environment import RunnerEnvironment
from tests.capacity.queues import SimulatedTime, Then
from tests.support.inside import GATE_HOLD_S


class TurnGate:
    """Lets turns in, the users in turn.

    Args:
        at_once: how many turns may be inside.
        of_many: how many, while so many users wait.
    """

    def __init__(
        self,
        time: SimulatedTime,
        at_once: int = RunnerEnvironment.turns_opened_at_once,
        of_many: int = RunnerEnvironment.turns_of_many_opened_at_once,
    ) -> None:
        self._time = time
        self._at_once = at_once
        self._of_many = of_many
        # By turn since when it is inside, in the order in which they came in.
        self._inside: dict[GatePlace, float] = {}
        self._waiting: FairQueue[GatePlace] = FairQueue()
        self._is_watched = False

    def __len__(self) -> int:
        """The number of turns that wait."""
        return len(self._waiting)

    def place(self, user: int, session: int) -> GatePlace:
        """Of a turn that has come."""
        return GatePlace(self, user, session)

    def enter(self, place: GatePlace) -> None:
        """Have a turn wait until there is room for it."""
        self._waiting.add(place, place.user, place.session)
        self._fill()
        self._watch()

    def leave(self, place: GatePlace) -> None:
        """Let the next turn in for one that is inside."""
        if self._inside.pop(place, None) is not None:
            self._fill()

    def _fill(self) -> None:
        while self._waiting and len(self._inside) < opened_at_once(self._waiting.count_owners(), self._at_once, self._of_many):
            place = self._waiting.take()
            self._inside[place] = self._time.now_s
            place.then()

    def _watch(self) -> None:
        """Look again when the turn that has been inside for longest has had its time."""
        if not self._is_watched and self._waiting and self._inside:
            self._is_watched = True
            since_s = next(iter(self._inside.values()))
            self._time.watch_in(max(0.0, since_s + GATE_HOLD_S - self._time.now_s), self._let_late_ones_go)

    def _let_late_ones_go(self) -> None:
        self._is_watched = False
        late_s = self._time.now_s - GATE_HOLD_S + 1e-9
        for place in [each for each, since_s in self._inside.items() if since_s <= late_s]:
            self.leave(place)
        self._watch()


class GatePlace:
    """Of one turn.

    Args:
        user, session: that it is of.

    Attributes:
        then: what follows when it is let in.
    """

    def __init__(self, gate: TurnGate, user: int, session: int) -> None:
        self.user = user
        self.session = session
        self.then: Then
        self._gate = gate

    def enter(self, then: Then) -> None:
        """A step: wait until the turn may be opened."""
        self.then = then
        self._gate.enter(self)

    def is_kept(self) -> bool:
        """True when the turn stays inside though it is open, until its agent has begun: others wait."""
        return len(self._gate) > 0

    def leave(self) -> None:
        """Let the next one in, unless that was done."""
        self._gate.leave(self)
