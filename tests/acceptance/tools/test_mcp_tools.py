"""Tools of MCP servers: one connection for all agents, whatever is lost."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from actors import LlmAgent, McpTools, ParallelAgent, Paused, ReadonlyContext
from actors.errors import DefinitionError
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.support.agents.mcp_tools import agent, call, free_port, responses, running, server
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, saved_blob

pytestmark = pytest.mark.sampled(3, of="module")

LIBRARY = "mcp_server_program"
"""A server made with the library, of the newest revision. It takes seconds to start."""


def accepted(day: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"day": day}}


def asked(rt: Runtime, session_id: str = "s1") -> Any:
    """Run a turn that pauses; the question."""
    result = rt.run(user_id="ada", session_id=session_id, message="go").result()
    assert isinstance(result.outcome, Paused)
    return question(rt, session_id)


def question(rt: Runtime, session_id: str = "s1") -> Any:
    [pending] = rt.pending(user_id="ada", session_id=session_id)
    assert not pending.is_confirmation
    return pending.question


def answer(rt: Runtime, given: dict[str, Any], session_id: str = "s1") -> list[dict[str, Any]]:
    """Answer the question; the responses of the tools that run then."""
    [pending] = rt.pending(user_id="ada", session_id=session_id)
    events = rt.answer(pending, given).result().events
    return [response.response for event in events for response in event.function_responses()]


def kill_when_there(file: Path, pid: int) -> None:
    # A file is all that the two processes share.
    while not (file.exists() and file.read_text().endswith("\n")):
        pass
    os.kill(pid, signal.SIGKILL)


def test_an_agent_calls_the_tools_of_a_server_made_with_the_library(deploy: Deploy) -> None:
    variables = [call("t_variable", name=name) for name in ("COLOUR", "TEST_COLOUR")]
    script: list[Any] = [
        {"parts": [call("t_add", a=1, b=2), call("t_fail", why="no"), call("t_picture"), *variables]},
        "done",
        call("t_grow"),
        "done",
        {"parts": [call("t_grown", a=2, b=2), call("t_header", name="x")]},
        "done",
        call("t_book", place="Rome"),
    ]
    tools = server(program=LIBRARY, prefix="t_", env={"COLOUR": "${TEST_COLOUR}"})
    settings = Settings(env={"TEST_COLOUR": "red"})
    with deploy(agent(tools, script=script), settings=settings) as rt:
        added, failed, picture, colour, of_the_program = responses(rt)
        assert added == {"result": 3}
        assert failed == {"error": "McpToolError: t_fail has failed: Error executing tool fail: no"}
        [name] = picture.pop("artifacts")
        assert picture == {"result": "here it is"}
        assert saved_blob(rt, name).data.startswith(b"\x89PNG")
        assert colour == {"result": "red"}
        assert of_the_program == {"result": ""}
        responses(rt)
        assert responses(rt) == [{"result": 4}, {"result": ""}]
        assert asked(rt)["message"] == "Which day in Rome?"
    # The answer comes when everything was started again, the server included, which does not know its own question any more.
    with deploy(agent(tools, script=["booked"]), settings=settings) as rt:
        assert answer(rt, accepted("Monday")) == [{"result": "Rome on Monday"}]


def imported() -> list[str]:
    """What of the library the agent's process has imported."""
    return [name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types")]


def lose_the_actor(rt: Runtime, waits: Path) -> None:
    """Kill the process of the server's actor in the middle of a call. Its turns have a session of their own."""
    lost = rt.statistics().mcp["tests"].pid
    turn = rt.run(user_id="ada", session_id="lost", message="go")
    kill_when_there(waits, lost)
    assert [response.response for event in turn for response in event.function_responses()] == [{"result": "waited"}]
    (_, call_id), (_, again) = [line.split() for line in waits.read_text().splitlines()]
    assert call_id == again
    assert rt.statistics().mcp["tests"].pid != lost
    assert responses(rt, "lost") == [{"result": []}]


def test_a_server_is_killed_in_the_middle_of_a_call_and_between_calls(deploy: Deploy, tmp_path: Path) -> None:
    waits = tmp_path / "waits"
    script = [
        *(call("process_id"), "done"),
        *(call("wait", file=str(waits)), "done"),
        *({"parts": [call("process_id"), call("add", a="x", b=1), call("add", a=3, b=1)]}, "done"),
        *(call("fall_over"), "done"),
        *((call("wait", file=str(tmp_path / "more")), "done", call("imported"), "done") if deploy.engine == "ray" else ()),
        call("book", place="Bonn"),
        {"parts": [call("book", place="Rome"), call("book", place="Oslo")]},
    ]
    with deploy(agent(server(), imported, script=script)) as rt:
        [first] = responses(rt)
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        kill_when_there(waits, int(first["result"]))
        assert [response.response for event in turn for response in event.function_responses()] == [{"result": "waited"}]
        # It was made again with the same id, which the server is given.
        (pid, call_id), (other, again) = [line.split() for line in waits.read_text().splitlines()]
        assert pid == first["result"] != other
        assert call_id == again != "None"
        os.kill(int(other), signal.SIGKILL)
        third, wrong, right = responses(rt)
        assert third["result"] not in (pid, other)
        assert wrong == {"error": "McpToolError: add has failed: a is no number"}
        assert right == {"result": "4"}
        [fell] = responses(rt)
        assert fell["error"].startswith("McpServerError: MCP server 'tests': the connection was lost twice")
        figures = rt.statistics().mcp["tests"].counts
        assert (figures["connections"], figures["repeated"], figures["open"]) == (4, 3, 0)
        if deploy.engine == "ray":
            lose_the_actor(rt, tmp_path / "more")
        # A server of an older revision asks in the middle of a call, and does not say of which.
        assert asked(rt)["message"] == "Which day in Bonn?"
        assert isinstance(rt.run(user_id="ada", session_id="s2", message="go").result().outcome, Paused)
    with deploy(agent(server(), script=["booked", "booked both"])) as rt:
        assert answer(rt, accepted("Monday")) == []
        assert question(rt) == {"message": "And to come back?", "requestedSchema": ANY}
        assert answer(rt, accepted("Friday")) == [{"result": "Bonn: Monday to Friday"}]
        both = rt.pending(user_id="ada", session_id="s2")
        assert {(each.question or {})["message"] for each in both} == {"Which day in Rome?", "Which day in Oslo?"}
        events = rt.answer({each.call_id: {"action": "decline"} for each in both}, user_id="ada", session_id="s2").result().events
        told = [each.response for event in events for each in event.function_responses()]
        assert told == [{"result": "Rome: decline to decline"}, {"result": "Oslo: decline to decline"}]


@pytest.mark.parametrize(("option", "told"), [({}, "waited"), ({"connect_timeout_s": 1.0}, "it cannot be reached")])
def test_a_server_that_takes_a_while_to_start_again_is_waited_for(
    local: Deploy, tmp_path: Path, option: dict[str, Any], told: str
) -> None:
    waits = tmp_path / "waits"
    script = [call("process_id"), "done", call("wait", file=str(waits)), "done"]
    env = {"STARTS_FILE": str(tmp_path / "starts"), "FAILING_STARTS": "4"}
    with local(agent(server(env=env, **option), script=script)) as rt:
        [first] = responses(rt)
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        kill_when_there(waits, int(first["result"]))
        [response] = [str(response.response) for event in turn for response in event.function_responses()]
        assert told in response


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["ray"])
def test_a_thousand_agents_share_a_connection(deploy: Deploy) -> None:
    model = PatternModel([("tool:", "done"), ("go", call("process_id"))])
    tools = server()
    groups = [
        ParallelAgent(
            name=f"group_{group}x",
            sub_agents=[LlmAgent(name=f"agent_{group}_{number}", model=model, tools=[tools]) for number in range(20)],
        )
        for group in range(50)
    ]
    choices = PatternModel([(group.name, {"transfer": group.name}) for group in groups])
    with deploy(LlmAgent(name="root", model=choices, sub_agents=groups)) as rt:
        turns = [rt.run(user_id="ada", session_id=group.name, message=f"go to {group.name}") for group in groups]
        events = [event for turn in turns for event in turn.result().events]
        found = {event.author: response.response for event in events for response in event.function_responses()}
        del found["root"]
        assert len(found) == 1_000
        assert len({each["result"] for each in found.values()}) == 1
        assert rt.statistics().mcp["tests"].counts == {"connections": 1, "calls": 1_000, "lists": 1, "repeated": 0, "open": 1}


