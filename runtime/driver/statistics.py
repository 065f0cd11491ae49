"""What `Runtime.statistics` returns, and how it is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from actors.messages import protocol as p
from actors.refs.statistics import by_agent
from runtime.engine.interface import Engine


class RuntimeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The living actors of a deployment and their counts.

    Attributes:
        session, runner: the Session actor and the Runner. Where there are several of a kind, sums, and `parts` has each.
        agents: the agents that have an actor, by name, each with its actor's name, process id and counts. An agent that several
            Runners have started has sums and `parts` too.
        models: by name, how many calls of a model with limits were granted, repeated, run and wait.
    """

    session: p.Statistics
    runner: p.Statistics
    agents: Mapping[str, p.Statistics]
    models: Mapping[str, Mapping[str, int]] = {}


async def read_statistics(engine: Engine) -> RuntimeStatistics:
    """Ask the deployment's actors for their counts. Raises what their clients raise."""
    runner, session = await asyncio.gather(engine.runner.statistics(), engine.session.statistics())
    models = (await engine.limiter.statistics()).models if engine.limiter is not None else {}
    return RuntimeStatistics(session=session, runner=runner, agents=by_agent(runner.agents), models=models)
