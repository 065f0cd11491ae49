"""What has come of the tool calls of one model response, and the events that say so (semantics.md 5.6).

Results that are too large for a model are kept whole as artifacts, and it is shown their beginning and end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain

import msgspec

from actors.definitions.tools.context import DECISIONS, Actions
from actors.errors import RequestError, StoreError, TooLargeError
from actors.interfaces.access import ArtifactAccess
from actors.messages.codec import encode
from actors.messages.content import Blob, Content, FunctionCall, FunctionResponse, Part
from actors.messages.event import MORE_RESULTS, NO_ACTIONS, USER, Event
from actors.messages.json_types import JsonObject, JsonValue
from actors.messages.limits import Limits
from actors.messages.protocol.outcomes import Paused
from actors.rules.checks import sizes
from actors.rules.checks.sizes import beginning_and_end

_SHOWN = 16
"""One in so many bytes of the limit is shown of a larger result."""

_LEAST_SHOWN = 1_000


class ToolResult(msgspec.Struct):
    """What came of one call.

    Attributes:
        actions: what the tool has done besides.
        response: None if there is none yet.
        size: bytes of the response, and of the state that it changes.
        duration_s: how long the tool took; 0 for one that was not run, and for an agent, whose own events say so.
        waits: for what an agent waits that works for the call; None for any other call.
        shown: the response as a text for users, if it is the agent's answer.
    """

    call: FunctionCall
    actions: Actions
    response: JsonObject | None
    size: int = 0
    shown: str = ""
    duration_s: float = 0.0
    waits: Paused | None = None


class LargeResults:
    """Shortens results.

    Args:
        limit: bytes that a result may have; 0: any number.
    """

    def __init__(self, artifacts: ArtifactAccess, limit: int) -> None:
        self._artifacts = artifacts
        self._limit = limit

    def is_large(self, size: int) -> bool:
        """True for the size of a result that is to be shortened."""
        return 0 < self._limit < size

    async def shorten(self, call: FunctionCall, response: JsonObject, actions: Actions) -> tuple[JsonObject, int]:
        """Save a response as an artifact, and return a short one with its name; and the bytes of that.

        Where it cannot be saved, the short response says why.

        Args:
            actions: get the version of the artifact.
        """
        key, told, text = _parts(response)
        data = text.encode()
        kind, ending = ("text/plain", "txt") if isinstance(told, str) else ("application/json", "json")
        name = f"{call.name}_{call.id}.{ending}"
        short: JsonObject = {}
        try:
            version = await self._artifacts.save(name, Part(inline_data=Blob(data=data, mime_type=kind)))
        except (StoreError, RequestError, OSError) as error:
            whole = f"it could not be saved as an artifact ({error})"
        else:
            actions.artifact_delta[name] = version
            short["artifact"] = name
            whole = f"the artifact {name!r} has the whole"
        short["shortened"] = (
            f"This {key} of {len(data)} bytes is too large to be shown: {whole}. Here are its beginning and its end."
        )
        short[key] = beginning_and_end(text, max(self._limit // _SHOWN, _LEAST_SHOWN))
        return short, len(encode(short))


class StepResults:
    """Stores the results of the calls of one response: some while others still run, and the rest with the last event.

    What the calls write into the state is stored with their results. What ends the run or hands it over takes effect with the
    last event, when no call runs any more.

    Args:
        store: stores an event; it is also given whether that is the last.
        limits: how large an event may be.
        large: shortens results that are too large to be stored together.
        held: what calls of the response have decided whose results were stored before the run was lost: see `held_decisions`.
    """

    def __init__(
        self, store: Callable[[Event, bool], Awaitable[Event]], limits: Limits, large: LargeResults, held: JsonObject
    ) -> None:
        self._store = store
        self._limits = limits
        self._large = large
        self._held = dict(held)
        # By key, the number of the newest write of the state that is stored.
        self._written: dict[str, int] = {}

    async def keep(self, results: Sequence[ToolResult]) -> None:
        """Store results of calls that have ended, while others run. Raises like `end`."""
        await self._store_all(results, is_last=False)

    async def end(self, results: Sequence[ToolResult]) -> tuple[Sequence[ToolResult], Event | None]:
        """Store the last results.

        Those that are too large to be stored together are shortened; they are errors where what they have set is too large.

        Returns:
            The results as they are stored, and the event; None if it would say nothing.

        Raises:
            TooLargeError: the event is too large without changes of state, too.
        """
        return await self._store_all(results, is_last=True)

    async def _store_all(self, given: Sequence[ToolResult], *, is_last: bool) -> tuple[Sequence[ToolResult], Event | None]:
        results = await self._fitting(given)
        event = self._event(results, is_last=is_last)
        if event is None:
            return results, None
        try:
            event = await self._store(event, is_last)
        except TooLargeError as error:
            # Only the Session actor knows how large a state is with all that others have written into it.
            if not any(result.actions.state_delta for result in results):
                raise
            results = [_without_state(result, error) for result in results]
            if (event := self._event(results, is_last=is_last)) is None:
                raise
            event = await self._store(event, is_last)
        for result in results:
            self._written.update({key: max(write, self._written.get(key, 0)) for key, write in result.actions.writes.items()})
            if not is_last:
                self._held.update(result.actions.take_decisions())
        return results, event

    async def _fitting(self, given: Sequence[ToolResult]) -> list[ToolResult]:
        results = list(given)
        for place in sizes.results_to_drop([result.size for result in results], self._limits):
            result = results[place]
            if result.response is not None:
                response, size = await self._large.shorten(result.call, result.response, result.actions)
                results[place] = msgspec.structs.replace(result, response=response, size=size)
        return results

    def _event(self, results: Sequence[ToolResult], *, is_last: bool) -> Event | None:
        """The event with the responses, in the order of the calls; None if it would say nothing."""
        parts = [
            Part(function_response=FunctionResponse(id=result.call.id, name=result.call.name, response=result.response))
            for result in results
            if result.response is not None
        ]
        parts += [Part(text=result.shown) for result in results if result.shown]
        actions = Actions()
        for result in results:
            actions.merge(result.actions)
        actions.leave_out_older(self._written)
        metadata: JsonObject | None = None
        if not is_last:
            metadata = {MORE_RESULTS: actions.take_decisions()}
        for name, value in self._held.items() if is_last else ():
            setattr(actions, name, getattr(actions, name) or value)
        if not parts and actions.freeze() == NO_ACTIONS:
            return None
        return Event(
            content=Content(role=USER, parts=parts) if parts else None,
            actions=actions.freeze(),
            # They ran at the same time.
            duration_s=max((result.duration_s for result in results), default=0.0) or None,
            custom_metadata=metadata,
        )


def has_more(event: Event) -> bool:
    """True for an event with results that was stored while other calls of the response ran."""
    return MORE_RESULTS in (event.custom_metadata or {})


def held_decisions(done: Sequence[Event]) -> JsonObject:
    """The decisions of the calls whose results are the newest events of a run, if there are more results to come."""
    held: JsonObject = {}
    for event in reversed(done):
        if not has_more(event):
            break
        decided = (event.custom_metadata or {})[MORE_RESULTS]
        held = {**{name: value for name, value in decided.items() if name in DECISIONS}, **held}
    return held


def _without_state(result: ToolResult, error: TooLargeError) -> ToolResult:
    if not result.actions.state_delta:
        return result
    return ToolResult(result.call, Actions(), {"error": f"what {result.call.name} has set cannot be stored: {error}"})


def pause_of(results: Sequence[ToolResult]) -> Paused | None:
    """For what the user's answer is needed before all calls have a response; None when all have."""
    pending = [result for result in results if result.response is None]
    if not pending:
        return None
    ids = [result.waits.call_ids if result.waits is not None else (result.call.id or "",) for result in pending]
    return Paused(call_ids=tuple(chain.from_iterable(ids)))


def shortened(response: JsonObject, room: int) -> JsonObject:
    """A response without its middle, if it has more characters than there is room for."""
    key, _, text = _parts(response)
    return response if len(text) <= room else {key: beginning_and_end(text, room)}


def _parts(response: JsonObject) -> tuple[str, JsonValue, str]:
    """The key of a response under which its value stands, or is to stand; the value; and it as a text."""
    key = "error" if response.keys() == {"error"} else "result"
    told = response[key] if response.keys() == {key} else response
    return key, told, told if isinstance(told, str) else msgspec.json.encode(told).decode()
