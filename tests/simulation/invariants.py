"""What has to hold when a simulation is over, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.model.conversation import Conversation, request_of
from tests.simulation.faults import PASSING, PATIENT_S
from tests.simulation.play import Result
from tests.simulation.scenarios import Scenario

STORE_ERRORS = frozenset({"StoreError", "StoreUnavailableError", "StoreConflictError"})
"""How turns end that cannot be stored."""


def problems(scenario: Scenario, result: Result, *, is_modelled: bool = True) -> list[str]:
    """What does not hold.

    Args:
        is_modelled: what agents say follows from the scenario.
    """
    found = [*result.problems, *_store_errors(result)]
    if result.open_turns:
        found.append(f"turns are open at the end: {result.open_turns}")
    if is_modelled:
        found += _model(scenario, result)
    return found


def _store_errors(result: Result) -> Iterator[str]:
    """Nothing fails by the store without a fault of it that lasts."""
    failed, happened = _failed_at_store(result), {fault.what for _, fault in result.fired}
    lasted = "commit conflicts" in happened or (result.store_timeout_s < PATIENT_S and not happened.isdisjoint(PASSING))
    if failed and not lasted:
        yield f"the store was well, or came back in time, and there are failures by it: {failed}"


def _failed_at_store(result: Result) -> list[str]:
    in_log = [event.error_code or "" for event in result.log]
    return [each for each in (*in_log, *(told.ended for told in result.asks)) if each in STORE_ERRORS]


def _model(scenario: Scenario, result: Result) -> Iterator[str]:
    """What is said, how turns end, what models are shown and which tools run is what tests/model says."""
    played = Conversation(
        scenario.root, result.log, lambda turn: _may_be_cut(scenario, result, turn), has_faults=bool(result.fired)
    )
    if played.problems:
        yield from played.problems
        return
    for turn, end in played.ends.items():
        status = result.turns[turn]
        if status != end and not (status in ("cancelled", "failed") and _may_be_cut(scenario, result, turn)):
            yield f"{turn} is {status}, and must be {end}"
    asked = Counter(request_of(*each) for each in result.asked)
    yield from (f"a model was shown what it must not see: {each}" for each in sorted(asked.keys() - played.asked.keys())[:1])
    if played.is_whole:
        yield from (f"a model was not shown what it must see: {each}" for each in sorted(played.asked.keys() - asked.keys())[:1])
        if result.begun.keys() != played.ran.keys():
            yield f"the tools of calls {sorted(result.begun)} ran, and must of {sorted(played.ran)}"
    if played.is_whole and not result.fired and (asked, result.begun) != (played.asked, played.ran):
        yield f"there were {asked.total()} model calls and {result.begun.total()} runs of tools: some twice"


def _may_be_cut(scenario: Scenario, result: Result, turn: str) -> bool:
    """True for a turn that may end at any moment: it was cancelled, maybe by another one, or could not be stored."""
    acts = next((acts for number, acts in enumerate(scenario.turns) if turn == f"turn-{number}"), ())
    interrupts = any(act.deed == "interrupt" for acts in scenario.turns for act in acts)
    is_disturbed = scenario.timeout_s > 0 or interrupts or any(act.deed == "cancel" for act in acts)
    return is_disturbed or any(told.turn == turn and told.ended in STORE_ERRORS for told in result.asks)
