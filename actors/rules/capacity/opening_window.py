"""How many turns a Runner opens at the same time: a few, and more of them while many users wait.

What is inside is worked on by all processes in turn: the Runner, the Session actor, the agents. With few inside they wait for
each other, and cores lie idle; with many inside the next one stands behind all of them. So the turns of one user are few at
a time, however many it has asked for. Where more users wait than are inside, who comes next waits for its turn among them anyway.
"""

from __future__ import annotations


def opened_at_once(users: int, least: int, most: int) -> int:
    """The number of turns that may be inside.

    Args:
        users: that wait.
        least: turns that may be inside however few they are.
        most: turns that may be inside however many they are, if that is more than `least`.
    """
    return max(least, min(users, most))
