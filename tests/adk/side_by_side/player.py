"""A model for any program: it calls each tool that it is given once, transfers to a child, and answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types

TRANSFER = "transfer_to_agent"
SCHEMA_TOOL = "set_model_response"
"""By it a model with tools gives ADK the answer that fits a schema."""

LAST = (SCHEMA_TOOL, "exit_loop", "finish_task")
"""Tools that end something, called behind all others."""

MOST_TOOLS = 8
"""No more tools than these are called in a turn."""

DEEPEST = 5
"""Values are nested no deeper than this."""

_PLAN = re.compile(r"plan (\d)")


class Player(BaseLlm):  # type: ignore[misc]
    """Has no memory: what it says follows from what it is shown.

    The newest text with `plan N` says how it goes on: with an odd N it makes all its calls in one response, and it transfers to
    its N-th child. Behind that it says how many results it was shown.

    Attributes:
        agent: the name of its agent.
        children: the names of the agents to which this one may transfer, from the top down.
    """

    model: str = "gemini-2.5-flash"
    agent: str = ""
    children: Sequence[str] = ()

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or ()]
        plan = _plan(parts)
        made = {part.function_call.name for part in parts if part.function_call}
        declared: dict[str, Any] = {
            str(each.name): each for tool in llm_request.config.tools or () for each in _declarations(tool)
        }
        wanted = sorted(declared.keys() - made - {TRANSFER}, key=lambda name: (name in LAST, name))
        wanted = wanted[: max(MOST_TOOLS - len(made), 0)] if not set(LAST) & set(wanted) else wanted
        if wanted:
            ends = [name for name in wanted if name in LAST]
            now = [name for name in wanted if name not in LAST] or ends[:1]
            now = now if plan % 2 else now[:1]
            yield _said([types.Part(function_call=_call(declared[name], plan)) for name in now])
            return
        has_schema = llm_request.config.response_json_schema or llm_request.config.response_schema
        child = self._child(declared, plan) if not has_schema and SCHEMA_TOOL not in declared else ""
        if SCHEMA_TOOL in declared and not _is_answered(llm_request):
            yield _said([types.Part(function_call=_call(declared[SCHEMA_TOOL], plan))])
            return
        if child and TRANSFER not in made:
            yield _said([types.Part(function_call=types.FunctionCall(name=TRANSFER, args={"agent_name": child}))])
            return
        yield _said([types.Part(text=self._answer(llm_request, parts, plan))])

    def _child(self, declared: Mapping[str, Any], plan: int) -> str:
        if TRANSFER not in declared:
            return ""
        known = json.dumps(_schema(declared[TRANSFER]))
        allowed = [name for name in self.children if f'"{name}"' in known] if '"enum"' in known else list(self.children)
        return allowed[plan % len(allowed)] if allowed else ""

    def _answer(self, request: LlmRequest, parts: Sequence[types.Part], plan: int) -> str:
        wanted = request.config.response_json_schema or request.config.response_schema
        if wanted is not None:
            return json.dumps(value_for(_plain(wanted), plan))
        return f"{self.agent} saw {sum(part.function_response is not None for part in parts)} results of plan {plan}"


def _is_answered(request: LlmRequest) -> bool:
    """True behind the call that gives the answer."""
    last = request.contents[-1].parts or () if request.contents else ()
    return any(part.function_response and part.function_response.name == SCHEMA_TOOL for part in last)


def _plan(parts: Sequence[types.Part]) -> int:
    found = [int(match[1]) for part in parts if part.text for match in [_PLAN.search(part.text)] if match]
    return found[-1] if found else 0


def _said(parts: list[types.Part]) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=parts))


def _declarations(tool: Any) -> Iterator[types.FunctionDeclaration]:
    yield from getattr(tool, "function_declarations", None) or ()


def _schema(declaration: types.FunctionDeclaration) -> Any:
    if declaration.parameters_json_schema is not None:
        return _plain(declaration.parameters_json_schema)
    return _plain(declaration.parameters) if declaration.parameters is not None else {}


def _plain(schema: Any) -> Any:
    if isinstance(schema, types.Schema):
        return schema.model_dump(mode="json", exclude_none=True)
    if isinstance(schema, Mapping):
        return schema
    if hasattr(schema, "model_json_schema"):
        return schema.model_json_schema()
    from pydantic import TypeAdapter

    return TypeAdapter(schema).json_schema()


def _call(declaration: types.FunctionDeclaration, plan: int) -> types.FunctionCall:
    value = value_for(_schema(declaration), plan)
    return types.FunctionCall(name=declaration.name, args=value if isinstance(value, dict) else {})


def value_for(schema: Mapping[str, Any], plan: int, *, defs: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """A value that fits a JSON schema: what is not required is left out.

    Args:
        plan: stands in texts.
        defs: the definitions that it refers to.
        depth: how deep it is nested.
    """
    defs = defs or schema.get("$defs") or {}

    def inside(part: Mapping[str, Any]) -> Any:
        return value_for(part, plan, defs=defs, depth=depth + 1)

    if "$ref" in schema:
        return inside(defs[schema["$ref"].rpartition("/")[2]]) if depth < DEEPEST else None
    if "const" in schema or schema.get("enum"):
        return schema["const"] if "const" in schema else schema["enum"][0]
    for name in ("anyOf", "any_of", "oneOf", "allOf"):
        if schema.get(name):
            return inside(schema[name][0])
    kind = schema.get("type")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    match kind:
        case "object":
            known = schema.get("properties") or {}
            return {name: inside(known.get(name, {"type": "string"})) for name in schema.get("required") or ()}
        case "array":
            return [inside(schema.get("items") or {"type": "string"})] if depth < DEEPEST else []
        case "integer":
            return max(1, int(schema.get("minimum") or 1))
        case "number":
            return 1.5
        case "boolean":
            return True
        case "null":
            return None
    return f"plan {plan}"
