"""Loses actors while recorded cases of graphs are played: python -m tests.graph.losses CASES [--places N] [--only ID …]

Each case is played once undisturbed, and then with each actor lost at some of its messages, before or after they have arrived.
The turns, the state and the errors have to be the same. Left out are cases that depend on how often something is run.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml

from actors import LlmRequest, LlmResponse
from actors.errors import DefinitionError
from actors.messages.codec import encode
from actors.testing import ScriptedModel
from tests.graph.build import Built
from tests.graph.play import Player
from tests.graph.words import NotPlayable, Spec
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder

LONGEST_S = 60
"""A case that takes longer hangs."""

DEPENDS = ('"k": "fail"', '"count"', '"raise"', '"stop"', '"resume"', '"restart"', '"ms"', '"timeout"', '"error"')
"""What a case has that counts its runs, is cut itself, fails, or depends on time."""

Answer = list[LlmResponse] | Exception
"""The responses to a question, or why there are none."""


class Ambiguous(Exception):
    """The same question has two answers, so an answer does not follow from its question."""


class Learned:
    """Answers each question as it was answered when nothing was lost.

    Args:
        script: answers the first time.
        known: the answers so far, by question.
        learns: nothing is lost this time.
    """

    def __init__(self, script: ScriptedModel, known: dict[bytes, Answer], *, learns: bool) -> None:
        self.requests: Sequence[LlmRequest] = ()
        self._script = script
        self._known = known
        self._learns = learns

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        question = encode([*request.contents])
        if self._learns:
            if question in self._known:
                raise Ambiguous
            try:
                self._known[question] = [response async for response in self._script.generate(request, stream=stream)]
            except Exception as error:
                self._known[question] = error
        found = self._known[question]
        if isinstance(found, Exception):
            raise found
        for response in found:
            yield response


class LossyCase:
    """A case that is played several times."""

    def __init__(self, case: Spec) -> None:
        self._case = case
        self._known: dict[str, dict[bytes, Answer]] = {}

    def play(self, losses: Sequence[Loss] = (), *, learns: bool = False) -> tuple[Any, LossyEngine]:
        """What comes of the case, without what depends on the order of branches, and the engine."""
        with quick_folder() as given:
            folder = Path(given)
            built = Built(self._case, folder, lambda name, script: self._model(name, script, learns=learns))
            rt, engine = lossy_runtime(built.root, folder, losses)
            player = Player(self._case, built, rt)
            try:
                found = player.play()
            finally:
                player.close()
            return _shown(found), engine

    def _model(self, name: str, script: ScriptedModel, *, learns: bool) -> Learned:
        return Learned(script, self._known.setdefault(name, {}), learns=learns)


def _shown(found: Mapping[str, Any]) -> Any:
    turns = [
        sorted(json.dumps(event, sort_keys=True, default=str) for event in turn if not event.get("partial"))
        for turn in found["turns"]
    ]
    return {"turns": turns, **{key: found[key] for key in ("inv", "raises", "state")}}


def _places(messages: int, places: int) -> Iterator[int]:
    yield from range(0, messages, max(1, messages // places))


def _hangs(*_: Any) -> None:
    raise TimeoutError(f"it takes longer than {LONGEST_S} s")


def tried(case: Spec, places: int) -> tuple[int, list[str]]:
    """Play a case with losses. Returns how many times it was played, and how it went otherwise than undisturbed.

    Raises:
        NotPlayable: it cannot be played so.
    """
    played = LossyCase(case)
    expected, engine = played.play(learns=True)
    if "Ambiguous" in json.dumps(expected):
        raise NotPlayable("a question with two answers")
    times, wrong = 0, []
    for who in get_args(Victim):
        for at in _places(engine.messages, places):
            loss = Loss(at, who, before=bool(at % 2))
            times += 1
            try:
                signal.alarm(LONGEST_S)
                found, _ = played.play([loss])
            except Exception as error:
                wrong.append(f"{loss}: {type(error).__name__}: {error}")
                continue
            finally:
                signal.alarm(0)
            if found != expected:
                wrong.append(f"{loss}: {_difference(found, expected)}")
    return times, wrong


def _difference(found: Any, expected: Any) -> str:
    for key in found:
        if found[key] != expected[key]:
            return f"{key}: {str(found[key])[:300]} and not {str(expected[key])[:300]}"
    return ""


def main() -> None:
    """Play a file of cases with losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--places", type=int, default=3, help="messages at which each actor is lost")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _hangs)
    counts: Counter[str] = Counter()
    for case in yaml.safe_load(given.cases.read_text())["cases"]:
        if given.only and case["id"] not in given.only:
            continue
        if case.get("area") == "definition" or any(word in json.dumps(case) for word in DEPENDS):
            counts["left out"] += 1
            continue
        try:
            times, wrong = tried(case, given.places)
        except (NotPlayable, DefinitionError):
            counts["left out"] += 1
            continue
        counts["cases"] += 1
        counts["played"] += times
        counts["otherwise"] += len(wrong)
        for each in wrong:
            print(case["id"], each, flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
