"""Whole requests: what models are asked here is what ADK's own Runner has them asked, field by field; and so are pieces.

What is meant to differ is in two lists, each with its reason. An entry that is not needed any more fails a test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import pytest

from tests.adk import news, programs, test_differential
from tests.adk.wholes import Program, Whole, by_adk, by_raygrove

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def _routed() -> list[Program]:
    roots = {"samples": programs.root_agent, "edges": test_differential.root_agent}
    return [
        Program(agent.name, partial(_same, root), [("s1", f"{agent.name}: hi"), ("s1", f"{agent.name}: again")])
        for root in roots.values()
        for agent in root.sub_agents
        if agent.name != "mortal"
    ]


def _same(root: Any) -> Any:
    return root


PROGRAMS = {program.name: program for program in (*_routed(), *news.PROGRAMS)}


class Wording(NamedTuple):
    """A difference between all requests, or all events: how both are brought into one form, and why they may differ."""

    reason: str
    evened: Callable[[Whole], Whole]


def _in_texts(change: Callable[[str], str]) -> Callable[[Whole], Whole]:
    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list):
            return [walk(each) for each in value]
        return {name: walk(each) for name, each in value.items()} if isinstance(value, dict) else value

    return lambda whole: Whole(*(walk(part) for part in whole))


def _in_requests(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Whole], Whole]:
    return lambda whole: whole._replace(requests=[change(request) for request in whole.requests])


_QUOTE = re.compile(
    r"(\[\w+\] (?:said|called tool `\w+` with parameters|`\w+` tool returned result)):\s"
    r"(?:<<<BEGIN_QUOTED_AGENT_CONTENT>>>\n)?(.*?)(?:\n<<<END_QUOTED_AGENT_CONTENT>>>)?",
    re.DOTALL,
)
_FRAME = re.compile(
    r"(?:The text between <<<BEGIN_SYSTEM_INSTRUCTION>>>.*?after the end marker\.\s*<<<BEGIN_SYSTEM_INSTRUCTION>>>\n"
    r"|This is a part of your instructions[^\n]*\n<instruction>\n)(.*?)\n(?:<<<END_SYSTEM_INSTRUCTION>>>|</instruction>)",
    re.DOTALL,
)
_MENU = re.compile(r"\s*(?:You have a list of other agents to transfer to:|You work together with other agents\.).*", re.DOTALL)


def _without_quotes(text: str) -> str:
    if text.startswith("For context:"):
        return "For context:"
    found = _QUOTE.fullmatch(text)
    return f"{found[1]}: {_data(found[2])}" if found else text


def _data(text: str) -> str:
    """Arguments or a result in Python's form: here they are JSON."""
    try:
        return repr(json.loads(text))
    except ValueError:
        return text


def _without_menu(request: dict[str, Any]) -> dict[str, Any]:
    declared = dict(request["declarations"])
    if "transfer_to_agent" not in declared:
        return request
    parameters = declared["transfer_to_agent"]["parameters"] or {}
    declared["transfer_to_agent"] = parameters.get("properties", {}).get("agent_name", {}).get("enum")
    instruction = _MENU.sub("", request["system_instruction"] or "", count=1) or None
    return {**request, "declarations": declared, "system_instruction": instruction}


def _without_empty(whole: Whole) -> Whole:
    return whole._replace(events=[event for event in whole.events if event.keys() - {"author"}])


WORDINGS = {
    "quotes": Wording("what other agents said stands without ADK's markers, and results as JSON", _in_texts(_without_quotes)),
    "instruction of a turn": Wording(
        "the instruction beside a static one stands in a frame of other words",
        _in_texts(lambda text: _FRAME.sub(lambda found: f"({found[1]})", text)),
    ),
    "menu of transfers": Wording("the other agents are listed in other words", _in_requests(_without_menu)),
    "order of tools": Wording(
        "tools of transfers come last, and those of services after functions",
        _in_requests(lambda request: {**request, "functions": sorted(request["functions"])}),
    ),
    "empty events": Wording(
        "workflow agents note their progress in the log, and ADK has events that say nothing at all", _without_empty
    ),
}
"""What differs everywhere, and why."""


class Difference(NamedTuple):
    """A program that is meant to differ.

    Attributes:
        fields: in what: fields of requests, and of a Whole.
        reason: why.
    """

    fields: frozenset[str]
    reason: str


