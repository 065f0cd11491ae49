"""Callbacks and plugins of the conversations in tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors import CallbackContext, Content, Event, LlmRequest, LlmResponse, Part, Plugin, ReadonlyContext, Tool, ToolContext


async def greet(context: CallbackContext) -> str:
    context.state["greeted"] = context.agent_name
    return "before you ask"


def note_run(context: CallbackContext) -> None:
    context.state["runs"] = context.state.get("runs", 0) + 1


def sign(context: CallbackContext) -> Content:
    return Content.of_text(f"signed, {context.agent_name}", role="model")


def shout(context: CallbackContext, response: LlmResponse) -> LlmResponse | None:
    context.state["heard"] = response.content.text if response.content else None
    return LlmResponse(content=Content.of_text(response.content.text.upper(), role="model")) if response.content else None


def add_rule(context: CallbackContext, request: LlmRequest) -> None:
    request.system_instruction += "\n\nBe brief."


def apologize(context: CallbackContext, request: LlmRequest, error: Exception) -> str:
    return f"sorry: {error}"


def from_cache(called: Tool, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
    return {"status": "cached"} if args.get("order") == "1" else None


def hide_status(called: Tool, args: dict[str, Any], context: ToolContext, result: Any) -> dict[str, Any] | None:
    return {"status": "hidden"} if args.get("order") == "2" else None


def excuse(called: Tool, args: dict[str, Any], context: ToolContext, error: Exception) -> dict[str, Any]:
    return {"excuse": f"{called.name}: {error}"}


def refuse(*_: Any) -> None:
    raise PermissionError("not today")


async def instruction_from_state(context: ReadonlyContext) -> str:
    return f"{context.agent_name} serves {context.user_id}: {{seen?}} {context.state.get('mood', '')}"


class HookRecorder(Plugin):
    """Records each hook call with its agent in state, under `seen_by_<name>`; changes nothing."""

    def _note(self, hook: str, context: CallbackContext) -> None:
        key = f"seen_by_{self.name}"
        context.state[key] = [*context.state.get(key, []), f"{hook} {context.agent_name}"]

    async def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self._note("message", context)

    def before_run_callback(self, context: CallbackContext) -> None:
        self._note("begin", context)

    def after_run_callback(self, context: CallbackContext) -> None:
        self._note("end", context)

    def before_agent_callback(self, context: CallbackContext) -> None:
        self._note("before_agent", context)

    def after_agent_callback(self, context: CallbackContext) -> None:
        self._note("after_agent", context)

    def before_model_callback(self, context: CallbackContext, request: LlmRequest) -> None:
        self._note("before_model", context)

    def after_model_callback(self, context: CallbackContext, response: LlmResponse) -> None:
        self._note("after_model", context)

    def before_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> None:
        self._note("before_tool", context)

    def after_tool_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, result: Any) -> None:
        self._note("after_tool", context)


class ErrorAnswerer(Plugin):
    """Answers every error with a text."""

    def on_model_error_callback(self, context: CallbackContext, request: LlmRequest, error: Exception) -> str:
        return f"mended: {error}"

    def on_tool_error_callback(self, tool: Tool, args: dict[str, Any], context: ToolContext, error: Exception) -> Any:
        return {"mended": str(error)}


class SecretFilter(Plugin):
    """Masks `secret` in messages and events, and refuses turns whose message contains `forbidden`."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content | None:
        context.state["heard"] = context.state.get("heard", 0) + 1
        context.state["temp:raw"] = content.text
        return Content.of_text(content.text.replace("secret", "******")) if "secret" in content.text else None

    async def before_run_callback(self, context: CallbackContext) -> str | None:
        if "forbidden" not in context.user_content.text:
            return None
        context.state["refused"] = context.state["temp:raw"]
        return f"{context.agent_name} may not talk about that"

    def on_event_callback(self, context: CallbackContext, event: Event) -> Event | None:
        if "secret" not in event.text:
            return None
        if not event.partial:
            context.state["censored"] = context.state.get("censored", 0) + 1
        said = event.text.replace("secret", "******")
        return Event(author="nobody", id="x", content=Content.of_text(said, role="model"), actions=event.actions)


class AgentReplacer(Plugin):
    """Answers for every agent, which then does not run."""

    def before_agent_callback(self, context: CallbackContext) -> str:
        return "nobody is in"


class FailingHooks(Plugin):
    """Fails in the hook that its name says."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> None:
        self._break("on_user_message")

    def before_run_callback(self, context: CallbackContext) -> None:
        self._break("before_run")

    def after_run_callback(self, context: CallbackContext) -> None:
        self._break("after_run")

    def on_event_callback(self, context: CallbackContext, event: Event) -> None:
        self._break("on_event")

    def _break(self, hook: str) -> None:
        if self.name == hook:
            raise PermissionError("not today")


class FailureTeller(Plugin):
    """Writes into a file what it is told of failures, and fails itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def _note(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{line}\n")
        raise RuntimeError("the plugin fails as well")

    def on_agent_error_callback(self, context: CallbackContext, error: Exception) -> None:
        self._note(f"agent {context.agent_name} {error!r}")

    async def on_run_error_callback(self, invocation_context: CallbackContext, error: Exception) -> None:
        self._note(f"turn {invocation_context.user_content.text} {error}")


async def recall_first(context: CallbackContext, request: LlmRequest) -> None:
    """Keeps in state what memory has about the user's message."""
    if found := await context.search_memory(context.user_content.text):
        context.state["recalled"] = [entry.text for entry in found]


async def archive_at_first(context: CallbackContext) -> None:
    """Saves the user's message as an artifact, and says nothing."""
    await context.save_artifact("first", Part(text=context.user_content.text))


async def annotate(context: CallbackContext, request: LlmRequest) -> None:
    """Saves the number of contents in the request as an artifact."""
    await context.save_artifact("note", Part(text=str(len(request.contents))))
