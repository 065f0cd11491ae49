"""Whether two sides have told the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DECIDED = {
    "adk_documentation/adk_docs_updater": "its tools work on one folder beside each other",
    "adk_documentation/adk_release_analyzer": "the same; and a tool extends a list that ADK's earlier events have as well",
    "hitl/request_input_tool": "the view of ADK's clients fills in what a question leaves out",
    "hitl/tool_confirmation": "results beside a call that waits for consent have an event of their own",
    "mcp/mcp_toolset_auth": "the question for the credential of a toolset has a message as well",
    "multi_agent/task_sub_agent": "delegates that one response asks work beside each other",
    "patterns/workflow_triage": "an agent behind a ParallelAgent does not speak on the branch of one of its children",
    "plugin_reflect_tool_retry/hallucinating_func_name": "that there is no such tool is said in other words",
    "context_management/cache_analysis": "its tools draw lots beside each other",
}
"""Samples of google-adk that are told in another way here, and why."""


def verdict(theirs: Mapping[str, Any], ours: Mapping[str, Any], name: str = "") -> tuple[str, str]:
    """What became of a program that both sides have played: its kind, and why.

    Args:
        name: of its folder, with that of the one around it.
    """
    if "failed" in theirs:
        return "ADK itself fails", str(theirs["failed"])
    if "not loaded" in ours or "failed" in ours:
        return "fails here", str(ours.get("failed") or ours["not loaded"])
    if ours["refused"]:
        return "refused", str(ours["refused"])
    suffix = " with islands" if ours["islands"] else ""
    differences = list(_differences(theirs, ours))
    if differences:
        return (f"differs as decided{suffix}", DECIDED[name]) if name in DECIDED else (f"differs{suffix}", differences[0])
    if raised := _raised(theirs, ours):
        return f"equal until a tool raises{suffix}", raised
    if _is_reordered(theirs, ours):
        return f"equal but for the order{suffix}", ours["islands"]
    return f"equal{suffix}", ours["islands"]


def _is_reordered(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    return _ordered(theirs) != _ordered(ours)


def _ordered(side: Mapping[str, Any]) -> list[Any]:
    return [
        [[_without_path(event) for event in _evened(turn["events"])] for turn in session["turns"]] for session in side["sessions"]
    ]


def _without_path(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "path"}


def _evened(events: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The events of ADK without what docs/from-adk.md says is another one here."""
    for event in events:
        parts = event.get("parts") or []
        if not event.keys() - {"author", "path", "branch"}:
            # A checkpoint of a resumable App, or what a code executor has to say about nothing.
            continue
        kept = [part for part in parts if not _is_schema_tool(part)]
        if kept or not parts:
            yield event if len(kept) == len(parts) else {**event, "parts": kept}


def _is_schema_tool(part: Mapping[str, Any]) -> bool:
    """True for the tool by which ADK has a model with tools give the answer that fits a schema."""
    return any(part.get(name, {}).get("name") == "set_model_response" for name in ("function_call", "function_response"))


def _paths(theirs: Sequence[Any], ours: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The events without the paths that only ADK has: it gives them to agents outside of graphs as well."""
    if len(theirs) == len(ours):
        pairs = [(one if other.get("path") else _without_path(one), other) for one, other in zip(theirs, ours, strict=True)]
        return [one for one, _ in pairs], [other for _, other in pairs]
    return [_without_path(event) for event in theirs], [_without_path(event) for event in ours]


def _differences(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    for plan, (one, other) in enumerate(zip(theirs["sessions"], ours["sessions"], strict=False)):
        for number, (first, second) in enumerate(zip(one["turns"], other["turns"], strict=False)):
            where = f"plan {plan}, turn {number}"
            if first["error"] or second["error"]:
                if _class(first["error"]) != _class(second["error"]):
                    if not _goes_on(first, second):
                        yield f"{where}: error of ADK {first['error']!r}, here {second['error']!r}"
                elif said := _other(_without_error(first["events"]), _without_error(second["events"])):
                    yield f"{where}: {said}"
                break
            if said := _other(first["events"], second["events"]):
                yield f"{where}: {said}"
                break
        else:
            if len(one["turns"]) != len(other["turns"]):
                yield f"plan {plan}: {len(one['turns'])} turns of ADK, here {len(other['turns'])}"
            elif one["state"] != other["state"]:
                names = [
                    name for name in {**one["state"], **other["state"]} if one["state"].get(name) != other["state"].get(name)
                ]
                yield f"plan {plan}: state {[(name, one['state'].get(name), other['state'].get(name)) for name in names]}"


def _other(theirs: list[Any], ours: list[Any]) -> str:
    one, other = [[_text(event) for event in events] for events in _paths(list(_evened(theirs)), list(_evened(ours)))]
    if sorted(one) == sorted(other):
        return ""
    for number, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return f"event {number}: ADK {first} here {second}"
    longer, more = ("ADK", one) if len(one) > len(other) else ("here", other)
    return f"{longer} has {abs(len(one) - len(other))} events more: {more[min(len(one), len(other))]}"


def _goes_on(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """True where the same was said until ADK's turn ended with an error of a tool, of which the model was told here."""
    told = _without_error(theirs["events"])
    # Of calls beside the one that failed ADK may have stored results.
    said = _text_of(told[:-1] if told and _has_results(told[-1]) else told)
    return bool(theirs["error"]) and not ours["error"] and said == _text_of(ours["events"])[: len(said)]


def _without_error(events: Sequence[Any]) -> list[Any]:
    """The events of a turn that has failed: the log has one more here, with the error."""
    return [event for event in events if "error" not in event]


def _has_results(event: Mapping[str, Any]) -> bool:
    return any("function_response" in part for part in event.get("parts") or ())


def _raised(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """The error that ended a turn of ADK and none here; "" where there is none."""
    for one, other in zip(theirs["sessions"], ours["sessions"], strict=False):
        for first, second in zip(one["turns"], other["turns"], strict=False):
            if first["error"] and not second["error"]:
                return str(first["error"])
    return ""


def _class(error: str) -> str:
    return error.partition(":")[0]


def _text_of(events: Sequence[Any]) -> list[str]:
    return [_text(_without_path(event)) for event in _evened(events)]


def _text(event: Mapping[str, Any]) -> str:
    return json.dumps(event, sort_keys=True)
