"""The turns that the options of a command mean."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.turn_info import TurnInfo
from runtime.driver.runtime import Runtime
from runtime.driver.turns.finding import TurnQuery
from runtime.frontends.console.options import given_age


def turn_query(
    user: str | None,
    session: str | None,
    agent: str | None,
    error: str | None,
    invocation: str | None,
    since: str | None,
    older_than: str | None,
    version: str | None,
    text: str | None,
) -> TurnQuery:
    """The query that options of these names mean. Raises typer.BadParameter when an age is wrong."""
    return TurnQuery(
        user_id=user,
        session_id=session,
        agent=agent,
        error=error,
        invocation=invocation,
        since=given_age(since),
        older_than=given_age(older_than),
        version=version,
        text=text,
    )


def turns_in(rt: Runtime, which: TurnQuery, states: Sequence[str | None], limit: int) -> list[TurnInfo]:
    """The turns in these states that fit, in their order; None is any state. Raises RequestError when a state is wrong."""
    given = msgspec.structs.asdict(which)
    return [turn for state in states for turn in rt.turns.list(limit=limit, **given | {"state": state})][:limit]
