"""Whatever is lost or killed: each answer in the log has one record of what was asked, and no record says more."""

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
from typing import Any, get_args

import pytest

from actors import LlmAgent, LlmRequest, LlmResponse, SequentialAgent, tool
from actors.messages.codec import encode
from actors.testing import PatternModel, Reply
from runtime import Runtime, Settings
from tests.acceptance.losses.test_losses import play
from tests.acceptance.losses.trees import TREES
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy, stored


def note_requests(monkeypatch: pytest.MonkeyPatch, *kinds: type) -> Counter[bytes]:
    """All requests that models of these classes get from here on, by their bytes."""
    found: Counter[bytes] = Counter()
    for kind in kinds:
        monkeypatch.setattr(kind, "generate", _noting(kind.generate, found))  # type: ignore[attr-defined]
    return found


def _noting(generate: Any, found: Counter[bytes]) -> Any:
    async def noting(self: object, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        found[encode(request)] += 1
        async for response in generate(self, request, stream=stream):
            yield response

    return noting


PLACES = (3, 7, 12, 18)
"""Messages at which an actor is lost."""


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Counter[bytes]:
    """All requests that models got, by their bytes."""
    monkeypatch.setenv("RAYGROVE_RECORD_REQUESTS", "on")
    return note_requests(monkeypatch, PatternModel)


@pytest.mark.sampled(30, full=20)
@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("who", get_args(Victim))
def test_each_answer_has_one_record_of_what_the_model_got(name: str, who: Victim, given: Counter[bytes]) -> None:
    # Each tree and actor has two of the places.
    first = (list(TREES).index(name) + get_args(Victim).index(who)) % 2
    for at in PLACES[first::2]:
        given.clear()
        with quick_folder() as folder:
            rt, _ = lossy_runtime(TREES[name](), Path(folder), [Loss(at, who, before=bool(at % 2))])
            log = play(rt)
            # What is in the store is there for another deployment, too.
            with Deploy("local", Path(folder))(TREES[name]()) as rt:
                turns = dict.fromkeys(event.invocation_id for event in log)
                calls = [call for turn in turns for call in rt.turns.requests("ada", "s1", turn)]
                assert rt.turns.list(state="running") == []
        assert len({call.event_id for call in calls}) == len(calls)
        recorded = Counter(encode(call.request) for call in calls)
        assert recorded <= given, "nothing is recorded that no model got"
        seqs = {event.id: event.seq for event in log}
        assert [call.seq for call in calls if call.event_id in seqs] == [
            seqs[call.event_id] for call in calls if call.event_id in seqs
        ]
        said = {event.id for event in log if event.author != "user" and is_said_by_model(event.text)}
        assert said <= {call.event_id for call in calls}, (at, who)


def is_said_by_model(text: str) -> bool:
    """True for texts that only models of these trees say: see `talker` and `counter`."""
    return text.endswith((" is done", " has counted"))


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
