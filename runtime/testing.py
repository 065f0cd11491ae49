"""What tests of agents need: paths of turns to compare, and a clock that stands still. The pytest plugin brings the rest."""

from runtime.frontends.testing.frozen_clock import FrozenClock
from runtime.frontends.testing.steps import Called, Failed, Said, Transferred
from runtime.frontends.testing.turn_path import Trajectory, trajectory

__all__ = ["Called", "Failed", "FrozenClock", "Said", "Trajectory", "Transferred", "trajectory"]
