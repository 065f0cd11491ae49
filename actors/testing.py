"""Fakes for tests: models that answer from a script or by patterns, on every engine, and a clock whose sleeps take no time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeGuard

import msgspec

from actors.errors import DefinitionError, ScriptExhaustedError
from actors.errors.hints import explains_wrong_calls
from actors.messages.codec import decode, encode
from actors.messages.content import Content, FunctionCall, Part
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping, JsonValue
from actors.messages.llm import LlmRequest, LlmResponse
from actors.rules.prompt.compiler import FOREIGN_MARK
from actors.rules.routing.transfer import TRANSFER_TOOL


class ManualClock:
    """Implements `actors.interfaces.clock.Clock` with a time that only `advance` and `sleep` move.

    Args:
        now_s: the time at the beginning, in seconds since the epoch.

    Attributes:
        slept: the seconds of every `sleep` so far, in order.
    """

    @explains_wrong_calls
    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self.slept: list[float] = []

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self._now_s += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the time forward by so many seconds, and return at once."""
        self.slept.append(seconds)
        self.advance(max(0.0, seconds))


Reply = str | JsonMapping | Content | LlmResponse | BaseException | type[BaseException] | None
"""One reply of a fake model, in one of the forms that `ScriptedModel` lists."""


class _State(msgspec.Struct):
    taken: int
    requests: list[LlmRequest]


class ScriptedModel:
    """A model that gives the replies of a list, one per call, to all agents that share the object, on every engine.

    A reply is one of:
        a text; a Content; an LlmResponse;
        `{"call": name, "args": {…}}`: a function call, with an `"id"` if you like;
        `{"transfer": agent}`: a call of transfer_to_agent;
        `{"thought": text}`: a thought;
        `{"parts": [reply, …]}`: one response of several of the above;
        `{"stream": [text, …]}`: one text, in these parts when it is streamed;
        None: the model returns nothing;
        an exception, or a class of exceptions: the model raises it.

    A call after the last reply raises ScriptExhaustedError.

    Args:
        replies: the replies, in order.

    Attributes:
        requests: the requests so far, in order.
        remaining: the number of replies that are left.

    Raises:
        DefinitionError: a reply has none of these forms.
    """

    @explains_wrong_calls
    def __init__(self, replies: Sequence[Reply]) -> None:
        self.replies = _checked(replies)
        self._taken = 0
        self._requests: list[LlmRequest] = []
        self._refresh: Callable[[], None] | None = None
        self._replace: Callable[[], None] | None = None

    @property
    def requests(self) -> Sequence[LlmRequest]:
        """The requests so far, in order."""
        self._update()
        return self._requests

    @property
    def remaining(self) -> int:
        """The number of replies that are left."""
        self._update()
        return len(self.replies) - self._taken

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the next reply. Raises ScriptExhaustedError when none is left, and a reply that is an exception."""
        self._requests.append(request)
        if self._taken == len(self.replies):
            raise ScriptExhaustedError(len(self.replies), request.agent)
        reply = self.replies[self._taken]
        self._taken += 1
        for response in responses(reply, stream=stream):
            yield response

    def restart(self, replies: Sequence[Reply]) -> None:
        """Begin anew with these replies, and forget the requests so far. A deployment that runs gives these replies from now on.

        Not while a call is under way.

        Raises:
            DefinitionError: a reply has none of the forms above; nothing is changed then.
        """
        self.replies, self._taken, self._requests = _checked(replies), 0, []
        if self._replace is not None:
            self._replace()

    def state(self) -> bytes:
        """The state of the live copy: see `runtime.cluster.deployment.shared_models.SharedModel`."""
        return encode(_State(self._taken, self._requests))

    def adopt(self, state: bytes) -> None:
        """Take over the state of the live copy."""
        copy = decode(state, _State)
        self._taken, self._requests = copy.taken, copy.requests

    def follow(self, refresh: Callable[[], None] | None) -> None:
        """Set a function that adopts the state of the live copy; it is called whenever `requests` or `remaining` is read."""
        self._refresh = refresh

    def replace_by(self, replace: Callable[[], None] | None) -> None:
        """Set a function that puts a copy of this object in place of the live copy; `restart` calls it."""
        self._replace = replace

    def _update(self) -> None:
        if self._refresh is not None:
            self._refresh()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_refresh": None, "_replace": None}


class PatternModel:
    """A model that gives the reply of the first pattern found in the user's newest text. It has no state.

    When a tool has just answered, only patterns that begin with `tool:` count. They are searched in `tool:<name>` followed by the
    tool's response as JSON. When none is found, the reply is that response.

    Args:
        patterns: regular expressions, matched without regard to case, each with a reply as for `ScriptedModel`.
        default: the reply when no pattern is found in the user's text.

    Raises:
        DefinitionError: a reply has none of the forms that `ScriptedModel` lists.
    """

    @explains_wrong_calls
    def __init__(self, patterns: Sequence[tuple[str, Reply]], default: Reply = "I do not know.") -> None:
        self._patterns = [(re.compile(pattern, re.IGNORECASE), reply) for pattern, reply in patterns]
        self._default = default
        _checked([reply for _, reply in patterns])

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        """Give the reply to the newest text. Raises a reply that is an exception."""
        for response in responses(self._reply(request.contents), stream=stream):
            yield response

    def _reply(self, contents: Sequence[Content]) -> Reply:
        answered = next(contents[-1].function_responses(), None) if contents else None
        if answered is None:
            return self._found(_newest_text(contents), of_tools=False, default=self._default)
        response = msgspec.json.encode(answered.response).decode()
        return self._found(f"{_TOOL}{answered.name} {response}", of_tools=True, default=response)

    def _found(self, text: str, *, of_tools: bool, default: Reply) -> Reply:
        for pattern, reply in self._patterns:
            if pattern.pattern.startswith(_TOOL) == of_tools and pattern.search(text):
                return reply
        return default


_TOOL = "tool:"


def _newest_text(contents: Sequence[Content]) -> str:
    """The user's newest text. Quotes of other agents have the user's role too, but begin with a mark."""
    for content in reversed(contents):
        if content.role == USER and content.parts[0].text != FOREIGN_MARK and (text := content.text):
            return text
    return ""


def responses(reply: Reply, *, stream: bool) -> list[LlmResponse]:
    """The responses in which a model gives a reply. Raises the reply when it is an exception or a class of exceptions."""
    if _is_error(reply):
        raise reply
    if isinstance(reply, LlmResponse):
        return [reply]
    if reply is None:
        return [LlmResponse()]
    parts, chunks = reply_parts(reply)
    whole = LlmResponse(content=Content(role="model", parts=parts))
    if not stream:
        return [whole]
    whole = LlmResponse(content=Content(role="model", parts=_joined(parts)))
    return [*(LlmResponse(content=Content.of_text(chunk, role="model"), partial=True) for chunk in chunks), whole]


def _checked(replies: Sequence[Reply]) -> list[Reply]:
    """The replies as a list. Raises DefinitionError when one has none of the forms that `ScriptedModel` lists."""
    for reply in replies:
        if not _is_error(reply):
            reply_parts(reply)
    return list(replies)


def _is_error(reply: Reply) -> TypeGuard[BaseException | type[BaseException]]:
    return isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException))


def _joined(parts: Sequence[Part]) -> list[Part]:
    """The parts, with neighbouring texts joined, as in the complete response of a stream."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and last.text and part.text and part == Part(text=part.text) and last == Part(text=last.text):
            joined[-1] = Part(text=last.text + part.text)
        else:
            joined.append(part)
    return joined


