"""What each area of vectors.yaml does with a case: define the tree, run it through the public API, compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, LlmAgent, Part, RunConfig, Session
from actors.errors import DefinitionError, RaygroveError
from actors.testing import PatternModel, ScriptedModel
from runtime import Runtime
from tests.acceptance.mocks import FailingArtifactStore
from tests.acceptance.vectors import (
    TRANSFER,
    WORKFLOWS,
    Case,
    TreeBuilder,
    VectorError,
    counts,
    expected_contents,
    known,
    message,
    nodes,
    rendered,
    rendered_contents,
    scripted,
)

USER_ID, SESSION_ID = "u", "s"
MakeRuntime = Callable[..., Runtime]

_RUN = ("tree", "script", "turns", "config", "leftover", "state", "session", "auto_create", "artifact_store", "raises")
_EVENTS = ("order", "branch", "error_names")


class Told(msgspec.Struct):
    """What the driver heard in one turn."""

    invocation_id: str
    events: list[Event]
    error: BaseException | None = None


class Conversation:
    """The turns of a case, run one after the other in one session."""

    def __init__(self, case: Case, make: MakeRuntime) -> None:
        self.given = case.given
        self.turns: list[Told] = []
        self.model: ScriptedModel = scripted(self.given.get("script") or [])
        self.session: Session | None = None
        self.artifacts: list[str] = []
        self._last_call: FunctionCall | None = None
        self._config = RunConfig(**(self.given.get("config") or {}))
        self._make = make

    def run(self) -> Conversation:
        """Run all turns, and look at what they leave behind."""
        with self._make(TreeBuilder(self.model).build(self.given["tree"]), **self._stores()) as rt:
            if self.given.get("session") is None:
                rt.sessions.create(USER_ID, SESSION_ID, self.given.get("state"))
            elif self.given["session"] != "missing" or "state" in self.given:
                raise VectorError(f"session: {self.given['session']!r}")
            for turn in self.given["turns"]:
                self.turns.append(self._turn(rt, turn))
            self.session = rt.sessions.get(USER_ID, SESSION_ID)
            self.artifacts = rt.artifacts.list_keys(USER_ID, SESSION_ID)
        self._check_the_script()
        self._check_what_was_raised()
        return self

    def _stores(self) -> dict[str, Any]:
        match self.given.get("artifact_store"):
            case None:
                return {}
            case "failing":
                return {"artifact_store": FailingArtifactStore()}
            case other:
                raise VectorError(f"artifact_store: {other!r}")

    def _turn(self, rt: Runtime, given: Any) -> Told:
        if isinstance(given, dict) and "rewind" in given:
            of = self.turns[known(given, "rewind", of="a turn")["rewind"]]
            rt.sessions.rewind(USER_ID, SESSION_ID, of.invocation_id)
            return Told(f"rewind {len(self.turns)}", [])
        options = {key: given[key] for key in ("state_delta", "invocation_id") if isinstance(given, dict) and key in given}
        told = Told(f"never started {len(self.turns)}", [])
        try:
            turn = rt.run(
                user_id=USER_ID,
                session_id=SESSION_ID,
                message=message(given, self._last_call),
                run_config=self._config,
                auto_create_session=self.given.get("auto_create", True),
                **options,
            )
        except RaygroveError as error:
            told.error = error
            return told
        try:
            for event in turn:
                told.events.append(event)
                calls = {call.id: call for call in event.function_calls()}
                for call_id in event.long_running_tool_ids:
                    self._last_call = calls[call_id]
        except RaygroveError as error:
            told.error = error
        told.invocation_id = turn.invocation_id
        return told

    def _check_the_script(self) -> None:
        left, asked = self.model.remaining, len(self.model.requests)
        assert asked <= len(self.model.replies), f"{asked - len(self.model.replies)} model calls without a reply left"
        if self.given.get("leftover") is None:
            assert left == 0, f"{left} replies are left over"
        elif self.given["leftover"] != "ok":
            raise VectorError(f"leftover: {self.given['leftover']!r}")

    def _check_what_was_raised(self) -> None:
        raises = self.given.get("raises") or {}
        for index, told in enumerate(self.turns):
            if index in raises:
                assert told.error is not None, f"turn {index} raised nothing"
                assert raises[index] in type(told.error).__name__ or raises[index] in str(told.error)
            elif told.error is not None:
                raise AssertionError(f"turn {index} raised {told.error!r}") from told.error
        if raises.keys() - set(range(len(self.turns))):
            raise VectorError(f"raises: {raises!r}")

    # ------------------------------------------------------------------------------------------- what can be expected
    def state(self) -> dict[str, Any]:
        """The session's state, without keys whose value is null."""
        assert self.session is not None, "there is no session"
        return {key: value for key, value in self.session.state.items() if value is not None}

    def events(self, index: int) -> list[Event]:
        """The events of a turn that count."""
        return [event for event in self.turns[index].events if counts(event) and event.author != "user"]

    def stored(self) -> list[Event]:
        """The events of the log that count, the user's too."""
        return [event for event in (self.session.events if self.session is not None else ()) if counts(event)]

    def told_of_inv0(self, value: Any) -> Any:
        """An expectation with the id of the first turn filled in."""
        if isinstance(value, str):
            return value.replace("<inv0>", self.turns[0].invocation_id)
        return [self.told_of_inv0(each) for each in value] if isinstance(value, list) else value

    def check_events(self, expect: Sequence[Sequence[Any]]) -> None:
        """Compare the events of all turns."""
        branch, order = bool(self.given.get("branch")), self.given.get("order")
        if order not in (None, "any"):
            raise VectorError(f"order: {order!r}")
        assert len(self.turns) == len(expect), "the vector does not say what to expect of every turn"
        actual = [[rendered(event, branch=branch) for event in self.events(index)] for index in range(len(self.turns))]
        compared = [_in_order(turn) for turn in actual] if order else actual
        for index, wanted in enumerate(expect):
            if list(wanted[-1:]) == ["..."]:
                assert _begins(actual[index], list(wanted[:-1]), in_any_order=bool(order)), f"turn {index}: {actual[index]}"
                compared[index] = []
        whole = [[] if list(wanted[-1:]) == ["..."] else list(wanted) for wanted in expect]
        assert compared == ([_in_order(turn) for turn in whole] if order else whole)
        for turn, event, words in self.given.get("error_names") or ():
            alike = [each for each, shown in zip(self.events(turn), actual[turn], strict=True) if shown == expect[turn][event]]
            of_event = alike if order else [self.events(turn)[event]]
            assert any(all(word in _error_text(each) for word in words) for each in of_event), f"{words}: {of_event}"


