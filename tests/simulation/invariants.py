"""What has to hold when a simulation is over, whatever went wrong in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from actors import Content, Event
from tests.model.conversation import Conversation, request_of
from tests.model.history import Found, History, SessionId
from tests.model.shown import shown
from tests.simulation.faults import AT_STORE, PASSING, PATIENT_S
from tests.simulation.play import Result
from tests.simulation.scenarios import Scenario

_STORE = "the simulated store"
"""In the result of an agent as a tool which could not store that it has failed."""

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
    happened = {fault.what for _, fault in result.fired}
    # What fails for good fails wherever it is; what is refused, and stored all the same, is more than the model says.
    is_cut = "store fails" in happened or ("store unsure" in happened and bool(_failed_at_store(result)))
    is_cut |= any(
        _STORE in str(each.response) for log in result.found.values() for e in log.log for each in e.function_responses()
    )
    if is_modelled and not is_cut:
        found += said_problems(scenario, result.history, has_faults=bool(result.fired))
    return found


def _store_errors(result: Result) -> Iterator[str]:
    """Nothing fails by the store without a fault of it that lasts."""
    failed, happened = _failed_at_store(result), {fault.what for _, fault in result.fired}
    lasted = not happened.isdisjoint(AT_STORE - PASSING) or (
        result.store_timeout_s < PATIENT_S and not happened.isdisjoint(PASSING)
    )
    if failed and not lasted:
        yield f"the store was well, or came back in time, and there are failures by it: {failed}"


def _failed_at_store(result: Result) -> list[str]:
    in_log = [event.error_code or "" for event in result.log]
    return [each for each in (*in_log, *(told.ended for told in result.asks)) if each in STORE_ERRORS]


def said_problems(scenario: Scenario, left: History, *, has_faults: bool) -> Iterator[str]:
    """What is said, how turns end, what models are shown and which tools run, where it is not what tests/model says."""
    played = [_played(scenario, left, session, has_faults) for session in left.found]
    wrong = [each for conversation in played for each in conversation.problems]
    if wrong:
        yield from wrong
        return
    asked = Counter(request_of(*each) for each in left.asked)
    must_ask = sum((conversation.asked for conversation in played), Counter[str]())
    must_run = sum((conversation.ran for conversation in played), Counter[str]())
    if any(ask.what in ("delete", "prune", "rewind", "retry") for ask in left.asks):
        # What a log had that is gone was shown to models, too.
        return
    unseen = asked.keys() - must_ask.keys()
    # A call that was lost with its process, or stopped below a run that was, counts, and is refused when it is made again.
    if left.lost_runs:
        unseen -= {request for each in played for requests in each.refused.values() for request in requests}
    unseen -= {*_of_refused(left), *_of_given_up(left)} if unseen else set()
    yield from (f"a model was shown what it must not see: {each}" for each in sorted(unseen)[:1])
    if not all(conversation.is_whole for conversation in played):
        return
    yield from (f"a model was not shown what it must see: {each}" for each in sorted(must_ask.keys() - asked.keys())[:1])
    if left.begun.keys() != must_run.keys():
        yield f"the tools of calls {sorted(left.begun)} ran, and must of {sorted(must_run)}"
    if not has_faults and len(left.found) == 1 and (asked, left.begun) != (must_ask, must_run):
        yield f"there were {asked.total()} model calls and {left.begun.total()} runs of tools: some twice"


def _of_refused(left: History) -> Iterator[str]:
    """2 Order of a turn: what models may be shown of a message while it is being stored, of those that the store did not take."""
    agents = {agent for agent, _ in left.asked}
    for ask in left.asks:
        log = left.found.get((ask.user, ask.session), Found()).log
        is_lost = ask.ended in STORE_ERRORS and not any(event.invocation_id == ask.turn for event in log)
        # Another request with its id was stored first.
        if ask.message is None or not (is_lost or ask.ended == "RepeatMismatchError"):
            continue
        message = Event(author="user", content=Content(role="user", parts=ask.message.parts))
        branches = {None, *(event.branch for event in log)}
        for length, agent, branch in product(range(len(log) + 1), agents, branches):
            yield request_of(agent, shown([*log[:length], message], agent, branch))


def _of_given_up(left: History) -> set[str]:
    """2 Lost processes: what models were shown only by processes that live on when their Runner is lost: the log as it was."""
    lives: set[str] = set()
    lives_on: set[str] = set()
    for call in left.models:
        (lives_on if left.given_up(call.runner) < call.at else lives).add(request_of(call.agent, call.contents))
    as_it_was: set[str] = set()
    for log in (found.log for found in left.found.values()) if lives_on else ():
        agents, branches = {agent for agent, _ in left.asked}, {None, *(event.branch for event in log)}
        for length, agent, branch in product(range(len(log) + 1), agents, branches):
            as_it_was.add(request_of(agent, shown(log[:length], agent, branch)))
    return (lives_on - lives) & as_it_was


def _played(scenario: Scenario, left: History, session: SessionId, has_faults: bool) -> Conversation:
    """The log of a session, played by the model."""
    history = left if isinstance(left, History) else left.history
    found, of_user = left.found[session], [ask for ask in left.asks if ask.user == session[0]]

    def may_be_cut(turn: str) -> bool:
        """A turn may end at any moment that was cancelled, maybe by another one, or could not be stored, as a lost program may
        not have heard."""
        asks = [ask for ask in of_user if ask.turn == turn]
        is_stopped = scenario.timeout_s > 0 or any(ask.how == "interrupt" for ask in of_user)
        is_unheard = history.store_failed and any(not ask.ended for ask in asks)
        return is_stopped or is_unheard or any(ask.what == "cancel" or ask.ended in STORE_ERRORS for ask in asks)

    turns = {event.invocation_id: "" for event in found.log if event.author != "user"}
    turns |= {name: record.status for name, record in found.turns.items()}
    limit = scenario.max_calls or 60
    retried = {ask.turn for ask in of_user if ask.what == "retry"}
    return Conversation(scenario.root, found.log, turns, may_be_cut, max_calls=limit, has_faults=has_faults, retried=retried)
