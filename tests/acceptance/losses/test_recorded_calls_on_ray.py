"""Processes are killed while turns run: what is recorded of them is what models got, and no stored answer is without it."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import pytest

from actors import LlmAgent, LlmRequest, LlmResponse, SequentialAgent, tool
from actors.messages.codec import encode
from actors.testing import PatternModel, Reply
from runtime import Runtime, Settings
from tests.support.runtimes import Deploy, stored

TURNS, KILLS = 12, 40


class FiledModel(PatternModel):
    """Notes a digest of each request in a file, from whatever process it is asked in."""

    def __init__(self, file: Path, patterns: list[tuple[str, Reply]]) -> None:
        super().__init__(patterns, default="done")
        self.file = file

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Note the request, and answer."""
        with self.file.open("a") as file:
            file.write(f"{digest(request)}\n")
        async for response in super().generate(request, stream=stream):
            yield response


def digest(request: LlmRequest | None) -> str:
    return blake2b(encode(request), digest_size=16).hexdigest()


@tool
def slow(order: str) -> str:
    """Take a while, so that a kill finds something to kill."""
    time.sleep(0.05)
    return order


def kill_some(rt: Runtime, ended: threading.Event, chance: random.Random) -> None:
    """Kill processes of agents, and now and then the Runner's or the Session actor's; of a turn two: the third fails it."""
    hit: Counter[str] = Counter()
    for number in range(KILLS):
        if ended.wait(chance.uniform(0.05, 0.4)):
            return
        running = [turn.invocation_id for turn in rt.turns.list("ada", "s1", "running")]
        if not running or hit[running[0]] == 2:
            continue
        hit[running[0]] += 1
        seen = rt.statistics()
        core = (seen.runner.pid, seen.session.pid)
        pids = [agent.pid for agent in seen.agents.values()] if number % 4 else [core[number // 4 % 2]]
        # It may have ended meanwhile.
        with suppress(ProcessLookupError):
            os.kill(chance.choice(pids or [seen.runner.pid]), signal.SIGKILL)


@pytest.mark.full
def test_what_is_recorded_is_what_models_got_whatever_is_killed(local_ray: str, tmp_path: Path) -> None:
    file = tmp_path / "asked"
    call = {"call": "slow", "args": {"order": "42"}}
    first = LlmAgent(name="first", model=FiledModel(file, [("tool:", "first is done"), ("", call)]), tools=[slow])
    second = LlmAgent(name="second", instruction="Be second.", model=FiledModel(file, [("", "second is done")]))
    root = SequentialAgent(name="all", sub_agents=[first, second])
    ended = threading.Event()
    with Deploy("ray", tmp_path)(root, settings=Settings(record_requests=1.0)) as rt:
        killer = threading.Thread(target=kill_some, args=(rt, ended, random.Random(7)))
        killer.start()
        turns = [rt.run(user_id="ada", session_id="s1", message=f"turn {number}") for number in range(TURNS)]
        outcomes = [type(turn.result().outcome).__name__ for turn in turns]
        ended.set()
        killer.join()
        log = stored(rt)
        calls = [call for turn in turns for call in rt.turns.requests("ada", "s1", turn.invocation_id)]
    assert outcomes == ["Finished"] * TURNS
    given = set(file.read_text().split())
    assert {digest(call.request) for call in calls} <= given
    answers = {event.id for event in log if event.author in ("first", "second") and not any(event.function_responses())}
    answers = {event.id for event in log if event.id in answers and event.content is not None}
    assert len(answers) == 3 * TURNS
    assert answers <= {call.event_id for call in calls}
    assert len(calls) == len({call.event_id for call in calls})
