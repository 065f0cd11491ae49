"""One seed with budgets: its scenario, its faults, and by how much its budget is overspent."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from actors import Event
from actors.errors import BudgetExceededError
from actors.layers.spending.rules.report import UsageCollector, day_of
from actors.rules.accounting import packed
from actors.rules.checks.questions import scope_of
from tests.simulation.agents import OtherModel
from tests.simulation.faults import Fault, FaultPlan, are_at_store, fault_plan
from tests.simulation.invariants import problems
from tests.simulation.play import KEY, NO_FAULTS, Result
from tests.simulation.scenarios import Act, Node, Scenario, Step, scenario
from tests.simulation.simulate import Case
from tests.simulation.spending.play import Spent, spend
from tests.support.stores.logged_usage import NO_PRICES, fold, used

DAILY = ("user_daily_budget", "app_daily_budget")
AT_ONCE = ("par", "flow", "graph")
BUDGETS = ("budget", "session_budget", "agent_budgets", *DAILY)
AT_LIMIT = ("stop", "ask", "wrap_up", "model")


def spending(seed: int) -> Case:
    """The case of a seed. Of twenty one has a budget that just suffices; of the others one in three has no faults."""
    chance = random.Random(f"spending {seed}")
    if seed % 20 == 1:
        return _sufficing(seed, chance)
    made = msgspec.structs.replace(
        scenario(seed),
        budget=chance.choice(BUDGETS),
        at_limit=chance.choice(AT_LIMIT),
        llm_calls=chance.randint(1, 6),
        then=chance.choice(["", "", "fork", "rewind"]),
    )
    if chance.randrange(2):
        made = msgspec.structs.replace(
            made, root=_side_by_side(chance, 3 if made.at_limit == "wrap_up" else 1), llm_calls=chance.randint(2, 8)
        )
    if made.budget == "agent_budgets":
        made = msgspec.structs.replace(made, agent=chance.choice([made.root.name, *(node.name for node in made.root.all())]))
    if made.budget in DAILY and chance.randrange(2):
        # The budget is likely to be used up by the turns before.
        made = msgspec.structs.replace(made, turns=(*made.turns, ()), midnight=len(made.turns), llm_calls=chance.randint(1, 3))
    made = msgspec.structs.replace(made, turns=[[*acts, *_acts(chance, made)] for acts in made.turns])
    if chance.randrange(3) == 0:
        return Case(seed, made, NO_FAULTS)
    right = spend(made, seed=seed)[0].result
    plan = fault_plan(seed, right.messages, right.moments, [node.name for node in made.root.all()])
    if asked := right.messages.get("ReserveSpending"):
        # The Session actor is lost while calls are under way that it alone knows of.
        nth, for_s = chance.randint(1, asked), 10 ** chance.uniform(-2, -0.5)
        loss = Fault(what="kill", who="session", kind="ReserveSpending", nth=nth, phase="handled", for_s=for_s)
        plan = plan.adding(loss)
    return Case(seed, made, plan)


def _sufficing(seed: int, chance: random.Random) -> Case:
    """An agent has as many calls as it makes, and one of its reservations is asked for again, since the reply was lost."""
    calls = chance.randint(1, 4)
    root = Node(kind="llm", name="n1", steps=[Step(does="work", takes_s=0.1)] * (calls - 1), thinks_s=0.1)
    made = Scenario(root=root, turns=[(), ()], budget="budget", at_limit="stop", llm_calls=calls)
    lost = Fault(what="lose reply", kind="ReserveSpending", nth=chance.randint(1, 2 * calls), phase="handled")
    return Case(seed, made, FaultPlan(faults=[lost]))


def _side_by_side(chance: random.Random, steps: int) -> Node:
    """Agents that use one budget at the same time, and have so many steps at least before they would end by themselves."""
    children = [
        Node(
            kind="llm",
            name=f"n{number}",
            steps=[Step(does="work", takes_s=chance.choice([0.0, 0.02, 0.3])) for _ in range(chance.randint(steps, steps + 3))],
            thinks_s=chance.choice([0.01, 0.02, 0.1, 0.5]),
        )
        for number in range(2, chance.randint(4, 6))
    ]
    return Node(kind="par", name="n1", children=children)


def _acts(chance: random.Random, made: Scenario) -> Iterator[Act]:
    """What users do beside a turn with a budget."""
    if made.at_limit == "ask" and not any(act.deed == "answer" for acts in made.turns for act in acts) and chance.randrange(2):
        yield Act(deed="answer", after_s=10 ** chance.uniform(-3, -0.5), differs=chance.random() < 0.3)
    if made.budget in DAILY and chance.randrange(3) == 0:
        yield Act(deed="midnight", after_s=10 ** chance.uniform(-3, 0.5))
    if made.budget in DAILY and chance.randrange(3) == 0:
        yield Act(deed="beside", after_s=10 ** chance.uniform(-3, -1))


def play(case: Case, seed: int) -> Result:
    """What a case leaves, with all that does not hold."""
    spent, _ = spend(case.scenario, case.plan, seed)
    # What is rewound was told, and is in no log that a driver sees.
    found = spent.result.problems if spent.is_rewound else problems(case.scenario, spent.result, is_modelled=False)
    rules = (overspent, added_up, asked_once, held_back, refused_for_a_reason)
    spent.result.problems = [*found, *(each for rule in rules for each in rule(case.scenario, spent))]
    return spent.result


def overspent(given: Scenario, spent: Spent) -> Iterator[str]:
    """By one call of each agent at most: by its last one where it has to end, and where something was lost; else by none."""
    bounded = _agents_below(given)
    began: dict[str, str] = {}
    sums: Counter[str] = Counter()
    callers: dict[str, set[tuple[str, int, str]]] = {}
    more: Counter[str] = Counter()
    opened: Counter[str] = Counter()
    for session, event in _all_events(spent):
        turn = event.invocation_id
        day = began.setdefault(turn, day_of(event.timestamp))
        if event.author == "user" and event.branch is None:
            opened[turn] += 1
            more[turn] += _given(given, event)
        if not used(event).llm_calls or event.author not in bounded:
            continue
        if given.at_limit == "model" and event.model_version == OtherModel.name:
            # It counts as well, and may be called before those are over that had room.
            continue
        now = day_of(event.timestamp)
        if given.budget in DAILY and spent.result.fired and now != day:
            # A Session actor that was lost forgets what turns that began the day before have used since.
            continue
        where = {"session_budget": session}.get(given.budget, now if given.budget in DAILY else turn)
        sums[where] += 1
        # An agent that has to end answers once more in each turn, and after each answer of the user's.
        time = opened[turn] if given.at_limit == "wrap_up" else 0
        callers.setdefault(where, set()).add((turn if given.at_limit == "wrap_up" else session, time, event.author))
        limit = given.llm_calls + more[turn]
        if sums[where] <= limit:
            continue
        if given.at_limit != "wrap_up" and not spent.result.fired:
            yield f"call {sums[where]} of {where}, by {event.author}, whose {given.budget} has {limit}, and nothing was lost"
        if sums[where] > limit + len(callers[where]):
            yield f"call {sums[where]} of {where}, by {event.author}, whose {given.budget} has {limit}: {sorted(callers[where])}"


def _all_events(spent: Spent) -> Sequence[tuple[str, Event]]:
    """The events of all sessions, in the order of their times, and within a session of the log."""
    logs = {"s1": spent.result.log, **spent.others}
    placed: list[tuple[float, str, int, Event]] = []
    for session, log in logs.items():
        at_s = 0.0
        for place, event in enumerate(log):
            at_s = max(at_s, event.timestamp)
            placed.append((at_s, session, place, event))
    return [(session, event) for _, session, _, event in sorted(placed, key=lambda each: each[:3])]


def _agents_below(given: Scenario) -> set[str]:
    """The agents whose calls a budget bounds."""
    root = next(node for node in given.root.all() if node.name == (given.agent or given.root.name))
    return {name for node in root.all() for name in _names(node)}


def _names(node: Node) -> Iterator[str]:
    yield node.name
    yield from (f"{node.name}_{number}" for number in range(len(node.tasks)))


def _given(given: Scenario, message: Event) -> int:
    """How much a message gives that answers questions: those in one message count once."""
    answers = [each.response for each in message.function_responses() if scope_of(each.id) and each.response.get("confirmed")]
    payload: Any = answers[0].get("payload") if answers else None
    return (int(payload["llm_calls"]) if payload else given.llm_calls) if answers else 0


def added_up(given: Scenario, spent: Spent) -> Iterator[str]:
    """What a user has used is what the logs say: each call once, also those that were rewound, and none that was copied."""
    if are_at_store(spent.result.fired) or spent.report is None:
        return
    collector = UsageCollector("agent", NO_PRICES)
    collector.add("", [packed(fold(event for _, event in _all_events(spent)))])
    if spent.report != collector.report():
        yield f"the user has used {spent.report}, and the logs have {collector.report()}"


def asked_once(given: Scenario, spent: Spent) -> Iterator[str]:
    """An agent asks again only after an answer, for as much as there is by then; after a no nobody asks in that turn."""
    open_questions: dict[tuple[str, str, str | None, str], str] = {}
    more: Counter[str] = Counter()
    declined: set[tuple[str, str]] = set()
    for _, event in _all_events(spent):
        turn = event.invocation_id
        answers = {each.id or "": each.response for each in event.function_responses() if scope_of(each.id)}
        if event.author == "user" and event.branch is None:
            more[turn] += _given(given, event)
            no = {(turn, scope_of(call)) for call, answer in answers.items() if not answer.get("confirmed")}
            declined = (declined | no) if no else declined
        open_questions = {where: call for where, call in open_questions.items() if call not in answers}
        for question in event.function_calls():
            if not (scope := scope_of(question.id)):
                continue
            where = (turn, event.author, event.branch, scope)
            if where in open_questions:
                yield f"{event.author} of {turn} asks for more of {scope} again at {event.seq}, before there is an answer"
            if (turn, scope) in declined:
                yield f"{event.author} of {turn} asks for more of {scope} at {event.seq}, after a no"
            if question.args["limit"] != given.llm_calls + more[turn]:
                yield f"{event.author} of {turn} asks about {question.args}, and there were {given.llm_calls} and {more[turn]}"
            open_questions[where] = question.id or ""


def held_back(given: Scenario, spent: Spent) -> Iterator[str]:
    """No turn is refused its first call while there is room for it, where nothing was lost."""
    if spent.result.fired:
        return
    # Agents at once, of which there are more than calls, may be stopped, all of them, before one has its answer.
    nodes = [*given.root.all()]
    if any(node.kind in AT_ONCE for node in nodes) and len(nodes) > given.llm_calls:
        return
    name = BudgetExceededError.__name__
    if given.midnight and not _has_acts(given, "midnight", "beside") and given.then != "fork":
        days: dict[str, list[Event]] = {}
        began: dict[str, str] = {}
        for _, event in _all_events(spent):
            days.setdefault(began.setdefault(event.invocation_id, day_of(event.timestamp)), []).append(event)
        for day, events in [*days.items()][1:]:
            turns = {event.invocation_id for event in events}
            refused = [told.turn for told in spent.result.asks if told.turn in turns and told.ended == name]
            refused += [event.invocation_id for event in events if any(scope_of(call.id) for call in event.function_calls())]
            refused += [event.invocation_id for event in events if event.model_version == OtherModel.name]
            if refused and not any(used(event).llm_calls and event.model_version != OtherModel.name for event in events):
                yield f"{refused} of {day} had no call of the {given.llm_calls} that its {given.budget} has each day"
    forked = spent.others["s3"]
    calls = sum(amounts.llm_calls for amounts in fold(forked).values())
    if given.budget not in DAILY and forked and not calls and spent.ended.get("forked") == name:
        yield f"the turn of the fork had no call of the {given.llm_calls} that its {given.budget} has"


def refused_for_a_reason(given: Scenario, spent: Spent) -> Iterator[str]:
    """A turn ends by its budget when all of that is used, also after losses, and where a reservation is asked for again.

    Left out is what may use the budget at the same time, and has not said so yet when it is stopped.
    """
    stops = _has_acts(given, "cancel", "interrupt", "reject") or given.timeout_s or given.max_calls
    if given.budget in DAILY or are_at_store(spent.result.fired) or stops or any(n.kind in AT_ONCE for n in given.root.all()):
        return
    bounded = _agents_below(given)
    for ask in spent.result.asks:
        if ask.ended != BudgetExceededError.__name__ or ask.session != KEY.session:
            continue
        own = [event for event in spent.result.log if event.invocation_id == ask.turn]
        events = spent.result.log if given.budget == "session_budget" else own
        calls = sum(used(event).llm_calls for event in events if event.author in bounded)
        limit = given.llm_calls + sum(_given(given, event) for event in own if event.author == "user")
        if calls < limit:
            yield f"{ask} ended by its {given.budget} with {calls} calls of {limit}"


def _has_acts(given: Scenario, *deeds: str) -> bool:
    return any(act.deed in deeds for acts in given.turns for act in acts)
