"""How many turns a Runner opens at the same time: a few, and more of them while many users wait.

What is inside is worked on by all processes in turn: the Runner, the Session actor, the agents. With few inside they wait for
each other, and cores lie idle; with many inside the next one stands behind all of them. So the turns of one user are few at
a time, however many it has asked for. Where more users wait than are inside, who comes next waits for its turn among them anyway.

Each Session actor stores together what has come to it meanwhile. So there are as many inside for each: of the same few, two
Session actors would make twice the commits, each for half of the turns.
"""

from __future__ import annotations

import math

OF_SESSION_ACTOR = 64
"""Turns that may be inside for each Session actor: enough for its store to commit many together."""


def least_opened(session_actors: int, runners: int) -> int:
    """The number of turns that may be inside each Runner, however few users wait.

    Args:
        session_actors, runners: of the deployment. Runners share the sessions of all Session actors.
    """
    return OF_SESSION_ACTOR * math.ceil(session_actors / runners)


def opened_at_once(users: int, least: int, most: int) -> int:
    """The number of turns that may be inside.

    Args:
        users: that wait.
        least: turns that may be inside however few they are.
        most: turns that may be inside however many they are, if that is more than `least`.
    """
    return max(least, min(users, most))
