"""Whatever is lost at whichever message: each answer in the log has one record of what was asked, and no record says more."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_args

import pytest

from actors import LlmRequest, LlmResponse
from actors.messages.codec import encode
from actors.testing import PatternModel
from tests.acceptance.losses.test_losses import play
from tests.acceptance.losses.trees import TREES
from tests.support.fixtures.lossy_engine import Loss, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy


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
