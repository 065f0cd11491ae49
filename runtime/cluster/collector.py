"""How often Python looks for garbage in the processes of a deployment."""

from __future__ import annotations

import gc

OBJECTS = 50_000
"""New objects after which Python looks through them for garbage. By default 700: so many are alive in a few turns at once.

At 10,000, which some 50 turns at once have, it took a sixth of the CPU of 256 turns at once.
"""


def look_less_often() -> None:
    """Have Python look for garbage less often in this process, and never among what exists now.

    Ray, pydantic and the agents' own modules are hundreds of thousands of objects that live as long as the process. To go through
    them again and again was a sixth of what a turn costs.
    """
    gc.freeze()
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