def _differs(fields: str, reason: str) -> Difference:
    return Difference(frozenset(fields.split()), reason)


_GENERATOR = _differs("events", "what a node of a tool gives is said by the agent of the tool, in ADK by the node")
_CONSENT = "consent is asked by the call itself, in ADK by a call of adk_request_confirmation, and it answers nothing meanwhile"

DIFFERENT: dict[str, Difference] = {
    "expenses": _differs("contents events", "a call that waits is shown with a response that says so"),
    "careful": _differs("contents events", _CONSENT),
    "payer": _differs("contents events", _CONSENT),
    "hasty": _differs("requests events error", "ADK fails when the function that decides about consent lacks an argument"),
    "searcher": _differs("contents events", "the tools say their order"),
    "shouter": _differs("events", "what a planner writes into the state is stored with the answer, in ADK before it"),
    "asker": _differs("events", "the events of an agent that is a tool are in the log, not in ADK's"),
    "direct": _differs("events state", "ADK forgets at the end of the turn what was written past any event"),
    "counted pieces": _differs("events", "pieces have no state: that of the whole answer has all"),
    "artifacts first": _differs(
        "system_instruction", "what a tool keeps for the end of the instruction stands behind it, in ADK behind all tools"
    ),
    "loaded memory": _differs("contents events", "the best match comes first, in ADK the oldest, and entries have no id"),
    "asynchronous generator": _GENERATOR,
    "generator": _GENERATOR,
    "generator with state": _GENERATOR,
    "node of a tool": _GENERATOR,
    "peers of a node": _differs("requests events", "an agent that a node's agent has transferred to runs once, in ADK twice"),
    "delegate": _differs("declarations functions tools_dict", "delegates transfer to no agent, and the argument is described"),
    "task": _differs(
        "declarations functions tools_dict system_instruction", "the same, and the rules of a task are in other words"
    ),
    "node with consent": _differs("events", "the question's id is that of its call, and is no argument of it"),
    "node without consent": _differs("events", "the same"),
    "tools of a request": _differs("declarations", "the argument of an agent as a tool is described"),
    "workflow as tool": _differs("declarations", "the arguments of a graph as a tool have no titles"),
    "workflow as tool that is asked wrongly": _differs(
        "declarations contents events", "the same, and what is wrong with arguments is said in other words"
    ),
    "reason of a transfer": _differs("functions", "a tool of the program's own takes the place of ADK's, which declares both"),
    "schema with tools": _differs(
        "config declarations functions system_instruction tools_dict", "ADK has a tool set_model_response in place of the schema"
    ),
    "unknown tool": _differs("contents events", "that there is no such tool is said in other words"),
}
"""Programs that are meant to differ, and why."""


@cache
def played(name: str) -> tuple[Whole, Whole]:
    """What comes of a program: in ADK's Runner, and here."""
    return by_adk(PROGRAMS[name]), by_raygrove(PROGRAMS[name])


def evened(whole: Whole, *, but: str = "") -> Whole:
    """A Whole in the form that both have, by all wordings but one."""
    for name, wording in WORDINGS.items():
        if name != but:
            whole = wording.evened(whole)
    return whole


def differing(name: str, *, but: str = "") -> frozenset[str]:
    """The fields of requests, and of a Whole, in which a program differs: `requests` where one has more of them."""
    theirs, ours = (evened(each, but=but) for each in played(name))
    found = {field for field in ("events", "state", "error") if getattr(theirs, field) != getattr(ours, field)}
    if len(theirs.requests) != len(ours.requests):
        return frozenset(found | {"requests"})
    pairs = zip(theirs.requests, ours.requests, strict=True)
    return frozenset(found | {field for one, other in pairs for field in one if one[field] != other[field]})


@pytest.mark.parametrize("name", PROGRAMS)
def test_models_are_asked_and_readers_shown_the_same(name: str) -> None:
    if name in DIFFERENT:
        assert differing(name) == DIFFERENT[name].fields, "bring its entry in DIFFERENT in line"
    else:
        theirs, ours = map(evened, played(name))
        assert ours == theirs


@pytest.mark.parametrize("wording", WORDINGS)
def test_each_wording_still_differs(wording: str) -> None:
    assert any(differing(name) != differing(name, but=wording) for name in PROGRAMS), "take it from WORDINGS"


def test_only_programs_that_there_are_are_listed() -> None:
    assert not set(DIFFERENT) - set(PROGRAMS)
