"""What each area of vectors.yaml does with a case: define the tree, run it through the public API, compare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, LlmAgent, Part
from actors.errors import DefinitionError, RaygroveError
from actors.testing import PatternModel, ScriptedModel
from tests.support.vectors.shared_runtimes import SESSION_ID, CaseRuntime, CaseRuntimes, RuntimeFactory
from tests.support.vectors.vector_notation import TRANSFER, Case, TreeBuilder, VectorError, checked_keys, nodes
from tests.support.vectors.vector_rendering import expected_contents, rendered, rendered_contents
from tests.support.vectors.vector_runner import CaseRun

USER_ID = "u"
_RUN = ("tree", "script", "turns", "config", "leftover", "state", "session", "auto_create", "artifact_store", "raises")
_EVENTS = ("order", "branch", "error_names")


def check_flow(case: Case, case_runtime: CaseRuntime) -> None:
    checked_keys(case.given, *_RUN, *_EVENTS, "expect", of=case.id)
    CaseRun(case, case_runtime).run().check_events(case.given["expect"])


def check_state(case: Case, case_runtime: CaseRuntime) -> None:
    checked_keys(case.given, *_RUN, "expect", of=case.id)
    assert CaseRun(case, case_runtime).run().state() == case.given["expect"]


def check_contents(case: Case, case_runtime: CaseRuntime) -> None:
    checked_keys(case.given, *_RUN, "request", "expect", "system", "system_not", of=case.id)
    if not case.given.keys() & {"expect", "system", "system_not"}:
        raise VectorError(f"{case.id} expects nothing")
    request = CaseRun(case, case_runtime).run().requests[case.given["request"]]
    if "expect" in case.given:
        seen = rendered_contents(request.contents)
        assert seen == expected_contents(case.given["expect"], seen)
    place = 0
    for text in case.given.get("system") or ():
        found = request.system_instruction.find(text, place)
        assert found >= 0, f"{text!r} is not in its place in {request.system_instruction!r}"
        place = found + len(text)
    for text in case.given.get("system_not") or ():
        assert text not in request.system_instruction


def check_runner(case: Case, case_runtime: CaseRuntime) -> None:
    checked_keys(case.given, *_RUN, *_EVENTS, "expect", of=case.id)
    expect = checked_keys(case.given["expect"], "events", "stored", "partial", "artifacts", "state", "invocations", of=case.id)
    ran = CaseRun(case, case_runtime).run()
    if case.given.keys() & {"order", "error_names"} and "events" not in expect:
        raise VectorError(f"{case.id} expects no events")
    if "events" in expect:
        ran.check_events(expect["events"])
    if "stored" in expect:
        branch = bool(case.given.get("branch"))
        assert [rendered(event, branch=branch) for event in ran.stored()] == ran.with_first_id(expect["stored"])
    if "partial" in expect:
        assert [[event.text for event in told.events if event.partial] for told in ran.turns] == expect["partial"]
    if "artifacts" in expect:
        assert ran.artifacts == ran.with_first_id(expect["artifacts"])
    if "state" in expect:
        assert ran.state() == expect["state"]
    if "invocations" in expect:
        letters, ids = expect["invocations"], [told.invocation_id for told in ran.turns]
        assert len(ids) == len(letters)
        assert _pattern(ids) == _pattern(letters)


def _pattern(values: Sequence[str]) -> list[int]:
    return [values.index(value) for value in values]


def check_selection(case: Case, runtimes: CaseRuntimes) -> None:
    """The tree is shared by all cases that have it, and each has a session of its own."""
    given = checked_keys(case.given, "tree", "log", "message", "expect", "error", of=case.id)
    if ("expect" in given) == ("error" in given):
        raise VectorError(f"{case.id} must expect an agent or an error")
    kinds = {node["n"]: node.get("k", "llm") for node in nodes(given["tree"])}
    rt = runtimes.of_tree(given["tree"])
    rt.sessions.create(USER_ID, case.id)
    names: dict[str | None, str] = {}
    for entry in given["log"]:
        event = _logged(entry, names)
        names.update({call.id: call.name for call in event.function_calls()})
        rt.sessions.append_event(USER_ID, case.id, event)
    turn = rt.run(user_id=USER_ID, session_id=case.id, message=_selecting(given["message"], names))
    if "error" in given:
        with pytest.raises(RaygroveError) as raised:
            turn.result()
        assert type(raised.value).__name__ == given["error"]
        session = rt.sessions.get(USER_ID, case.id)
        assert session is not None
        assert len(session.events) == len(given["log"]), "something was stored"
        return
    assert turn.agent == given["expect"]
    if kinds[given["expect"]] in ("llm", "custom", "silent", "say"):
        turn.result()
    else:
        # This area is only about which agent gets the turn. A workflow may be unable to run it, or never end.
        turn.cancel()


def _logged(given: Any, names: Mapping[str | None, str]) -> Event:
    checked_keys(given, "by", "text", "call", "resp", "err", "transfer", of="an event of the log")
    if len(given.keys() & {"text", "call", "resp", "err"}) != 1:
        raise VectorError(f"{given!r} is no event of a log")
    parts: list[Part] = []
    if "text" in given:
        parts = [Part(text=given["text"])]
    elif "call" in given:
        parts = [Part(function_call=FunctionCall(id=given["call"], name="f"))]
    elif "resp" in given:
        parts = _responses(given["resp"], names)
    role = "user" if given["by"] == "user" or "resp" in given else "model"
    return Event(
        author=given["by"],
        content=Content(role=role, parts=parts) if parts else None,
        error_code=given.get("err"),
        actions=EventActions(transfer_to_agent=given.get("transfer")),
    )


def _selecting(given: Any, names: Mapping[str | None, str]) -> Any:
    if isinstance(given, str):
        return given
    return Content(role="user", parts=_responses(checked_keys(given, "resp", of="a message")["resp"], names))


def _responses(ids: Sequence[str], names: Mapping[str | None, str]) -> list[Part]:
    return [Part(function_response=FunctionResponse(id=each, name=names.get(each, "f"), response={"ok": 1})) for each in ids]


def check_targets(case: Case, make: RuntimeFactory) -> None:
    """Each LLM agent gets a turn by an answer to a call of its own."""
    given = checked_keys(case.given, "tree", "expect", of=case.id)
    agents = [node["n"] for node in nodes(given["tree"]) if node.get("k", "llm") == "llm"]
    assert set(agents) == set(given["expect"]), "the vector does not say what to expect of every llm agent"
    model = ScriptedModel(["ok"] * len(agents))
    with make(TreeBuilder(model).build(given["tree"])) as rt:
        for agent in agents:
            rt.sessions.create(USER_ID, agent)
            rt.sessions.append_event(USER_ID, agent, _logged({"by": agent, "call": "c1"}, {}))
            rt.run(user_id=USER_ID, session_id=agent, message=_selecting({"resp": ["c1"]}, {})).result()
        requests = {request.agent: request for request in model.requests}
    seen = {}
    for agent in agents:
        tools = [tool for tool in requests[agent].tools if tool.name == TRANSFER]
        system = requests[agent].system_instruction
        assert bool(tools) == ("transfer" in system), f"{agent}: {system!r}"
        seen[agent] = tools[0].parameters["properties"]["agent_name"]["enum"] if tools and tools[0].parameters else []
        assert all(re.search(rf"\b{name}\b", system) for name in seen[agent])
    assert seen == given["expect"]


_END = "\n⁂\n"
"""Marks the end of the instruction in the system instruction, which goes on after it."""


def check_template(case: Case, make: RuntimeFactory) -> None:
    """Each instruction is that of the agent `root`. Where Runtimes are dear, those that can be rendered go into one."""
    given = checked_keys(case.given, "state", "artifacts", "expect", "errors", of=case.id)
    expect = given.get("expect") or {}
    groups = [list(expect)] if make.is_expensive else [[instruction] for instruction in expect]
    seen: dict[str, str] = {}
    for group in groups:
        seen.update(zip(group, _instructed(group, given, make), strict=True))
    assert seen == expect
    for instruction, words in (given.get("errors") or {}).items():
        with pytest.raises(RaygroveError) as raised:
            _instructed([instruction], given, make)
        assert all(word in str(raised.value) for word in words), f"{words}: {raised.value}"


def _instructed(instructions: Sequence[str], given: Mapping[str, Any], make: RuntimeFactory) -> list[str]:
    model = ScriptedModel(["ok"])
    template = "".join(each + _END for each in instructions)
    with make(LlmAgent(name="root", model=model, instruction=template)) as rt:
        rt.sessions.create(USER_ID, SESSION_ID, given.get("state"))
        for filename, text in (given.get("artifacts") or {}).items():
            rt.artifacts.save(USER_ID, SESSION_ID, filename, Part(text=text))
        rt.run(user_id=USER_ID, session_id=SESSION_ID, message="x").result()
        return model.requests[0].system_instruction.split(_END)[:-1]


def check_construct(case: Case, make: RuntimeFactory) -> None:
    """Nothing is started: the error comes before."""
    given = checked_keys(case.given, "tree", "session_store", "error", "names", "at", of=case.id)
    stores = {"session_store": given["session_store"]} if "session_store" in given else {}
    if given.get("session_store") is not None or given.get("at", "definition") != "definition":
        raise VectorError(f"{case.id}: {given!r}")

    def define() -> None:
        root = TreeBuilder(PatternModel([])).build(given["tree"]) if given["tree"] is not None else None
        if "at" not in given:
            make(root, **stores)

    with pytest.raises(DefinitionError) as raised:
        define()
    assert all(word in str(raised.value) for word in (given["error"], *given.get("names", ())))
