"""Many turns at once: those that fit are cancelled, run on, or have their calls answered; or are only shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from actors.errors import RaygroveError
from actors.layers.listing.messages import PendingCall
from actors.messages.json_types import JsonValue
from actors.messages.turn_info import TurnInfo
from runtime.driver.operation import Id, Limit
from runtime.driver.turns.bulk import BulkReport
from runtime.driver.turns.finding import CallQuery, TurnQuery
from runtime.frontends.web.api.turn_forms import AgeS, TurnOptions, check_error_filter, run_config
from runtime.frontends.web.call import Call
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import Problem, problem_of, shown_turn

F = TypeVar("F", TurnQuery, CallQuery)

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Some(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    limit: Limit = 100
    dry_run: bool = False


class WantedTurns(_Some, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which turns are meant: those that fit all of this.

    Attributes:
        session_id: of that session of the user in the query.
        agent: that spoke last, was selected, or failed.
        error: a part of the error, for administrators.
        text: the user or an agent has said this in it.
        invocation: the beginning of the turn's id.
        since: began at most so many seconds ago, or waits in line.
        older_than: began more than so many seconds ago.
        limit: at most so many; `more` says when further ones fit.
        dry_run: only show them.
    """

    session_id: Id | None = None
    agent: _Text | None = None
    error: _Text | None = None
    text: _Text | None = None
    invocation: _Text | None = None
    since: AgeS | None = None
    older_than: AgeS | None = None


class OpenTurns(WantedTurns, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which turns that have not ended are meant: see WantedTurns.

    Attributes:
        state: waiting, running or paused.
    """

    state: Literal["waiting", "running", "paused"] | None = None


class AnswerAll(_Some, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Which calls that wait are meant, and the answer to each.

    Attributes:
        value: the answer: true or false for confirmations, else the result.
        session_id: of that session of the user in the query.
        tool: calls of this tool.
        agent: calls of this agent.
        invocation: the beginning of the turn's id.
        since, older_than: calls that were made at most, or more than so many seconds ago.
        limit: turns at most; `more` says when further ones fit.
        dry_run: only show them.
    """

    value: JsonValue
    session_id: Id | None = None
    tool: _Text | None = None
    agent: _Text | None = None
    invocation: _Text | None = None
    since: AgeS | None = None
    older_than: AgeS | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A turn with which it could not be done, and why."""

    user_id: str
    session_id: str
    invocation_id: str
    problem: Problem


class BulkResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was done, or would be.

    Attributes:
        turns: with which it was done, as they were before; with `dryRun` with which it would be.
        calls: the calls that were answered, or would be.
        refused: turns with which it could not be done. The rest is done.
        more: further turns fit: the same request goes on with them.
        dry_run: nothing was done.
    """

    turns: Sequence[TurnInfo] = ()
    calls: Sequence[PendingCall] = ()
    refused: Sequence[Refusal] = ()
    more: bool = False
    dry_run: bool = False


async def cancel_turns(call: Call) -> BulkResult:
    """Cancel all turns that have not ended and fit, and wait until their logs are sealed.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(OpenTurns)
    which = _turn_query(call, wanted)
    return _shown(call, await call.runtime.aio.turns.cancel_all(which, limit=wanted.limit, dry_run=wanted.dry_run))


async def retry_turns(call: Call) -> BulkResult:
    """Run all failed turns that fit on from their last stored steps.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(WantedTurns)
    which = _turn_query(call, wanted)
    return _shown(call, await call.runtime.aio.turns.retry_all(which, limit=wanted.limit, dry_run=wanted.dry_run))


async def answer_all(call: Call) -> BulkResult:
    """Give all calls that wait and fit the same answer; their turns go on.

    Of a user; with credentials for any user of the whole app.
    """
    wanted = await call.body(AnswerAll)
    which = _query(call, wanted, CallQuery)
    config = run_config(call, TurnOptions(), streams=False)
    given: dict[str, Any] = {"run_config": config, "limit": wanted.limit, "dry_run": wanted.dry_run}
    done = await call.runtime.aio.turns.answer_all(which, wanted.value, **given)
    refused = [_refusal(call, calls[0], error) for calls, error in done.refused]
    return BulkResult(calls=list(chain(*done.done)), refused=refused, more=done.more, dry_run=done.dry_run)


def _turn_query(call: Call, wanted: WantedTurns) -> TurnQuery:
    check_error_filter(call, wanted.error)
    return _query(call, wanted, TurnQuery)


def _query(call: Call, wanted: msgspec.Struct, kind: type[F]) -> F:
    """A query of the fields of a body, and of the user in the request's."""
    given = msgspec.structs.asdict(wanted)
    return kind(user_id=call.any_user_id, **{name: given[name] for name in kind.__struct_fields__ if name in given})


def _shown(call: Call, done: BulkReport[TurnInfo]) -> BulkResult:
    turns = [shown_turn(turn, for_operator=call.principal.is_admin) for turn in done.done]
    refused = [_refusal(call, turn, error) for turn, error in done.refused]
    return BulkResult(turns=turns, refused=refused, more=done.more, dry_run=done.dry_run)


def _refusal(call: Call, of: TurnInfo | PendingCall, error: RaygroveError) -> Refusal:
    problem = problem_of(error, for_operator=call.principal.is_admin)
    return Refusal(user_id=of.user_id, session_id=of.session_id, invocation_id=of.invocation_id, problem=problem)


_TURNS = "/v1/apps/{app}/turns"

OPERATIONS = [
    HttpOperation("POST", f"{_TURNS}/cancel", cancel_turns, body=OpenTurns, gives=BulkResult, users="any"),
    HttpOperation("POST", f"{_TURNS}/retry", retry_turns, body=WantedTurns, gives=BulkResult, users="any"),
    HttpOperation("POST", "/v1/apps/{app}/pending/answer", answer_all, body=AnswerAll, gives=BulkResult, users="any"),
]
"""What is done with many turns."""