def test_a_server_over_http_gets_headers_of_the_session_and_may_be_started_again(local: Deploy) -> None:
    def headers(context: ReadonlyContext) -> dict[str, str]:
        return {"X-User": f"{context.user_id} in {context.session_id}"}

    script: list[Any] = [call("header", name="x-user"), "done"] * 2 + [call("add", a=1, b=2), "done"]
    port = free_port()
    tools = McpTools(name="web", url=f"http://127.0.0.1:{port}/mcp", headers=headers)
    with local(agent(tools, script=script)) as rt:
        with running(port):
            assert responses(rt) == [{"result": "ada in s1"}]
            assert responses(rt, "s2") == [{"result": "ada in s2"}]
        with running(port):
            assert responses(rt) == [{"result": 3}]


def test_each_session_has_a_server_of_its_own(local: Deploy) -> None:
    with local(agent(server(scope="session"), script=[call("process_id"), "done"] * 3)) as rt:
        [first], [other], [again] = responses(rt, "s1"), responses(rt, "s2"), responses(rt, "s1")
        assert first == again != other


def test_filters_and_consent(local: Deploy) -> None:
    def is_large(name: str, args: dict[str, Any]) -> bool:
        return name == "add" and args["a"] > 10

    script = [call("add", a=1, b=1), "small", call("add", a=11, b=1), "large", call("grow"), "missing"]
    with local(agent(server(tools=["a*", "proc*"], require_confirmation=is_large), script=script)) as rt:
        assert responses(rt) == [{"result": "2"}]
        assert isinstance(rt.run(user_id="ada", session_id="s1", message="go").result().outcome, Paused)
        [pending] = rt.pending(user_id="ada")
        assert pending.is_confirmation
        events = rt.answer(pending, confirmed=True).result().events
        assert [each.response for event in events for each in event.function_responses()] == [{"result": "12"}]
        assert "there is no tool 'grow'" in responses(rt)[0]["error"]


