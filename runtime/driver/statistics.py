"""What `Runtime.statistics` returns."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from actors.messages import protocol as p


class RuntimeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What lives, and what it has done.

    Attributes:
        session, runner: the two actors that every deployment has; of several of a kind these are sums, and `parts` tells of each.
        agents: the agents that have an actor, by name. Each tells the name of its actor, its process id and its counts; one that
            several Runners have started is told in the same way as they are.
        models: what models that are limited have been asked, by name.
    """

    session: p.Statistics
    runner: p.Statistics
    agents: Mapping[str, p.Statistics]
    models: Mapping[str, Mapping[str, int]] = {}
