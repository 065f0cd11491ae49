"""Records what an agent asks its model: the request as the model gets it, each try, and how the call ended.

Recording never makes a call fail: what cannot be recorded is left out, and the record says why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import msgspec

from actors.behaviours.failure_log import log_failure
from actors.definitions.tree.spec import AgentSpec
from actors.errors import NotEncodableError
from actors.errors.tracebacks import whole_traceback
from actors.errors.user_code import error_text, is_cancellation
from actors.interfaces.context import Context
from actors.interfaces.model import noting_attempts
from actors.messages.event import Usage, now_s
from actors.messages.llm.model import LlmRequest
from actors.messages.llm.recorded import CallAttempt, PackedCall, PackedPart
from actors.rules.recording.packing import RequestPacker

logger = logging.getLogger(__name__)


class CallUnderWay:
    """A model call, of which the caller says what its response cost: `usage`, None until then."""

    usage: Usage | None = None


class CallRecorder:
    """Records the model calls of one run, if its turn is recorded.

    Args:
        spec: the agent.
        context: the run.
    """

    def __init__(self, spec: AgentSpec, context: Context) -> None:
        self._agent = spec.name
        self._context = context
        self._given_mask = spec.recording.mask
        mask = self._mask if self._given_mask is not None else None
        self._packer = RequestPacker(spec.limits.max_event_bytes, mask) if spec.recording.covers(context.invocation_id) else None

    @property
    def is_on(self) -> bool:
        """True when the turn is recorded."""
        return self._packer is not None

    def call(self, request: LlmRequest, event_id: str) -> AbstractContextManager[CallUnderWay]:
        """Record the call that is made within the block. One that is cancelled is not recorded: nothing asks for its answer.

        Args:
            request: as it is about to go out.
            event_id: of the event that will have the response.
        """
        if self._packer is None:
            return nullcontext(CallUnderWay())
        return self._recorded(request, event_id, self._packer)

    @contextmanager
    def _recorded(self, request: LlmRequest, event_id: str, packer: RequestPacker) -> Iterator[CallUnderWay]:
        under_way = CallUnderWay()
        call = PackedCall(id=event_id, agent=self._agent, begun_s=now_s(), ended_s=0.0, streamed=self._context.streaming)
        call, parts = self._with_request(call, request, packer)
        error: BaseException | None = None
        with noting_attempts() as attempts:
            try:
                yield under_way
            except BaseException as raised:
                # A model is foreign code, which may raise anything; it goes on to whatever would get it anyway.
                error = raised
                raise
            finally:
                if error is None or not is_cancellation(error):
                    self._context.record_call(self._ended(call, attempts, under_way, error), parts)

    def _with_request(self, call: PackedCall, request: LlmRequest, packer: RequestPacker) -> tuple[PackedCall, list[PackedPart]]:
        try:
            packed, parts = packer.packed(request)
        except NotEncodableError as error:
            return msgspec.structs.replace(call, omitted=str(error)), []
        except BaseException as error:
            # The mask is a user's function, which may raise anything; nothing is awaited, so it is no cancellation.
            log_failure(logger, logging.ERROR, "mask_requests", self._context, error, whole_traceback(error))
            return msgspec.structs.replace(call, omitted=f"mask_requests raised {type(error).__name__}"), []
        return msgspec.structs.replace(call, request=packed), parts

    def _ended(
        self, call: PackedCall, attempts: list[CallAttempt], under_way: CallUnderWay, error: BaseException | None
    ) -> PackedCall:
        failed = f"{type(error).__name__}: {error_text(error)}" if error is not None else ""
        return msgspec.structs.replace(
            call,
            ended_s=now_s(),
            attempts=[msgspec.structs.replace(each, error=self._masked_error(each.error)) for each in attempts],
            usage=under_way.usage,
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
