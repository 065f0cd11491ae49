"""Whether the logs of the storm are what they would be without faults.

Each turn is compared as a whole with the turn of a reference run on the local engine: the same kind of message, to the same
agent.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors import Event
from actors.definitions.tree import AgentTree
from actors.messages.event import USER
from actors.rules.routing.selection import select_agent
from runtime import Runtime
from tests.chaos.storm_driver import USER_ID
from tests.chaos.storm_faults import Fault
from tests.chaos.storm_tree import FLOOR, KINDS, Journal, storm_tree
from tests.support.runtimes import Deploy

LOSSES = 3
"""So many losses of one agent fail a turn."""

Shape = Mapping[str, Sequence[object]]
"""A turn without ids, places and times: the entries of each branch, in order."""


class EndedTurn(msgspec.Struct, frozen=True):
    """What a driver has written about a turn: the ids of the events that it was given, and how the turn ended."""

    session_id: str
    invocation_id: str
    text: str
    told: Sequence[str]
    failure: str
    refused: Sequence[str]
    began_s: float
    ended_s: float


class Findings(msgspec.Struct):
    """What is wrong, in sentences, and the counts of the storm."""

    wrong: list[str] = []
    turns: int = 0
    events: int = 0
    failed: list[str] = []
    refused: int = 0
    runs_of_calls: Counter[int] = msgspec.field(default_factory=Counter)
    slowest_s: float = 0.0


def reference(folder: Path) -> dict[tuple[str, str], Shape]:
    """Every kind of turn, by the agent that has the floor before it and by its kind."""
    shapes: dict[tuple[str, str], Shape] = {}
    with Deploy("local", folder)(storm_tree(folder / "reference.journal")) as rt:
        for floor, message in FLOOR.items():
            for kind in KINDS:
                session_id = f"{floor}-{kind}"
                rt.run(user_id=USER_ID, session_id=session_id, message=message).result()
                turn = rt.run(user_id=USER_ID, session_id=session_id, message=f"{kind} 1")
                shapes[floor, kind] = shape(turn.result().events)
    return shapes


def shape(events: Sequence[Event]) -> Shape:
    """The shape of a turn."""
    branches: dict[str, list[object]] = defaultdict(list)
    calls: dict[str, str] = {}
    for event in events:
        for call in event.function_calls():
            calls[call.id or ""] = call.name
    for event in events:
        branch = event.branch or ""
        for call_id, name in calls.items():
            branch = branch.replace(call_id, name)
        branches[branch].append(_entry(event))
    return dict(branches)


def _entry(event: Event) -> object:
    parts: list[object] = []
    for part in event.content.parts if event.content is not None else ():
        if part.function_call is not None:
            parts.append(("call", part.function_call.name, part.function_call.args))
        elif part.function_response is not None:
            parts.append(("response", part.function_response.name, part.function_response.response))
        else:
            parts.append(("text", re.sub(r"\d+", "N", part.text or "")))
    actions = event.actions
    # Notes of supervisors name places of the log.
    note = {key: value for key, value in (actions.agent_state or {}).items() if key not in ("begun", "since")}
    return (event.author, parts, actions.state_delta, actions.transfer_to_agent, actions.escalate, note, event.error_code)


def check(
    rt: Runtime, shapes: Mapping[tuple[str, str], Shape], ended: Sequence[EndedTurn], faults: Sequence[Fault], journal: Journal
) -> Findings:
    """Look at every session."""
    found = Findings()
    by_id = {each.invocation_id: each for each in ended}
    responses: dict[str, Event] = {}
    for session_id in sorted({each.session_id for each in ended}):
        session = rt.sessions.get(USER_ID, session_id)
        assert session is not None
        log = list(session.events)
        found.events += len(log)
        _check_log(found, session_id, log, session.state)
        responses.update({response.id or "": event for event in log for response in event.function_responses()})
        authors: list[str] = []
        turns: dict[str, list[Event]] = {}
        for event in log:
            turns.setdefault(event.invocation_id, []).append(event)
        _check_order(found, session_id, log)
        for invocation_id, events in turns.items():
            one = by_id.get(invocation_id)
            if one is None:
                found.wrong.append(f"{session_id}: turn {invocation_id} was never sent")
                continue
            floor = select_agent(AgentTree(storm_tree(Path())).topology, reversed(authors)).agent
            _check_turn(found, one, events, shapes[floor, one.text.split()[0]], faults)
            authors += [event.author for event in events if event.author != USER]
        missing = [each.text for each in ended if each.session_id == session_id and each.invocation_id not in turns]
        found.wrong += [f"{session_id}: {text!r} is not in the log" for text in missing]
    _check_tools(found, journal, responses)
    return found


def _check_log(found: Findings, session_id: str, log: Sequence[Event], state: Mapping[str, Any]) -> None:
    if [event.seq for event in log] != list(range(1, len(log) + 1)):
        found.wrong.append(f"{session_id}: a place of the log is missing or taken twice")
    if len({event.id for event in log}) != len(log):
        found.wrong.append(f"{session_id}: an event stands twice")
    folded: dict[str, Any] = {}
    for event in log:
        folded.update(event.actions.state_delta)
    if folded != dict(state):
        found.wrong.append(f"{session_id}: the state {dict(state)} is not the fold of the log, {folded}")


def _check_order(found: Findings, session_id: str, log: Sequence[Event]) -> None:
    runs = [
        event.invocation_id
        for event, before in zip(log, [None, *log], strict=False)
        if before is None or before.invocation_id != event.invocation_id
    ]
    if len(runs) != len(set(runs)):
        found.wrong.append(f"{session_id}: turns interleave")


def _check_turn(found: Findings, one: EndedTurn, events: Sequence[Event], right: Shape, faults: Sequence[Fault]) -> None:
    found.turns += 1
    found.refused += len(one.refused)
    found.slowest_s = max(found.slowest_s, one.ended_s - one.began_s)
    where = f"{one.session_id} {one.text!r} {one.invocation_id}"
    asked = [event.text for event in events if event.author == USER and event.branch is None]
    if asked != [one.text]:
        found.wrong.append(f"{where}: the user's events are {asked}")
    own = [event for event in events if event.author != USER]
    asks = Counter(event.branch for event in events if event.author == USER and event.branch is not None)
    if any(number > 1 for number in asks.values()):
        found.wrong.append(f"{where}: an agent was asked twice by one call")
    if list(one.told) != [event.id for event in own]:
        found.wrong.append(f"{where}: what the driver was given is not what is stored")
    answers = Counter(response.id for event in own for response in event.function_responses())
    calls = [call.id for event in own for call in event.function_calls()]
    if any(number > 1 for number in answers.values()) or len(set(calls)) != len(calls):
        found.wrong.append(f"{where}: a call stands twice, or has two answers")
    if one.failure:
        _check_failure(found, where, one, own, faults)
    elif shape(own) != right:
        found.wrong.append(f"{where}: differs from the turn without faults\n  is    {shape(own)}\n  right {right}")


def _check_failure(found: Findings, where: str, one: EndedTurn, own: Sequence[Event], faults: Sequence[Fault]) -> None:
    """A turn may only fail because one agent was lost three times in it."""
    failed = own[-1] if own else None
    meanwhile = [each for each in faults if each.who == "agent" and one.began_s <= each.at_s <= one.ended_s]
    lost = Counter(agent for each in meanwhile for agent in each.agents)
    agent, losses = max(((each, lost[each]) for each in lost if each in one.failure), key=lambda pair: pair[1], default=("", 0))
    unseen = sum(agent not in (*each.agents, *each.elsewhere) for each in meanwhile)
    found.failed.append(
        f"{where}: {one.failure} ({losses} losses of {agent or 'no agent'}, {unseen} faults while it moved in or was away)"
    )
    if failed is None or failed.error_code != "ActorLostError" or losses + unseen < LOSSES:
        found.wrong.append(f"{where}: failed without {LOSSES} losses of one agent: {one.failure}, lost were {dict(lost)}")


def _check_tools(found: Findings, journal: Journal, responses: Mapping[str, Event]) -> None:
    begun: dict[str, list[float]] = defaultdict(list)
    for line in journal.lines():
        if line["what"] == "begin":
            begun[line["call"]].append(line["at"])
    for call_id, event in responses.items():
        if call_id not in begun:
            continue
        found.runs_of_calls[len(begun[call_id])] += 1
        if max(begun[call_id]) > event.timestamp:
            found.wrong.append(f"call {call_id} of {event.author} ran again after its response was made")
