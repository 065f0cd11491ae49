"""The turns, or the calls that wait, which the options of a command mean."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from actors.messages.turn_info import PendingCall, TurnInfo
from runtime.driver.runtime import Runtime
from runtime.frontends.console.options import parsed_age

ALL = 1_000_000
"""How many turns a command acts on at most."""


@dataclass(frozen=True)
class Choice:
    """What was asked for. Ages are as the command line has them.

    Attributes:
        user, session: whose; None: of all.
        agent, error, invocation, since, older_than, version, text: see the options of these names.
    """

    user: str | None = None
    session: str | None = None
    agent: str | None = None
    error: str | None = None
    invocation: str | None = None
    since: str | None = None
    older_than: str | None = None
    version: str | None = None
    text: str | None = None

    def turns(self, rt: Runtime, states: Sequence[str | None], limit: int = ALL) -> list[TurnInfo]:
        """The turns in these states, in their order; None is any state.

        Raises:
            typer.BadParameter: an age is wrong.
            RequestError: a state is.
        """
        since_s, older_than_s = self._ages()
        return [
            turn
            for state in states
            for turn in rt.turns.list(
                self.user,
                self.session,
                state,
                limit,
                agent=self.agent,
                error=self.error,
                invocation=self.invocation,
                version=self.version,
                since=since_s,
                older_than=older_than_s,
                text=self.text,
            )
        ][:limit]

    def calls(self, rt: Runtime, tool: str | None) -> list[PendingCall]:
        """The calls that wait for an answer. Their ages count from the question on. Raises typer.BadParameter."""
        since_s, older_than_s = self._ages()
        now_s = time.time()
        return [
            call
            for call in rt.turns.pending(self.user, self.session, ALL)
            if self.agent in (None, call.agent)
            and tool in (None, call.name)
            and call.invocation_id.startswith(self.invocation or "")
            and (since_s is None or now_s - call.asked_s <= since_s)
            and (older_than_s is None or now_s - call.asked_s > older_than_s)
        ]

    def _ages(self) -> tuple[float | None, float | None]:
        since, older_than = (parsed_age(age) if age is not None else None for age in (self.since, self.older_than))
        return since, older_than
