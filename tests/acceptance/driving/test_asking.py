"""A question with a type, and its answer as an object."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from actors import LlmAgent, SequentialAgent, tool
from actors.errors import AgentFailedError, DefinitionError, OutputSchemaError, RequestError, TaskFailedError, UnknownAgentError
from actors.messages.content import Content, Part
from actors.messages.llm import LlmResponse
from actors.testing import PatternModel, ScriptedModel
from tests.support.runtimes import Deploy


class Invoice(BaseModel):
    number: int
    customer: str


@dataclass
class Total:
    euros: float


ACME = '{"number": 7, "customer": "Acme"}'


def clerk(model: object, **options: object) -> LlmAgent:
    return LlmAgent.model_validate({"name": "clerk", "model": model} | options)


def test_an_agent_without_a_schema_has_a_tool_for_the_result_and_corrects_it(deploy: Deploy) -> None:
    model = ScriptedModel(
        [
            {"call": "succeed_answer", "args": {"result": {"number": "seven"}}},
            {"call": "succeed_answer", "args": {"result": {"number": 7, "customer": "Acme"}}},
            "a text",
        ]
    )
    with deploy(clerk(model)) as rt:
        assert rt.ask("Read {this}: 7 for Acme", result_type=Invoice) == Invoice(number=7, customer="Acme")
        assert any("Read {this}: 7 for Acme" in content.text for content in model.requests[0].contents)
        assert rt.ask("What is it?") == "a text"


def test_an_agent_with_a_schema_answers_with_it(local: Deploy) -> None:
    with local(clerk(PatternModel([("bad", "?")], default=ACME), output_schema=Invoice)) as rt:
        assert rt.ask("7 for Acme") == Invoice(number=7, customer="Acme")
        assert rt.ask("7 for Acme", result_type=dict[str, int | str]) == {"number": 7, "customer": "Acme"}
        assert rt.ask("7 for Acme", result_type=str) == ACME
        with pytest.raises(OutputSchemaError, match="clerk"):
            rt.ask("bad", session_id="s")
        with pytest.raises(OutputSchemaError, match="euros: Field required"):
            rt.ask("7 for Acme", result_type=Total)
        assert asyncio.run(rt.aio.ask("7 for Acme")) == Invoice(number=7, customer="Acme")


def test_the_last_agent_of_a_workflow_answers(local: Deploy) -> None:
    root = SequentialAgent(
        name="desk",
        sub_agents=[clerk(PatternModel([], default=ACME)), clerk(PatternModel([], default='{"euros": 3}'), name="sum")],
    )
    with local(root) as rt:
        assert rt.ask("7 for Acme", result_type=Total) == Total(euros=3)
        with pytest.raises(OutputSchemaError, match="the answer of agent 'sum'"):
            rt.ask("7 for Acme", result_type=Invoice)


def test_any_llm_agent_of_the_tree_can_be_asked(local: Deploy) -> None:
    billing = clerk(PatternModel([], default={"call": "succeed_answer", "args": {"result": "Paid."}}), name="billing")
    root = clerk(PatternModel([], default="I am the root."), sub_agents=[billing])
    with local(root) as rt:
        assert rt.ask(root, "hi") == rt.ask("clerk", "hi") == rt.ask("hi") == "I am the root."
        assert rt.ask(billing, "Is it paid?") == rt.ask("billing", "Is it paid?") == "Paid."
        with pytest.raises(UnknownAgentError, match="biling"):
            rt.ask("biling", "Is it paid?")
        with pytest.raises(DefinitionError, match="another than the one of that name"):
            rt.ask(clerk("gemini-2.5-flash"), "hi")
        for wrong in ((), (billing, "a", "b"), (7, "a")):
            with pytest.raises(RequestError, match="ask takes a message, or an agent and a message"):
                rt.ask(*wrong)


def test_one_of_several_labels_is_chosen(local: Deploy) -> None:
    model = PatternModel([], default={"call": "succeed_answer", "args": {"result": 1}})
    with local(clerk(model)) as rt:
        assert rt.ask("It crashes", result_type=["question", "bug"]) == "bug"
        assert [result.output for result in rt.map(["a", "b"], result_type=["question", "bug"])] == ["bug", "bug"]
        assert [result.is_repeated for result in rt.map(["a", "b"], result_type=["question", "bug"])] == [True, True]


@pytest.mark.parametrize(
    ("refusal", "code", "words"),
    [
        (
            LlmResponse(finish_reason="STOP", error_code="REFUSAL", error_message="I do not do that."),
            "REFUSAL",
            "I do not do that.",
        ),
        (LlmResponse(error_code="SAFETY", error_message="the prompt was blocked (SAFETY)"), "SAFETY", "the prompt was blocked"),
        (LlmResponse(content=Content(role="model", parts=[Part(text="Take 3 g")]), finish_reason="SAFETY"), "SAFETY", "Take 3 g"),
    ],
    ids=["refusal", "blocked prompt", "blocked in the middle"],
)
def test_a_refusal_of_the_model_is_an_error_in_its_words_and_stays_in_the_log(
    deploy: Deploy, refusal: LlmResponse, code: str, words: str
) -> None:
    with deploy(clerk(ScriptedModel([refusal] * 3 + ["hello"]))) as rt:
        for result_type in (None, str):
            with pytest.raises(AgentFailedError, match=f"agent 'clerk' failed: {code}: .*{words}"):
                rt.ask("hi", result_type=result_type)
        [mapped] = rt.map(["hi"])
        assert isinstance(mapped.error, AgentFailedError)
        assert {event.error_code or event.finish_reason for event in mapped.events if event.author == "clerk"} == {
            refusal.error_code or refusal.finish_reason
        }
        assert rt.ask("hi") == "hello"


def test_what_is_no_answer_is_an_error(local: Deploy) -> None:
    @tool(long_running=True)
    def ask_manager() -> None:
        """Ask the manager."""

    model = PatternModel([("give up", {"call": "fail_answer", "args": {"reason": "I cannot."}})], {"call": "ask_manager"})
    with local(clerk(model, tools=[ask_manager])) as rt:
        with pytest.raises(TaskFailedError, match="I cannot"):
            rt.ask("give up", result_type=Invoice)
        with pytest.raises(TaskFailedError, match="waits for the answer to a long-running call"):
            rt.ask("refund")
        with pytest.raises(DefinitionError, match="result_type is an empty list"):
            rt.ask("refund", result_type=[])


async def test_a_cell_of_a_notebook_may_wait_on_its_own_loop_and_other_loops_may_not(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    with deploy(LlmAgent(name="root", model=ScriptedModel(["hello"] * 2))) as rt:
        assert rt.ask("hi") == "hello"
        turn = rt.run(user_id="ada", session_id="s1", message="hi")
        assert turn.result().text == "hello"
    with deploy(LlmAgent(name="root", model=ScriptedModel(["hello"]))) as rt:
        del shell.kernel
        with pytest.raises(RequestError, match="would block the event loop"):
            rt.ask("hi")
