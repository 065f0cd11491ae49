"""What has to hold when a simulation is over, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from actors import Event
from actors.rules.accounting.turn_usage import packed, sum_of_packed
from actors.rules.routing.branches import tool_root
from tests.model.conversation import Conversation, request_of
from tests.simulation.faults import PASSING, PATIENT_S, are_at_store
from tests.simulation.play import NO, Result, Told
from tests.simulation.scenarios import Scenario
from tests.support.stores.logged_usage import fold

MAX_LOSSES = 3
"""After so many losses of one agent its run fails."""

OUTCOMES = frozenset({"Finished", "Paused", "AgentFailedError", "TurnCancelledError", "TurnTimeoutError", "ActorLostError"})
"""How a turn ends that has begun, as a driver sees it."""


STORE_ERRORS = frozenset({"StoreError", "StoreUnavailableError", "StoreConflictError"})
"""How turns end that cannot be stored."""


def problems(scenario: Scenario, result: Result, *, is_modelled: bool = True) -> list[str]:
    """What does not hold.

    Args:
        is_modelled: what agents say follows from the scenario.
    """
    found = [
        *result.problems,
        *_whole_log(result),
        *_calls(result),
        *_state(result),
        *_time(result),
        *_usage(result),
        *_losses(result),
        *_store_errors(result),
    ]
    if result.open_turns:
        found.append(f"turns are open at the end: {result.open_turns}")
    for told in result.told:
        if not _was_cancelled_behind_another(told, result.told):
            found += _told_is_log(told, result.log)
        found += _told_is_true(told, result)
    if is_modelled:
        found += _model(scenario, result)
    return found


def _whole_log(result: Result) -> Iterator[str]:
    """The log has no gaps, no event twice, and one message for each turn."""
    seqs = [event.seq for event in result.log]
    if seqs != list(range(1, len(seqs) + 1)):
        yield f"the log has gaps: {seqs}"
    ids = Counter(event.id for event in result.log)
    yield from (f"event {each} is in the log {often} times" for each, often in ids.items() if often > 1)
    opened = Counter(event.invocation_id for event in result.log if _is_message(event))
    for invocation_id in {event.invocation_id for event in result.log}:
        if opened[invocation_id] != 1:
            yield f"turn {invocation_id} has {opened[invocation_id]} messages"


def _is_message(event: Event) -> bool:
    return event.author == "user" and event.branch is None and not any(event.function_responses())


def _calls(result: Result) -> Iterator[str]:
    """Each call is made once and answered at most once; in a turn that is over it is answered. No other call is ever run."""
    made = Counter(call.id for event in result.log for call in event.function_calls())
    yield from (f"call {each} is made {often} times" for each, often in made.items() if often > 1)
    by_agent = Counter(
        each.id
        for event in result.log
        # An answer that comes after its turn was cancelled reaches the agent all the same.
        if event.author != "user" and not (_is_seal(event) and any(_answers(later, event) for later in result.log))
        for each in event.function_responses()
    )
    by_user = Counter(each.id for event in result.log if event.author == "user" for each in event.function_responses())
    for answers, who in ((by_agent, "its agent"), (by_user, "the user")):
        yield from (f"call {each} is answered {often} times by {who}" for each, often in answers.items() if often > 1)
    declined = [each.id or "" for event in result.log for each in event.function_responses() if each.response == NO]
    yield from (f"a tool ran for call {each}, which the user has declined" for each in declined if result.begun[each])
    yield from (f"a tool ran for call {each}, which is not in the log" for each in result.begun if each not in made)
    # What is cancelled while the store takes nothing ends all the same, and its calls may stay open.
    answered = ("finished", "cancelled") if not are_at_store(result.fired) else ("finished",)
    for event in result.log:
        if result.turns.get(event.invocation_id) in answered:
            for call in event.function_calls():
                # An agent that is a tool cannot pause the turn: a question of its own stays open.
                waits = call.id in event.long_running_tool_ids and tool_root(event.branch) is not None
                if call.id not in by_agent and call.id not in by_user and not waits:
                    status = result.turns[event.invocation_id]
                    yield f"call {call.name} of {event.author} at {event.seq} has no answer in a turn that is {status}"


def _state(result: Result) -> Iterator[str]:
    """The state is what the log's changes make of it."""
    folded: dict[str, Any] = {}
    for event in result.log:
        folded.update(event.actions.state_delta)
    if folded != result.state:
        yield f"the state is {result.state}, and the log's changes make {folded}"


def _time(result: Result) -> Iterator[str]:
    """The session was written to when its newest event was, or later."""
    if result.log and result.updated_s < result.log[-1].timestamp:
        yield f"the session was written to at {result.updated_s}, and its newest event is of {result.log[-1].timestamp}"


