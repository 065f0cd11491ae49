"""What a turn really is: the calls between actors that it makes, their bytes, and its commits, recorded from one that runs.

The floor makes these calls, and no others. Written down by hand they would be those of some earlier protocol before long, and a
ratio against them would say nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec

from actors import BaseAgent
from actors.interfaces.transport import EarlyReply
from runtime.driver.runtime import Runtime
from runtime.engine.local import LocalLink
from tests.benchmarks.plan import TINY
from tests.benchmarks.workloads import instant_agent, run_turn, runtime
from tests.support.any_message import decode_message

_TURNS = 10


class RecordedTurn(msgspec.Struct, frozen=True):
    """A warm turn.

    Attributes:
        calls: how often each message is sent.
        requests, replies: bytes of each, on average.
        commits: transactions of the session store.
    """

    calls: dict[str, float]
    requests: dict[str, int]
    replies: dict[str, int]
    commits: float


def record(root: BaseAgent | None = None) -> RecordedTurn:
    """Run some turns on the local engine, whose actors say the same as on Ray.

    Args:
        root: by default an agent that answers at once.
    """
    calls: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    replies: Counter[str] = Counter()
    send = LocalLink.send

    async def noting(link: LocalLink, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        reply = await send(link, raw, once=once, early=early)
        name = type(decode_message(raw)).__name__
        calls[name] += 1
        requests[name] += len(raw)
        replies[name] += len(reply)
        return reply

    # From the start, since one poll always waits: the one that tells of the first turn was sent before that.
    with (
        patch.object(LocalLink, "send", noting),
        TemporaryDirectory() as folder,
        runtime(TINY, root or instant_agent(), Path(folder)) as rt,
    ):
        before = _talk(rt)
        for counts in (calls, requests, replies):
            counts.clear()
        commits = _talk(rt) - before
        return _recorded(calls, requests, replies, commits)


def _talk(rt: Runtime) -> int:
    """Run the turns. Returns the commits made so far."""
    for _ in range(_TURNS):
        run_turn(rt, "s")
    return rt.statistics().session.counts["commits"]


def _recorded(calls: Counter[str], requests: Counter[str], replies: Counter[str], commits: int) -> RecordedTurn:
    del calls["GetStatistics"]  # our own question
    return RecordedTurn(
        {name: made / _TURNS for name, made in calls.items()},
        {name: requests[name] // made for name, made in calls.items()},
        {name: replies[name] // made for name, made in calls.items()},
        commits / _TURNS,
    )
