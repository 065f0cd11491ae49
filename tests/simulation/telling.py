"""A scenario as a test, and its logs and its trace in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic import BaseModel

from actors import Event
from actors.messages.event import decode_event
from tests.model.history import History
from tests.simulation.cluster import Sent, Trace
from tests.simulation.virtual_loop import START_S

LINE = 130
"""Characters of a line of code."""

SILENT = frozenset({"Poll", "GetTopology"})
"""Messages that say nothing about what happens."""


def as_test(world: str, given: Any, seed: int) -> Iterator[str]:
    """A test that plays a scenario of a world, for a file of tests."""
    yield "from tests.simulation.worlds import WORLDS"
    modules: dict[str, set[str]] = {}
    for of in _classes_in(given):
        modules.setdefault(of.__module__, set()).add(of.__name__)
    yield from (f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(modules.items()))
    yield from ["", "", f"def test_what_seed_{seed}_of_{world}_has_found() -> None:"]
    yield from _laid_out("    given = ", given, 4)
    yield f"    assert WORLDS[{world!r}].play(given, {seed}).problems == []"


def _classes_in(value: Any) -> Iterator[type]:
    """The classes that the code of a value names."""
    if isinstance(value, list | tuple):
        yield from (of for each in value for of in _classes_in(each))
    elif isinstance(value, msgspec.Struct | BaseModel):
        yield type(value)
        yield from (of for _, each in _unusual(value) for of in _classes_in(each))


def _laid_out(begin: str, value: Any, indent: int, end: str = "") -> Iterator[str]:
    """The code of a value, on one line if it has the room."""
    line = f"{begin}{as_code(value)}{end}"
    if len(line) <= LINE or not isinstance(value, list | tuple | msgspec.Struct | BaseModel):
        yield line
        return
    if isinstance(value, msgspec.Struct | BaseModel):
        first, last, inner = f"{type(value).__name__}(", ")", [(f"{name}=", each) for name, each in _unusual(value)]
    else:
        first, last, inner = "[", "]", [("", each) for each in value]
    yield begin + first
    for name, each in inner:
        yield from _laid_out(" " * (indent + 4) + name, each, indent + 4, ",")
    yield " " * indent + last + end


def as_code(value: Any) -> str:
    """A value as Python has it, without the fields that are as usual."""
    if isinstance(value, list):
        return f"[{', '.join(map(as_code, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(as_code, value))}{',' * (len(value) == 1)})"
    if not isinstance(value, msgspec.Struct | BaseModel):
        return repr(value)
    return f"{type(value).__name__}({', '.join(f'{name}={as_code(each)}' for name, each in _unusual(value))})"


def _unusual(value: msgspec.Struct | BaseModel) -> Iterator[tuple[str, Any]]:
    """The fields that are not as usual."""
    if isinstance(value, BaseModel):
        usual = {name: field.default for name, field in type(value).model_fields.items()}
    else:
        usual = {field.name: field.default for field in msgspec.structs.fields(value)}
    for name, default in usual.items():
        each = getattr(value, name)
        if each != default and (each or default):
            yield name, each


def told_logs(history: History) -> Iterator[str]:
    """The logs of all sessions, event by event."""
    for (user, session), found in history.found.items():
        yield f"{user}/{session}:" if found.log else f"{user}/{session} is empty"
        yield from (f"  {event.seq:3} {event.invocation_id:8} {_told_event(event)}" for event in found.log)


def _told_event(event: Event) -> str:
    said = [repr(event.text)] if event.text else []
    said += [f"calls {call.name} ..{(call.id or '')[-4:]}" for call in event.function_calls()]
    said += [f"answers {each.name} ..{(each.id or '')[-4:]} {each.response}" for each in event.function_responses()]
    actions = event.actions
    said += [f"notes {dict(actions.agent_state)}"] if actions.agent_state is not None else []
    said += [f"sets {dict(actions.state_delta)}"] if actions.state_delta else []
    said += [f"transfers to {actions.transfer_to_agent}"] if actions.transfer_to_agent else []
    said += ["escalates"] if actions.escalate else []
    said += [f"fails with {event.error_code}: {event.error_message}"] if event.error_code else []
    return f"{event.author} [{event.branch or ''}] {', '.join(said)}"


def told_trace(trace: Trace) -> Iterator[str]:
    """What happened, step by step, polls left out."""
    for now_s, what, sent, raw in trace.entries:
        if sent is None:
            yield f"{now_s - START_S:12.6f} {what}"
        elif sent.kind not in SILENT and what != "arrived":
            yield f"{now_s - START_S:12.6f} {what:10} {sent.kind} {sent.nth} {sent.who} {_told_raw(sent, what, raw)}"


def _told_raw(sent: Sent, what: str, raw: bytes) -> str:
    if not raw:
        return ""
    fields: dict[str, Any] = msgspec.msgpack.decode(raw)
    kind = fields.pop("type")
    fields.pop("key", None)
    if turn := fields.get("turn"):
        fields["turn"] = f"{turn[1]} epoch {turn[2]} run {turn[3]}" if len(turn) > 3 else turn[1:]
    for name in ("events", "notes"):
        if name in fields and fields[name] and isinstance(fields[name][0], bytes):
            fields[name] = [_told_event(decode_event(each, 0)) for each in fields[name]]
    shown = {
        name: value for name, value in fields.items() if not isinstance(value, bytes) and name not in ("state", "user_event")
    }
    return (f"-> {kind} " if what == "handled" else "") + str(shown)[:300]
