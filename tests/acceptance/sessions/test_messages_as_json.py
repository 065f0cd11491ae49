"""Messages in the form in which web clients send them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors import LlmAgent, tool
from actors.errors import InvalidMessageError
from actors.testing import PatternModel
from tests.support.runtimes import Deploy, run_turn, stored


@tool(require_confirmation=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def test_a_conversation_with_a_web_client(tmp_path: Path) -> None:
    model = PatternModel([("buy", {"call": "pay", "args": {"amount": 7}}), ("tool:", "Thanks.")], default="hello")
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=model, tools=[pay])) as rt:
        body = '{"role": "user", "parts": [{"text": "buy"}, {"inlineData": {"data": "aGk=", "mimeType": "text/plain"}}]}'
        events = run_turn(rt, json.loads(body))
        (call_id,) = events[-1].long_running_tool_ids
        (asked,) = [call for call in events[-1].function_calls() if call.id == call_id]
        response = {"id": call_id, "name": asked.name, "response": {"confirmed": True}}
        events = run_turn(rt, {"parts": [{"functionResponse": response}]})
        assert events[-1].text == "Thanks."
        content = stored(rt)[0].content
        assert content is not None
        assert content.to_dict() == json.loads(body)
        with pytest.raises(InvalidMessageError, match=r"message.parts\[0\] has no field 'txt'. Did you mean 'text'"):
            rt.run(user_id="ada", session_id="s1", message={"parts": [{"txt": "hi"}]})