def test_a_call_with_consent_may_ask_as_well(local: Deploy) -> None:
    with local(agent(server(require_confirmation=["bo*"]), script=[call("book", place="Rome"), "booked"])) as rt:
        rt.run(user_id="ada", session_id="s1", message="go").result()
        [pending] = rt.pending(user_id="ada")
        rt.answer(pending, confirmed=True).result()
        assert question(rt)["message"] == "Which day in Rome?"
        assert answer(rt, {"action": "cancel"}) == [{"result": "Rome: cancel to cancel"}]


def test_a_model_finds_tools_when_there_are_too_many_to_show_them(local: Deploy) -> None:
    model = ScriptedModel([call("grow"), "done", call("find_tools", query="kind 42"), call("tool_42", a=1, b=2), "done"])
    with local(LlmAgent(name="root", model=model, tools=[server()])) as rt:
        responses(rt)
        found, added = responses(rt)
        assert found["tools"][0] == {"name": "tool_42", "description": "Add numbers of the kind 42."}
        assert added == {"result": "3"}
    shown = [[tool.name for tool in request.tools] for request in model.requests]
    assert len(shown[0]) == 9
    # What it has called before stays in its sight.
    assert shown[2] == ["find_tools", "grow"]
    assert shown[3][:3] == ["find_tools", "grow", "tool_42"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"action": "accept"}, {"wine": "red", "glasses": 2}),
        ({"action": "accept", "content": {"glasses": 3}}, {"wine": "red", "glasses": 3}),
        ({"action": "decline", "content": {"glasses": 3}}, None),
    ],
)
def test_fields_that_an_answer_leaves_out_have_the_defaults_of_the_form(
    local: Deploy, given: dict[str, Any], told: dict[str, Any] | None
) -> None:
    with local(agent(server(), script=[call("order"), "done"])) as rt:
        asked(rt)
        assert answer(rt, given) == [{"result": json.dumps(told)}]


