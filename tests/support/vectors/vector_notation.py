"""The notation of vectors.yaml, whose head documents it: from its forms to trees, models and messages.

An unknown key is a VectorError: none is ever ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from actors import (
    BaseAgent,
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    LlmAgent,
    LoopAgent,
    Model,
    ParallelAgent,
    Part,
    SequentialAgent,
)
from actors.testing import Reply, ScriptedModel
from tests.support.vectors.vector_agents import TOOLS, ConstantCallback, FailingAgent, SayingAgent, SilentAgent

TRANSFER = "transfer_to_agent"


class VectorError(Exception):
    """A vector says something that the notation does not have."""


class Case(msgspec.Struct, frozen=True):
    """One vector: its id, its area, and the input and expectation with all names of trees filled in."""

    id: str
    area: str
    given: dict[str, Any]


def checked_keys(given: Any, *keys: str, of: str) -> dict[str, Any]:
    """A mapping that has no other keys than these. Raises VectorError."""
    if not isinstance(given, dict):
        raise VectorError(f"{of}: {given!r} is no mapping")
    unknown = given.keys() - set(keys)
    if unknown:
        raise VectorError(f"{of}: unknown {', '.join(map(repr, sorted(unknown, key=str)))}")
    return given


def load_cases() -> list[Case]:
    """All cases of a file: of the one in RAYGROVE_VECTORS, or of tests/vectors.yaml."""
    path = Path(os.environ.get("RAYGROVE_VECTORS") or Path(__file__).parents[2] / "vectors.yaml")
    # Each process of a run reads it; the loader in C takes a tenth of the time.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    file = checked_keys(yaml.load(path.read_text(), loader), "trees", "vectors", of=str(path))
    cases = [_case(given, file.get("trees") or {}) for given in file["vectors"]]
    ids = [case.id for case in cases]
    if len(set(ids)) != len(ids):
        raise VectorError(f"{path}: an id stands twice")
    return cases


def _case(given: dict[str, Any], trees: Mapping[str, Any]) -> Case:
    rest = dict(given)
    case_id, area = str(rest.pop("id")), str(rest.pop("area"))
    rest.pop("note", None)
    if isinstance(rest.get("tree"), str):
        rest["tree"] = trees[rest["tree"]]
    if area == "controlflow" and rest.get("ask") == "run":
        # The flow is given to a Runtime that has its agents.
        workers = [{"n": agent, "tools": (rest.get("own") or {}).get(agent, [])} for agent in rest["agents"]]
        rest["tree"] = {"n": "office", "k": "custom", "sub": workers}
    return Case(case_id, area, rest)


def nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A tree's nodes, parents first."""
    if "ref" not in node:
        yield node
        for child in node.get("sub") or ():
            yield from nodes(child)


_OF_ALL = ("n", "k", "sub", "desc", "before", "after")
_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "llm": ("nop", "nopeer", "tools", "inc", "key", "ins", "gi", "before_model"),
    "seq": (),
    "par": (),
    "loop": ("max", "on_escalate"),
    "say": ("say", "esc"),
    "boom": (),
    "silent": (),
    "custom": (),
}
_CLASSES: Mapping[str, type[BaseAgent]] = {
    "llm": LlmAgent,
    "seq": SequentialAgent,
    "par": ParallelAgent,
    "loop": LoopAgent,
    "say": SayingAgent,
    "boom": FailingAgent,
    "silent": SilentAgent,
    "custom": SilentAgent,
}
_FIELDS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "n": ("name", str),
    "desc": ("description", str),
    "before": ("before_agent_callback", ConstantCallback),
    "after": ("after_agent_callback", ConstantCallback),
    "nop": ("disallow_transfer_to_parent", bool),
    "nopeer": ("disallow_transfer_to_peers", bool),
    "tools": ("tools", lambda names: [TOOLS[name]() for name in names]),
    "inc": ("include_contents", str),
    "key": ("output_key", str),
    "ins": ("instruction", str),
    "gi": ("global_instruction", str),
    "before_model": ("before_model_callback", ConstantCallback),
    "max": ("max_iterations", int),
    "on_escalate": ("on_escalate", str),
    "say": ("say", list),
    "esc": ("esc", int),
}


