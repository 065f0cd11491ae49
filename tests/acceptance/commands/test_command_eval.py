"""`raygrove eval`: evaluation sets in ADK's forms are run and scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from actors.errors import RequestError
from tests.support.app_folders import desk
from tests.support.console import invoke

TRANSFER = {"name": "transfer_to_agent", "args": {"agent_name": "billing"}}
LOOKUP = {"name": "lookup_order", "args": {"order_id": "42"}}


@pytest.fixture(autouse=True)
def _desk(folder: Path) -> None:
    desk(folder / "desk_eval")


def case(eval_id: str, text: str, answer: str, *calls: dict[str, Any]) -> dict[str, Any]:
    turn = {
        "invocation_id": "i1",
        "user_content": {"parts": [{"text": text}], "role": "user"},
        "final_response": {"parts": [{"text": answer}], "role": "model"},
        "intermediate_data": {"tool_uses": list(calls), "intermediate_responses": []},
    }
    return {"eval_id": eval_id, "conversation": [turn], "session_input": {"app_name": "d", "user_id": "ada", "state": {}}}


def save(name: str, value: object) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(json.dumps(value))
    return name


def evaluate(*arguments: str) -> Result:
    return invoke("eval", "desk_eval", *arguments)


def rows(result: Result) -> list[list[str]]:
    columns, *others = result.stdout.splitlines()
    assert columns.split("\t") == ["set", "case", "metric", "score", "threshold", "result"]
    return [line.split("\t")[1:] for line in others]


def test_cases_are_scored_and_the_exit_code_says_whether_they_passed() -> None:
    good = case("late", "it is late", "It is on its way.", TRANSFER, LOOKUP)
    other = {**LOOKUP, "args": {"order_id": "7"}}
    file = save(
        "a.evalset.json", {"eval_set_id": "a", "eval_cases": [good, case("wrong", "late", "Who knows?", TRANSFER, other)]}
    )
    result = evaluate(file)
    assert rows(result) == [
        ["late", "tool_trajectory_avg_score", "1.00", "1.00", "passed"],
        ["late", "response_match_score", "1.00", "0.80", "passed"],
        ["wrong", "tool_trajectory_avg_score", "0.00", "1.00", "failed"],
        ["wrong", "response_match_score", "0.00", "0.80", "failed"],
    ]
    assert result.exit_code == 1
    assert evaluate(f"{file}:late").exit_code == 0


def test_camel_case_and_the_forms_that_are_lists_are_read() -> None:
    conversation = {
        "userContent": {"parts": [{"text": "it is late"}]},
        "finalResponse": {"parts": [{"text": "It is on its way."}]},
        "intermediateData": {
            "invocationEvents": [
                {"author": "concierge", "content": {"parts": [{"functionCall": TRANSFER}]}},
                {"author": "billing", "content": {"parts": [{"functionCall": LOOKUP}]}},
            ]
        },
    }
    save("sets/new.test.json", {"eval_set_id": "n", "eval_cases": [{"evalId": "camel", "conversation": [conversation]}]})
    uses = [{"tool_name": call["name"], "tool_input": call["args"]} for call in (TRANSFER, LOOKUP)]
    turn = {"query": "it is late", "expected_tool_use": uses, "reference": "It is on its way."}
    # In the second turn billing answers, which has the conversation by then.
    again = {"query": "hello", "expected_tool_use": [], "reference": "Billing here."}
    save("sets/older.test.json", [{"name": "older", "data": [turn, again], "initial_session": {"state": {"plan": "gold"}}}])
    save("sets/deep/oldest.test.json", [turn, again])
    result = evaluate("sets", "--json")
    done = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["eval_id"], each["passed"], each["error"]) for each in done] == [
        ("oldest", True, ""),
        ("camel", True, ""),
        ("older", True, ""),
    ]
    assert result.exit_code == 0


def test_criteria_come_from_the_file_beside_the_set() -> None:
    file = save("c/a.test.json", {"eval_set_id": "a", "eval_cases": [case("late", "it is late", "", LOOKUP)]})
    trajectory = {"threshold": 1, "matchType": "in order"}
    save("c/test_config.json", {"criteria": {"tool_trajectory_avg_score": trajectory, "safety_v1": 0.8}})
    result = evaluate(file)
    assert rows(result) == [["late", "tool_trajectory_avg_score", "1.00", "1.00", "passed"]]
    assert result.stderr == "not run: safety_v1 needs a model that judges, or code of its own\n"
    exact = save("exact.json", {"criteria": {"tool_trajectory_avg_score": 1.0}})
    assert evaluate(file, "--config", exact).exit_code == 1


def test_sessions_begin_with_their_state_and_are_kept_in_a_store() -> None:
    given = case("late", "it is late", "It is on its way.", TRANSFER, LOOKUP)
    given["session_input"]["state"] = {"plan": "gold"}
    file = save("s.evalset.json", {"eval_set_id": "s", "eval_cases": [given]})
    (done,) = [json.loads(line) for line in evaluate(file, "--json", "--store", "sqlite:///kept.db").stdout.splitlines()]
    listed = invoke("sessions", "list", "desk_eval", "--store", "sqlite:///kept.db").stdout
    assert listed.splitlines()[1].split("\t")[:2] == ["ada", done["session"]]


@pytest.mark.parametrize(
    ("value", "config", "error"),
    [
        ("no json", None, "a.evalset.json is no evaluation set"),
        ({"cases": []}, None, "a.evalset.json is no evaluation set: 'eval_cases' is missing"),
        ({"eval_cases": [{"eval_id": "x"}]}, None, "is no evaluation set: 'conversation' is missing"),
        ({"eval_cases": [{"eval_id": "x", "conversation": [{}]}]}, None, "is no evaluation set: 'user_content' is missing"),
        ([{"data": [{"query": "x"}]}], None, "is no evaluation set: 'name' is missing"),
        ({"eval_cases": []}, {}, "config.json has no criteria"),
        ({"eval_cases": []}, {"criteria": {"response_match_score": "high"}}, "must be a number, not 'high'"),
        ({"eval_cases": []}, {"criteria": {"safety_v1": 1}}, "no score of a.evalset.json can be computed"),
        (
            {"eval_cases": []},
            {"criteria": {"tool_trajectory_avg_score": {"threshold": 1, "match_type": "exactly"}}},
            "'exactly' is no match_type. Did you mean 'EXACT'?",
        ),
    ],
)
def test_a_wrong_file_is_said_in_a_line(value: object, config: object, error: str) -> None:
    file = save("a.evalset.json", value)
    options = ["--config", save("config.json", config)] if config is not None else []
    with pytest.raises(RequestError) as raised:
        evaluate(file, *options)
    assert error in str(raised.value)


def test_an_unknown_file_or_case_is_said_in_a_line() -> None:
    save("a.evalset.json", {"eval_cases": [case("late", "late", "")]})
    with pytest.raises(RequestError, match=r"no evaluation set 'b\.json'"):
        evaluate("b.json")
    with pytest.raises(RequestError, match=r"has no case 'lat'\. Its cases: late"):
        evaluate("a.evalset.json:lat")


def test_a_case_that_needs_a_user_simulator_has_not_passed() -> None:
    file = save("u.evalset.json", {"eval_cases": [{"eval_id": "u", "conversation_scenario": {"starting_prompt": "hi"}}]})
    result = evaluate(file)
    assert rows(result)[0][-1] == "failed: its conversation needs a user simulator"
    assert result.exit_code == 1
