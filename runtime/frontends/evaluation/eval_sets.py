"""Evaluation sets in files: cases with conversations, and what is expected of the agents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from actors.errors import InvalidMessageError, RequestError
from actors.messages.content import Content
from actors.messages.json_types import JsonObject

USER = "user"
"""The id of the user of a case that names none."""


@dataclass(frozen=True)
class ToolUse:
    """A call of a tool: its name and arguments."""

    name: str
    args: JsonObject


@dataclass(frozen=True)
class ExpectedTurn:
    """A message of the user, with the tool calls and the answer that are expected."""

    message: Content
    tool_uses: tuple[ToolUse, ...]
    answer: str


@dataclass(frozen=True)
class EvalCase:
    """A conversation.

    Attributes:
        eval_id: names it in its set.
        turns: in order; None when a user simulator would have to make them.
        state: the initial state of its session.
    """

    eval_id: str
    turns: tuple[ExpectedTurn, ...] | None
    user: str
    state: JsonObject


@dataclass(frozen=True)
class EvalSet:
    """The cases of a file."""

    file: Path
    cases: tuple[EvalCase, ...]


def load_eval_sets(given: str) -> list[EvalSet]:
    """Read the sets that a path names.

    Args:
        given: a file, in the form of `EvalSet` or in one of the older forms, which are lists; a file with ids of cases, such as
            `desk.evalset.json:late,refund`; or a folder with files named `*.test.json`, at any depth.

    Raises:
        RequestError: there is no such file, or it is no evaluation set.
    """
    path, wanted = Path(given), ""
    if not path.exists():
        head, _, wanted = given.rpartition(":")
        path = Path(head or given)
    if path.is_dir():
        files = sorted(path.rglob("*.test.json"))
        if not files:
            raise RequestError(f"the folder {given!r} has no *.test.json: give an evaluation set, such as desk.evalset.json")
        return [_read(file) for file in files]
    if not path.is_file():
        raise RequestError(f"there is no evaluation set {given!r}: give a JSON file, or a folder with *.test.json")
    found = _read(path)
    if not wanted:
        return [found]
    cases = {case.eval_id: case for case in found.cases}
    missing = [name for name in wanted.split(",") if name not in cases]
    if missing:
        raise RequestError(f"{path} has no case {missing[0]!r}. Its cases: {', '.join(cases) or 'none'}")
    return [EvalSet(path, tuple(cases[name] for name in wanted.split(",")))]


def read_json(file: Path) -> Any:
    """The JSON value in a file. Raises RequestError."""
    try:
        return msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise RequestError(f"{file} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise RequestError(f"{file} is no JSON: {error}") from None


def _read(file: Path) -> EvalSet:
    raw = read_json(file)
    try:
        if isinstance(raw, list) and any("data" not in each for each in raw):
            # The oldest form: the turns of one case.
            raw = [{"name": file.name.partition(".")[0], "data": raw}]
        if isinstance(raw, list):
            return EvalSet(file, tuple(map(_old_case, raw)))
        return EvalSet(file, tuple(map(_case, raw["eval_cases"])))
    except KeyError as error:
        raise RequestError(f"{file} is no evaluation set: {error.args[0]!r} is missing") from None
    except (TypeError, AttributeError, ValueError, InvalidMessageError) as error:
        raise RequestError(f"{file} is no evaluation set: {error}") from None


def _get(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    """A field, whose name is written in snake_case or in camelCase."""
    first, *rest = name.split("_")
    value = fields.get(name, fields.get(first + "".join(map(str.capitalize, rest))))
    return default if value is None else value


def _case(raw: Mapping[str, Any]) -> EvalCase:
    eval_id = _get(raw, "eval_id", None)
    if eval_id is None:
        raise KeyError("eval_id")
    turns = _get(raw, "conversation", None)
    if turns is None and _get(raw, "conversation_scenario", None) is None:
        raise KeyError("conversation")
    session = _get(raw, "session_input", {})
    return EvalCase(
        eval_id=eval_id,
        turns=tuple(map(_turn, turns)) if turns is not None else None,
        user=_get(session, "user_id", "") or USER,
        state=_get(session, "state", {}),
    )


def _turn(raw: Mapping[str, Any]) -> ExpectedTurn:
    message = _get(raw, "user_content", None)
    if message is None:
        raise KeyError("user_content")
    between = _get(raw, "intermediate_data", {})
    calls = _get(between, "tool_uses", [])
    for event in _get(between, "invocation_events", []):
        parts = _get(_get(event, "content", {}), "parts", [])
        calls = [*calls, *(call for part in parts if (call := _get(part, "function_call", None)) is not None)]
    return ExpectedTurn(
        message=Content.from_dict({"role": "user", **{name: value for name, value in message.items() if value is not None}}),
        tool_uses=tuple(ToolUse(call["name"], call.get("args") or {}) for call in calls),
        answer=_text(_get(_get(raw, "final_response", {}), "parts", [])),
    )


def _text(parts: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part.get("text"))


def _old_case(raw: Mapping[str, Any]) -> EvalCase:
    session = raw.get("initial_session") or {}
    return EvalCase(
        eval_id=raw["name"],
        turns=tuple(map(_old_turn, raw["data"])),
        user=session.get("user_id") or USER,
        state=session.get("state") or {},
    )


def _old_turn(raw: Mapping[str, Any]) -> ExpectedTurn:
    return ExpectedTurn(
        message=Content.of_text(raw["query"]),
        tool_uses=tuple(ToolUse(use["tool_name"], use["tool_input"]) for use in raw.get("expected_tool_use") or ()),
        answer=raw.get("reference") or "",
    )