def _in_order(events: Sequence[list[str]]) -> list[list[str]]:
    """The events with those of one author together, in their order: equal for all ways to interleave authors."""
    return sorted(events, key=lambda event: event[0])


def _begins(actual: list[list[str]], wanted: list[list[str]], *, in_any_order: bool) -> bool:
    if not in_any_order:
        return actual[: len(wanted)] == wanted
    for author in {each[0] for each in wanted}:
        of_author = [each for each in wanted if each[0] == author]
        if [each for each in actual if each[0] == author][: len(of_author)] != of_author:
            return False
    return True


def _error_text(event: Event) -> str:
    return " ".join(str(response.response.get("error", "")) for response in event.function_responses())


# ----------------------------------------------------------------------------------------------------- areas with turns
def check_flow(case: Case, make: MakeRuntime) -> None:
    known(case.given, *_RUN, *_EVENTS, "expect", of=case.id)
    Conversation(case, make).run().check_events(case.given["expect"])


def check_state(case: Case, make: MakeRuntime) -> None:
    known(case.given, *_RUN, "expect", of=case.id)
    assert Conversation(case, make).run().state() == case.given["expect"]


def check_contents(case: Case, make: MakeRuntime) -> None:
    known(case.given, *_RUN, "request", "expect", "system", "system_not", of=case.id)
    if not case.given.keys() & {"expect", "system", "system_not"}:
        raise VectorError(f"{case.id} expects nothing")
    request = Conversation(case, make).run().model.requests[case.given["request"]]
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


def check_runner(case: Case, make: MakeRuntime) -> None:
    known(case.given, *_RUN, *_EVENTS, "expect", of=case.id)
    expect = known(case.given["expect"], "events", "stored", "partial", "artifacts", "state", "invocations", of=case.id)
    ran = Conversation(case, make).run()
    if case.given.keys() & {"order", "error_names"} and "events" not in expect:
        raise VectorError(f"{case.id} expects no events")
    if "events" in expect:
        ran.check_events(expect["events"])
    if "stored" in expect:
        branch = bool(case.given.get("branch"))
        assert [rendered(event, branch=branch) for event in ran.stored()] == ran.told_of_inv0(expect["stored"])
    if "partial" in expect:
        assert [[event.text for event in told.events if event.partial] for told in ran.turns] == expect["partial"]
    if "artifacts" in expect:
        assert ran.artifacts == ran.told_of_inv0(expect["artifacts"])
    if "state" in expect:
        assert ran.state() == expect["state"]
    if "invocations" in expect:
        letters, ids = expect["invocations"], [told.invocation_id for told in ran.turns]
        assert len(ids) == len(letters)
        assert _pattern(ids) == _pattern(letters)