def _usage(result: Result) -> Iterator[str]:
    """The sums of each turn are those of its events. A turn that ends while the store is away has none."""
    for invocation_id, stored in result.usage.items():
        used = packed(fold(event for event in result.log if event.invocation_id == invocation_id))
        if stored and stored != used:
            yield f"turn {invocation_id} has used {sum_of_packed([stored])}, and its events {sum_of_packed([used])}"
        if not stored and not are_at_store(result.fired) and result.turns[invocation_id] != "running":
            yield f"nobody has added up what turn {invocation_id} has used"


def _losses(result: Result) -> Iterator[str]:
    """A run fails by losses only after three of them."""
    for event in result.log:
        if event.error_code == "ActorLostError" and result.lost_runs[event.author] < MAX_LOSSES:
            yield f"{event.author} failed by losses after {result.lost_runs[event.author]} of them: {event.error_message}"


def _store_errors(result: Result) -> Iterator[str]:
    """Nothing fails by the store without a fault of it that lasts."""
    failed, happened = _failed_at_store(result), {fault.what for _, fault in result.fired}
    lasted = "commit conflicts" in happened or (result.store_timeout_s < PATIENT_S and not happened.isdisjoint(PASSING))
    if failed and not lasted:
        yield f"the store was well, or came back in time, and there are failures by it: {failed}"


def _failed_at_store(result: Result) -> list[str]:
    in_log = [event.error_code or "" for event in result.log]
    return [each for each in (*in_log, *(told.ended for told in result.told)) if each in STORE_ERRORS]


def _was_cancelled_behind_another(told: Told, others: Sequence[Told]) -> bool:
    """True for a second answer that a cancel met in line: the log has the first one, and its driver was told what came of it."""
    if told.how != "answer" or told.ended != "TurnCancelledError" or told.events:
        return False
    return any(other.call_id == told.call_id and other.events for other in others if other.how == "answer")


def _told_is_log(told: Told, log: Sequence[Event]) -> Iterator[str]:
    """What a driver was told is what the log has, from the turn's message or answer on, in order and without holes."""
    if told.how == "cancel" or not told.ended:
        return
    opened = users = [e for e in log if e.invocation_id == told.turn and e.author == "user" and e.branch is None]
    agents = [event for event in log if event.invocation_id == told.turn and event.author != "user"]
    if told.how == "answer":
        # Of an answer that could not be given the log has nothing, so there is nothing to tell.
        opened = [event for event in opened if _has_answer(event, told.call_id)]
        agents = [event for event in agents if opened and event.seq > opened[0].seq]
    ids, heard = [event.id for event in agents], [event.id for event in told.events]
    if heard != ids[: len(heard)]:
        yield f"a driver ({told.how} {told.turn}) was told {_seqs(told.events)}, and the log has {_seqs(agents)}"
    elif told.ended in OUTCOMES and len(heard) < len(ids):
        # More came only after a later answer of the user.
        next_seq = agents[len(heard)].seq
        after = told.events[-1].seq if told.events else (opened[0].seq if opened else 0)
        was_in_line = told.how == "answer" and told.ended == "TurnCancelledError"
        was_sealed = (told.ended == "Paused" or was_in_line) and _is_seal(agents[len(heard)])
        if not was_sealed and not any(after < event.seq < next_seq for event in users):
            yield f"a driver ({told.how} {told.turn}: {told.ended}) was told {_seqs(told.events)} of {_seqs(agents)}"


def _told_is_true(told: Told, result: Result) -> Iterator[str]:
    """An answer is refused as cancelled only if its turn was cancelled: a turn that still waits for it was not."""
    is_there = any(event.author == "user" and _has_answer(event, told.call_id) for event in result.log)
    if told.how == "answer" and told.ended == "TurnCancelledError" and not is_there and result.turns[told.turn] == "paused":
        yield f"a driver was told that {told.turn} was cancelled, and it still waits for the answer"
    if told.how == "answer" and told.ended == "TurnStateError" and not is_there and result.turns.get(told.turn) == "paused":
        yield f"an answer to {told.turn} was refused, and it still waits for the answer"
    failed = {event.error_code for event in result.log if event.invocation_id == told.turn}
    if told.how == "follow" and told.ended not in (OUTCOMES | STORE_ERRORS | failed | {"", "InvocationNotFoundError"}):
        yield f"a driver that follows {told.turn} in line was told {told.ended}: {told.error}"


def _has_answer(event: Event, call_id: str) -> bool:
    return any(response.id == call_id for response in event.function_responses())


def _answers(message: Event, seal: Event) -> bool:
    """True for a user's answer to a call that was sealed before."""
    sealed = {response.id for response in seal.function_responses()}
    return message.author == "user" and message.seq > seal.seq and any(r.id in sealed for r in message.function_responses())


def _is_seal(event: Event) -> bool:
    """True for the answers that a cancelled turn gives to its open calls."""
    answers = [response.response for response in event.function_responses()]
    return bool(answers) and all(answer == {"error": "cancelled"} for answer in answers)


def _seqs(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


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
    return is_disturbed or any(told.turn == turn and told.ended in STORE_ERRORS for told in result.told)
