"""The client that the MCP project's conformance suite drives: an agent that calls every tool of a server once.

The suite starts it with the server's URL, the scenario's name in `MCP_CONFORMANCE_SCENARIO`, and in `MCP_CONFORMANCE_CONTEXT`
the calls that a scenario wants. What the server asks is accepted with nothing filled in. A call that fails ends the client with
an error, which the suite reports.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from actors import Content, Event, FunctionCall, FunctionDeclaration, LlmAgent, LlmRequest, LlmResponse, McpTools, Part, Paused
from runtime.driver.runtime import Runtime

LISTS_ONLY = "json-schema-ref-no-deref"
"""The scenario whose server has a tool that cannot be called."""

EXAMPLES: dict[str, Any] = {"string": "text", "number": 2.5, "integer": 2, "boolean": True, "array": []}
"""Arguments, by the types of a schema."""


class CallsEverything:
    """A model that calls each tool once, with the arguments that are wanted or such as the schema asks for.

    Args:
        wanted: calls with arguments of their own, as `{"name": …, "arguments": {…}}`.
    """

    name = "calls-everything"

    def __init__(self, wanted: list[dict[str, Any]]) -> None:
        self._wanted: dict[str, dict[str, Any]] = {call["name"]: call["arguments"] for call in wanted}

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        is_called = any(True for content in request.contents for _ in content.function_responses())
        shown = {tool.name: tool for tool in request.tools}
        calls = [] if is_called else [FunctionCall(name=name, args=self._arguments(tool, shown)) for name, tool in shown.items()]
        parts = [Part(function_call=call) for call in calls] or [Part(text="done")]
        yield LlmResponse(content=Content(role="model", parts=parts))

    def _arguments(self, tool: FunctionDeclaration, shown: dict[str, FunctionDeclaration]) -> dict[str, Any]:
        if tool.name in self._wanted:
            return self._wanted[tool.name]
        if tool.name == "json_schema_echo":
            return {"schema": shown["json_schema_2020_12_tool"].parameters}
        parameters = tool.parameters or {}
        return {name: EXAMPLES.get(parameters["properties"][name].get("type"), {}) for name in parameters.get("required", [])}


def main(url: str) -> None:
    """Have the agent call the tools, and give every answer that the server wants."""
    wanted = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls", [])
    root = LlmAgent(name="root", model=CallsEverything(wanted), tools=[McpTools(name="suite", url=url, timeout_s=20)])
    with Runtime(root, app_name="conformance", session_store="sqlite://", engine="local") as rt:
        events: list[Event] = []
        result = rt.run(user_id="ada", session_id="s1", message="go").result()
        events += result.events
        while isinstance(result.outcome, Paused):
            answers: dict[str, Any] = {call.call_id: {"action": "accept"} for call in rt.pending(user_id="ada")}
            result = rt.answer(answers, user_id="ada", session_id="s1").result()
            events += result.events
    responses = [response for event in events for response in event.function_responses()]
    for response in responses:
        print(response.name, json.dumps(response.response))
    failed = [response.name for response in responses if "error" in response.response]
    if failed and os.environ["MCP_CONFORMANCE_SCENARIO"] != LISTS_ONLY:
        sys.exit(f"calls failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1])