def test_an_answer_of_another_form_is_an_error_for_the_model(local: Deploy) -> None:
    with local(agent(server(), script=[call("book", place="Rome"), "sorry"])) as rt:
        asked(rt)
        [told] = answer(rt, {"day": "Monday"})
        assert 'has to be {"action": "accept", "content": {…}}' in told["error"]


def test_tools_with_a_malformed_schema_are_left_out_with_a_warning_that_names_them(
    deploy: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"no_object": "text", "none": None, "no_type": {}, "list": {"type": "object", "properties": []}}
    tools = server(env={"MALFORMED_SCHEMAS": json.dumps(wrong)})
    with caplog.at_level("WARNING"), deploy(agent(tools, script=[call("add", a=1, b=2), call("no_type"), "done"])) as rt:
        first, second = responses(rt)
        assert first == {"result": "3"}
        assert "there is no tool 'no_type'" in str(second), second
        until(lambda: all(f"the tool {name!r} of MCP server 'tests' is left out" in caplog.text for name in wrong))


def test_a_server_that_cannot_be_started_fails_the_run_by_its_name(local: Deploy) -> None:
    tools = McpTools(name="away", command=["/nowhere/server"])
    with local(agent(tools, script=[])) as rt, pytest.raises(DefinitionError, match=r"McpTools 'away': .*/nowhere/server"):
        run_turn(rt, "go")


def test_a_call_that_takes_too_long_is_an_error_for_the_model(local: Deploy, tmp_path: Path) -> None:
    script = [call("wait", file=str(tmp_path / "waits")), "sorry", call("add", a=1, b=1), "fine"]
    with local(agent(server(timeout_s=2), script=script)) as rt:
        assert responses(rt) == [{"error": "McpServerError: MCP server 'tests': there was no answer within 2 s"}]
        assert responses(rt) == [{"result": "2"}]


def test_a_tool_has_another_name_for_the_model_where_services_would_refuse_its_own(local: Deploy) -> None:
    with local(agent(server(), script=[call("maths_add_two_numbers", a=1, b=2), "done"])) as rt:
        assert responses(rt) == [{"result": "3"}]


def test_two_servers_of_one_name_are_refused(local: Deploy) -> None:
    with (
        local(agent(server(), server(cache_s=1, prefix="b_"), script=[])) as rt,
        pytest.raises(DefinitionError, match="two MCP servers of this app are called 'tests'"),
    ):
        run_turn(rt, "go")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"name": "x"}, "either a command or a url"),
        ({"name": "x", "command": "npx server"}, r"command is a list, such as \['npx', 'server'\]"),
        ({"name": "x/y", "url": "http://a"}, "the name 'x/y' has to be of letters"),
        ({"name": "x", "url": "a.b"}, "begins with http://"),
        ({"name": "x", "url": "http://a", "tools": "read_*"}, r"tools is a list of names or patterns, such as \['read_\*'\]"),
        ({"name": "x", "command": ["a"], "headers": {"a": "b"}}, "headers go with a url"),
        ({"name": "x", "url": "http://a", "scope": "user"}, "scope is 'app' or 'session', not 'user'"),
        ({"name": "x", "url": "http://a", "timeout_s": 0}, "timeout_s has to be above 0"),
        (
            {"name": "x", "url": "http://a", "connect_timeout_s": -1},
            "connect_timeout_s and cache_s 0 or more, not 60, -1 and 300",
        ),
        ({"name": "x", "url": "http://a", "prefix": "a b"}, "the prefix 'a b' cannot begin"),
    ],
)
def test_wrong_definitions_are_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(DefinitionError, match=wrong):
        McpTools(**options)
