"""A case, its log and its trace in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from actors import Event
from actors.messages.codec import decode_event
from tests.simulation.cluster import Sent, Trace
from tests.simulation.play import Result
from tests.simulation.scenarios import Act, Node, Scenario
from tests.simulation.simulate import Case
from tests.simulation.virtual_loop import START_S

LINE = 130
"""Characters of a line of code."""

SILENT = frozenset({"Poll", "GetTopology"})
"""Messages that say nothing about what happens."""


def told_case(case: Case) -> Iterator[str]:
    """The scenario and the faults."""
    yield f"seed {case.seed}"
    yield from _told_scenario(case.scenario)
    yield from (f"  {line}" for line in case.plan.lines())


def _told_scenario(scenario: Scenario) -> Iterator[str]:
    yield from _told_node(scenario.root, 1)
    for number, acts in enumerate(scenario.turns):
        yield f"  turn-{number}: " + (", ".join(map(_told_act, acts)) or "nothing beside it")
        if number < len(scenario.between) and scenario.between[number]:
            yield "  afterwards: " + ", ".join(map(_told_act, scenario.between[number]))
    more = {
        "max_calls": scenario.max_calls,
        "groups": scenario.groups,
        "streams": scenario.streams,
        "timeout_s": scenario.timeout_s,
    }
    yield from (f"  {name}: {value}" for name, value in more.items() if value)


def _told_act(act: Act) -> str:
    how = f" at {act.share:.2f}" * bool(act.share) + " otherwise" * act.differs + " in line" * act.waits
    return f"{act.deed}{how} after {act.after_s:.3f} s"


def _told_node(node: Node, depth: int) -> Iterator[str]:
    more = [
        f"{name}={value}" for name in ("fails", "supervision", "thinks_s", "pieces", "absorbs") if (value := getattr(node, name))
    ]
    more += [f"times={node.times}"] if node.times > 1 else []
    more += [f"tasks={[list(needs) for needs in node.tasks]}"] if node.tasks else []
    steps = [
        f"{step.does} {step.to}".strip() + (f"*{step.often}" if step.often > 1 else "") + _lasting(step.takes_s)
        for step in node.steps
    ]
    yield "  " * depth + f"{node.name}: {node.kind} {' '.join(more)} {', '.join(steps)}".rstrip()
    for expert in node.experts:
        yield from (f"{line} (a tool of {node.name})" for line in _told_node(expert, depth + 1))
    for child in node.children:
        yield from _told_node(child, depth + 1)


def _lasting(seconds: float) -> str:
    return f" {seconds:g}s" if seconds else ""


def as_test(case: Case) -> Iterator[str]:
    """A test that plays the case, for a file of tests."""
    scenario, plan = case.scenario, case.plan
    yield "from tests.simulation.faults import Fault, FaultPlan, Network"
    yield "from tests.simulation.scenarios import Act, Node, Scenario, Step"
    yield "from tests.simulation.simulate import Case, check"
    yield from ["", "", f"def test_what_seed_{case.seed}_has_found() -> None:"]
    yield f"    root = {as_code(scenario.root)}"
    yield from _as_list("turns", scenario.turns)
    yield from _as_list("between", scenario.between)
    given = as_code(msgspec.structs.replace(scenario, root=Node(kind="llm", name="root"), turns=((),), between=()))
    options = given.partition("name='root')")[2].removesuffix(")")
    yield f"    scenario = Scenario(root=root, turns=turns, between=between{options})"
    yield from _as_list("faults", plan.faults)
    options = as_code(msgspec.structs.replace(plan, faults=())).removeprefix("FaultPlan(").removesuffix(")")
    yield f"    plan = FaultPlan({', '.join(filter(None, ('faults=faults', options)))})"
    yield f"    assert check(Case({case.seed}, scenario, plan))[0] == []"


def _as_list(name: str, values: Sequence[Any]) -> Iterator[str]:
    """A list on one line if it has the room."""
    if len(line := f"    {name} = {as_code(values)}") <= LINE:
        yield line
    else:
        yield from [f"    {name} = [", *(f"        {as_code(each)}," for each in values), "    ]"]


def as_code(value: Any) -> str:
    """A value as Python has it, without the fields that are as usual."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(as_code, value))}]"
    if not isinstance(value, msgspec.Struct):
        return repr(value)
    given = ((field, getattr(value, field.name)) for field in msgspec.structs.fields(value))
    unusual = [f"{field.name}={as_code(each)}" for field, each in given if each != field.default and (each or field.default)]
    return f"{type(value).__name__}({', '.join(unusual)})"


def told_log(result: Result) -> Iterator[str]:
    """The log, event by event."""
    for event in result.log:
        yield f"  {event.seq:3} {event.invocation_id:8} {_told_event(event)}"


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
