"""Agents' actors talk to Gemini with the unmodified client. The service is a local server that speaks its REST protocol."""

from __future__ import annotations

import pytest

from actors import LlmAgent, RunConfig, tool
from actors.errors import ModelServiceError
from runtime.models.gemini import Gemini
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.servers.gemini_server import Failure, Gate, GeminiServer, Reply, Stream, call, text

SSE = RunConfig(streaming="sse")


def gemini(server: GeminiServer, **options: float) -> Gemini:
    return Gemini(model="gemini-2.5-flash", api_key="k", base_url=server.url, retry_initial_delay_s=0.01, **options)  # type: ignore[arg-type]


@tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"order": order_id, "status": "late"}


def test_a_tree_answers_over_the_wire_with_a_transfer_and_a_tool(deploy: Deploy) -> None:
    replies = [
        call("transfer_to_agent", {"agent_name": "billing"}),
        call("lookup_order", {"order_id": "42"}),
        text("Order 42 is late."),
        text("You are welcome."),
    ]
    with GeminiServer(replies) as server:
        billing = LlmAgent(name="billing", description="bills", instruction="Be brief.", tools=[lookup_order])
        root = LlmAgent(name="concierge", model=gemini(server), instruction="Greet.", sub_agents=[billing])
        with deploy(root) as rt:
            assert author_texts(run_turn(rt, "Where is order 42?"))[-1] == ("billing", "Order 42 is late.")
            assert author_texts(run_turn(rt, "Thanks")) == [("billing", "You are welcome.")]
        first, second, third, fourth = (request.body for request in server.requests)
    assert [function["name"] for function in first["tools"][0]["functionDeclarations"]] == ["transfer_to_agent"]
    assert first["systemInstruction"]["parts"][0]["text"].startswith("Greet.\n\n")
    assert second["systemInstruction"]["parts"][0]["text"].startswith("Be brief.\n\n")
    assert third["contents"][-2]["parts"][0]["functionCall"]["args"] == {"order_id": "42"}
    assert third["contents"][-1]["parts"][0]["functionResponse"]["response"] == {"order": "42", "status": "late"}
    assert fourth["contents"][-2:] == [
        {"role": "model", "parts": [{"text": "Order 42 is late."}]},
        {"role": "user", "parts": [{"text": "Thanks"}]},
    ]


def test_a_streamed_answer_arrives_before_the_server_has_finished_and_is_stored_once(deploy: Deploy) -> None:
    gate = Gate()
    chunks = [text("Hel", finish_reason=None), text("lo ", finish_reason=None), text("there")]
    with GeminiServer([Stream(chunks, gate)]) as server, deploy(LlmAgent(name="root", model=gemini(server))) as rt:
        events = iter(rt.run(user_id="ada", session_id="s1", message="hi", run_config=SSE))
        pieces = []
        for _ in chunks:
            # The server sends the next chunk only when the one before has reached us.
            gate.release()
            event = next(events)
            assert event.partial
            pieces.append(event.text)
        rest = list(events)
        assert pieces == ["Hel", "lo ", "there"]
        assert author_texts(rest) == [("root", "Hello there")]
        assert author_texts(stored(rt)) == [("user", "hi"), ("root", "Hello there")]


def test_a_service_that_stays_broken_fails_the_turn_and_the_next_one_works(deploy: Deploy) -> None:
    replies: list[Reply] = [Failure(500), Failure(500), Failure(500), text("fine again")]
    with GeminiServer(replies) as server, deploy(LlmAgent(name="root", model=gemini(server, retries=2))) as rt:
        with pytest.raises(ModelServiceError, match="500"):
            run_turn(rt, "hi")
        failure = stored(rt)[-1]
        assert (failure.author, failure.error_code, failure.content) == ("root", "ModelServiceError", None)
        assert author_texts(run_turn(rt, "again")) == [("root", "fine again")]
