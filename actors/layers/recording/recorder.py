"""Records what an agent asks its model: the request as the model gets it, each try, and how the call ended.

Recording never makes a call fail: what cannot be recorded is left out, and the record says why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import msgspec

from actors.behaviours.interceptor import CallModel, RunInterceptor, RunParts
from actors.behaviours.lifecycle import log_failure
from actors.definitions.spec import AgentSpec
from actors.errors import NotEncodableError, StoreError
from actors.errors.tracebacks import whole_traceback
from actors.errors.user_code import error_text, is_cancellation
from actors.interfaces.model import noting_attempts
from actors.layers.recording.messages import NO_RECORDING, Recording
from actors.layers.recording.rules import RequestPacker
from actors.messages.event import Usage, now_s
from actors.messages.llm import LlmRequest, LlmResponse
from actors.messages.protocol.log import Append, Appended, CallAttempt, PackedCall, PackedPart
from actors.messages.topology import LLM

logger = logging.getLogger(__name__)


def _recording(spec: AgentSpec) -> Recording:
    return spec.setting(Recording) or NO_RECORDING


class CallRecorder(RunInterceptor):
    """Records the model calls of one run whose turn is recorded. Records are stored with the next events."""

    def __init__(self, run: RunParts) -> None:
        super().__init__(run)
        self._context = run.context
        self._given_mask = _recording(run.spec).mask
        mask = self._mask if self._given_mask is not None else None
        self._packer = RequestPacker(run.spec.limits.max_event_bytes, mask)
        self._calls: Sequence[PackedCall] = ()
        self._parts: Sequence[PackedPart] = ()

    @classmethod
    def concerns(cls, spec: AgentSpec) -> bool:
        """For an app that records calls."""
        return spec.kind == LLM and bool(_recording(spec).share)

    @classmethod
    def of(cls, run: RunParts) -> Self | None:
        """For a turn that is recorded."""
        return cls(run) if _recording(run.spec).covers(run.context.invocation_id) else None

    async def call_model(self, call: CallModel) -> LlmResponse:
        """Record the call. One that is cancelled is not recorded: nothing asks for its answer."""
        record = PackedCall(id=call.event_id, agent=self.run.spec.name, begun_s=now_s(), ended_s=0.0, streamed=call.streams)
        record, parts = self._with_request(record, call.request)
        usage: Usage | None = None
        error: BaseException | None = None
        with noting_attempts() as attempts:
            try:
                response = await self.next.call_model(call)
                usage = response.usage
                return response
            except BaseException as raised:
                # A model is foreign code, which may raise anything; it goes on to whatever would get it anyway.
                error = raised
                raise
            finally:
                if error is None or not is_cancellation(error):
                    self._calls = (*self._calls, self._ended(record, attempts, usage, error))
                    self._parts = (*self._parts, *parts)

    async def append(self, append: Append) -> Appended:
        """Store the records with the events."""
        calls, parts = self._calls, self._parts
        if not calls:
            return await self.next.append(append)
        self._calls, self._parts = (), ()
        try:
            return await self.next.append(msgspec.structs.replace(append, calls=calls, parts=parts))
        except BaseException:
            # Later records count on these parts.
            self._calls, self._parts = (*calls, *self._calls), (*parts, *self._parts)
            raise

    async def end_run(self) -> None:
        """Store the records of calls after which the run has stored no event. Raises FencedError."""
        if self._calls:
            # No turn fails for want of a record.
            with suppress(StoreError):
                await self.append(Append(turn=self.run.message.turn, events=[]))
        await self.next.end_run()

    def _with_request(self, call: PackedCall, request: LlmRequest) -> tuple[PackedCall, list[PackedPart]]:
        try:
            packed, parts = self._packer.packed(request)
        except NotEncodableError as error:
            return msgspec.structs.replace(call, omitted=str(error)), []
        except BaseException as error:
            # The mask is a user's function, which may raise anything; nothing is awaited, so it is no cancellation.
            log_failure(logger, logging.ERROR, "mask_requests", self._context, error, whole_traceback(error))
            return msgspec.structs.replace(call, omitted=f"mask_requests raised {type(error).__name__}"), []
        return msgspec.structs.replace(call, request=packed), parts

    def _ended(
        self, call: PackedCall, attempts: list[CallAttempt], usage: Usage | None, error: BaseException | None
    ) -> PackedCall:
        failed = f"{type(error).__name__}: {error_text(error)}" if error is not None else ""
        return msgspec.structs.replace(
            call,
            ended_s=now_s(),
            attempts=[msgspec.structs.replace(each, error=self._masked_error(each.error)) for each in attempts],
            usage=usage,
            error=self._masked_error(failed),
        )

    def _mask(self, text: str) -> str:
        assert self._given_mask is not None
        masked = self._given_mask(text)
        if not isinstance(masked, str):
            raise TypeError(f"mask_requests must return a text, not {type(masked).__name__}")
        return masked

    def _masked_error(self, text: str) -> str:
        """The text of an error, which services fill with what they were asked; without a mask that works, its class."""
        if not text or self._given_mask is None:
            return text
        kind, _, rest = text.partition(": ")
        try:
            return f"{kind}: {self._mask(rest)}"
        except BaseException:
            # It is logged when the request is masked.
            return kind