def reply_parts(reply: Reply) -> tuple[list[Part], list[str]]:
    """The parts of a reply, and the texts in which its text is streamed.

    Raises:
        DefinitionError: the reply has none of the forms that `ScriptedModel` lists.
    """
    match reply:
        case None | LlmResponse():
            return [], []
        case str():
            return [Part(text=reply)], [reply]
        case Content():
            return list(reply.parts), [part.text for part in reply.parts if part.text and not part.thought]
        case {"call": str(name)}:
            return [Part(function_call=_call(name, reply))], []
        case {"transfer": str(agent)}:
            return [Part(function_call=FunctionCall(name=TRANSFER_TOOL, args={"agent_name": agent}))], []
        case {"thought": str(text)}:
            return [Part(text=text, thought=True)], []
        case {"stream": [*texts]}:
            return [Part(text="".join(texts))], list(texts)
        case {"parts": [*replies]}:
            each = [reply_parts(part) for part in replies]
            return [part for parts, _ in each for part in parts], [chunk for _, chunks in each for chunk in chunks]
        case _:
            pass
    raise DefinitionError(
        f"{reply!r} is no reply of a model: use a text, a Content, None, an exception, or a dictionary with one of "
        "the keys call, transfer, thought, stream, parts"
    )


def _call(name: str, reply: JsonValue) -> FunctionCall:
    return FunctionCall(id=reply.get("id"), name=name, args=dict(reply.get("args") or {}))


__all__ = ["ManualClock", "PatternModel", "ScriptedModel"]