def _pattern(values: Sequence[str]) -> list[int]:
    return [values.index(value) for value in values]


# ----------------------------------------------------------------------------------------------------------- selection
def check_selection(case: Case, make_shared: MakeRuntime) -> None:
    """The tree is shared by all cases that have it, and each has a session of its own."""
    given = known(case.given, "tree", "log", "message", "expect", "error", of=case.id)
    if ("expect" in given) == ("error" in given):
        raise VectorError(f"{case.id} must expect an agent or an error")
    kinds = {node["n"]: node.get("k", "llm") for node in nodes(given["tree"])}
    rt = make_shared(given["tree"])
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
        # Who gets the turn is all that this area is about. A workflow may be unable to run it, or run without an end.
        turn.cancel()


def _logged(given: Any, names: Mapping[str | None, str]) -> Event:
    known(given, "by", "text", "call", "resp", "err", "transfer", of="an event of the log")
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
    return Content(role="user", parts=_responses(known(given, "resp", of="a message")["resp"], names))


def _responses(ids: Sequence[str], names: Mapping[str | None, str]) -> list[Part]:
    return [Part(function_response=FunctionResponse(id=each, name=names.get(each, "f"), response={"ok": 1})) for each in ids]


def shared_model() -> PatternModel:
    """The model of trees that several cases share: it has an answer to everything."""
    return PatternModel([("", "ok")])


# ------------------------------------------------------------------------------------------------------------- targets
def check_targets(case: Case, make: MakeRuntime) -> None:
    """Every LLM agent is made to speak, by the answer to a call of its own."""
    given = known(case.given, "tree", "expect", of=case.id)
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


# ------------------------------------------------------------------------------------------------------------ template
def check_template(case: Case, make: MakeRuntime) -> None:
    """Each instruction is that of the agent `root`; what the request says behind it is known from an empty one."""
    given = known(case.given, "state", "artifacts", "expect", "errors", of=case.id)
    identity = _instructed("", given, make)
    seen, wanted = {}, {}
    for instruction, result in (given.get("expect") or {}).items():
        system = _instructed(instruction, given, make)
        assert not isinstance(system, BaseException), f"{instruction}: {system}"
        seen[instruction] = system
        wanted[instruction] = f"{result}\n\n{identity}" if result else identity
    assert seen == wanted
    for instruction, words in (given.get("errors") or {}).items():
        error = _instructed(instruction, given, make)
        assert isinstance(error, RaygroveError), f"{instruction}: {error}"
        assert all(word in str(error) for word in words), f"{words}: {error}"


def _instructed(instruction: str, given: Mapping[str, Any], make: MakeRuntime) -> str | RaygroveError:
    model = ScriptedModel(["ok"])
    with make(LlmAgent(name="root", model=model, instruction=instruction)) as rt:
        rt.sessions.create(USER_ID, SESSION_ID, given.get("state"))
        for filename, text in (given.get("artifacts") or {}).items():
            rt.artifacts.save(USER_ID, SESSION_ID, filename, Part(text=text))
        try:
            rt.run(user_id=USER_ID, session_id=SESSION_ID, message="x").result()
        except RaygroveError as error:
            return error
        return model.requests[0].system_instruction


# ----------------------------------------------------------------------------------------------------------- construct
def check_construct(case: Case, make: MakeRuntime) -> None:
    """Nothing is started: the error comes before."""
    given = known(case.given, "tree", "session_store", "error", "names", "at", of=case.id)
    stores = {"session_store": given["session_store"]} if "session_store" in given else {}
    if given.get("session_store") is not None or given.get("at", "definition") != "definition":
        raise VectorError(f"{case.id}: {given!r}")

    def define() -> None:
        root = TreeBuilder(shared_model()).build(given["tree"]) if given["tree"] is not None else None
        if "at" not in given:
            make(root, **stores)

    with pytest.raises(DefinitionError) as raised:
        define()
    assert all(word in str(raised.value) for word in (given["error"], *given.get("names", ())))