class TreeBuilder:
    """Builds the agents of one tree. A `{ref: x}` becomes the very object of node x, wherever in the tree that is."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._made: dict[str, BaseAgent] = {}
        self._being_made: set[str] = set()
        self._later: list[tuple[BaseAgent, int, str]] = []

    def build(self, node: Mapping[str, Any]) -> BaseAgent:
        """The agent of the root node. Raises DefinitionError where a definition refuses it."""
        for each in nodes(node):
            self._nodes.setdefault(each["n"], each)
        root = self._agent(node)
        for agent, index, name in self._later:
            # A cycle has no order in which it could be defined: it is closed when all its agents are there.
            cast(list[BaseAgent], agent.sub_agents).insert(index, self._made[name])
        return root

    def _agent(self, node: Mapping[str, Any]) -> BaseAgent:
        kind = node.get("k", "llm")
        if kind not in _CLASSES:
            raise VectorError(f"unknown kind {kind!r}")
        checked_keys(node, *_OF_ALL, *_OF_KIND[kind], of=f"node {node['n']!r} of kind {kind}")
        fields = {_FIELDS[key][0]: _FIELDS[key][1](value) for key, value in node.items() if key not in ("k", "sub")}
        if kind == "llm":
            fields["model"] = self._model
        self._being_made.add(node["n"])
        children, missing = self._children(node.get("sub") or ())
        agent = _CLASSES[kind](**fields, sub_agents=children)
        self._later += [(agent, index, name) for index, name in missing]
        if self._nodes[node["n"]] is node:
            self._made[node["n"]] = agent
        return agent

    def _children(self, listed: Sequence[Mapping[str, Any]]) -> tuple[list[BaseAgent], list[tuple[int, str]]]:
        children: list[BaseAgent] = []
        missing: list[tuple[int, str]] = []
        for index, node in enumerate(listed):
            if "ref" not in node:
                made = self._made.get(node["n"]) if self._nodes[node["n"]] is node else None
                children.append(made or self._agent(node))
                continue
            name = checked_keys(node, "ref", of="a reference")["ref"]
            if name not in self._nodes:
                raise VectorError(f"no node {name!r} to refer to")
            if name in self._made:
                children.append(self._made[name])
            elif name in self._being_made:
                missing.append((index, name))
            else:
                children.append(self._agent(self._nodes[name]))
        return children, missing


def scripted(script: Sequence[Any]) -> ScriptedModel:
    """The one model of a case."""
    return ScriptedModel([_reply(reply) for reply in script])


def _reply(given: Any) -> Reply:
    match given:
        case str():
            return given
        case {"parts": [*parts]} if len(given) == 1:
            return {"parts": [_piece(part) for part in parts]}
        case {"stream": [*texts]} if len(given) == 1:
            return {"stream": [str(text) for text in texts]}
        case {"nothing": True} if len(given) == 1:
            return None
        case {"error": str(message)} if len(given) == 1:
            return ValueError(message)
        case _:
            return _piece(given)


def _piece(given: Any) -> Reply:
    match given:
        case str():
            return given
        case {"call": str(name), **rest} if rest.keys() <= {"args"}:
            return {"call": name, "args": rest.get("args") or {}}
        case {"to": str(agent)} if len(given) == 1:
            return {"transfer": agent}
        case {"thought": str(text)} if len(given) == 1:
            return {"thought": text}
        case {"succeed": str(task), **rest} if rest.keys() <= {"result"}:
            return {"call": f"succeed_{task}", "args": rest}
        case {"fail": str(task), **rest} if rest.keys() <= {"reason"}:
            return {"call": f"fail_{task}", "args": rest}
        case {"end_turn": named} if len(given) == 1:
            return {"call": "end_turn", "args": {} if named is None else {"next_agent": named}}
        case _:
            raise VectorError(f"{given!r} is no reply of a model")


def answer_to(call: FunctionCall | None, turn: Mapping[str, Any]) -> FunctionResponse:
    """The function response of a turn: for the call whose id it gives, else for the last long-running one."""
    if "id" in turn:
        return FunctionResponse(id=turn["id"], name="f", response=turn["fr"])
    if call is None:
        raise VectorError("an answer, but no long-running call was delivered before")
    return FunctionResponse(id=call.id, name=call.name, response=turn["fr"])


def message(turn: Any, last_call: FunctionCall | None) -> Any:
    """The message of a turn; a plain text stays a text."""
    match turn:
        case str():
            return turn
        case {"fr": dict()}:
            checked_keys(turn, "fr", "id", "text", "state_delta", "invocation_id", of="a turn")
            text = [Part(text=turn["text"])] if "text" in turn else []
            return Content(role="user", parts=[*text, Part(function_response=answer_to(last_call, turn))])
        case {"text": str(text)}:
            checked_keys(turn, "text", "role", "state_delta", "invocation_id", of="a turn")
            return Content(role=turn.get("role", "user"), parts=[Part(text=text)])
        case {"parts": [*parts]}:
            checked_keys(turn, "parts", "role", "state_delta", "invocation_id", of="a turn")
            return Content(role=turn.get("role", "user"), parts=[_part(part) for part in parts])
        case _:
            raise VectorError(f"{turn!r} is no turn")


def _part(given: Any) -> Part:
    match given:
        case str():
            return Part(text=given)
        case {"blob": str(mime)} if len(given) == 1:
            return Part(inline_data=Blob(data=b"x", mime_type=mime))
        case {"call": str(name)} if len(given) == 1:
            return Part(function_call=FunctionCall(id="of-the-user", name=name))
        case _:
            raise VectorError(f"{given!r} is no part of a message")
