"""Commands of a conversation that show something: `/state`, `/events`, `/usage`, `/agents`, `/session` and `/help`."""

from __future__ import annotations

import msgspec

from actors.errors import RequestError
from actors.errors.hints import did_you_mean
from runtime.driver.runtime import Runtime
from runtime.driver.turns.finding import LOOKED_AT, newest_of_session
from runtime.frontends.console.apps.terminal import Terminal
from runtime.frontends.console.event_lines import budget_line, event_lines

HELP = {
    "/help": "this list",
    "/state": "the state of the session",
    "/events [N]": "the newest events, 20 of them or N",
    "/usage": "what the session has used, and what that costs",
    "/agents": "the tree of agents",
    "/session [ID]": "which session this is, or go on with another one",
    "/answer": "answer what the session waits for",
    "/new": "begin a new session",
    "/quit": "leave, as Ctrl-D does",
}
"""What can be asked for, with its meaning."""

EVENTS = 20
"""Events that `/events` shows."""


class Commands:
    """Shows what a command asks for."""

    def __init__(self, rt: Runtime, user: str, terminal: Terminal) -> None:
        self._rt = rt
        self._user = user
        self._terminal = terminal

    def do(self, name: str, argument: str, session: str) -> None:
        """Show what a command asks for. Raises RequestError when there is no such command."""
        if name == "/help":
            width = max(map(len, HELP))
            for command, meaning in HELP.items():
                self._terminal.write(f"{command:{width}}  {meaning}")
        elif name == "/agents":
            self._terminal.write(str(self._rt.tree()))
        elif name == "/usage":
            self._usage(session)
        elif name == "/session":
            self._terminal.write(session)
        elif name == "/state":
            self._state(session)
        elif name == "/events":
            self._events(session, argument)
        else:
            names = [command.partition(" ")[0] for command in HELP]
            raise RequestError(f"there is no command {name}.{did_you_mean(name, names) or ' /help lists them.'}")

    def _state(self, session: str) -> None:
        found = self._rt.sessions.get(self._user, session, num_recent_events=0)
        for key, value in sorted(found.state.items() if found is not None else ()):
            self._terminal.write(f"{key} = {msgspec.json.encode(value).decode()}")
        if found is None or not found.state:
            self._terminal.dim("the session has no state")

    def _usage(self, session: str) -> None:
        found = self._rt.usage(self._user, session)
        used = found.total
        counts = f"{used.llm_calls:,} model calls, {used.tool_calls:,} calls of tools, {used.seconds:.1f} s"
        tokens = f"{used.tokens:,} tokens ({used.input_tokens:,} in, {used.output_tokens:,} out)"
        money = f", {used.money:.6f} {found.currency}" if used.money is not None else ""
        self._terminal.write(f"{counts}, {tokens}{money}")
        newest = newest_of_session(self._rt.turns.list(self._user, session, limit=LOOKED_AT)) if used.llm_calls else None
        for budget in self._rt.turns.describe(self._user, session, newest.invocation_id).budgets if newest is not None else ():
            self._terminal.write(budget_line(budget))

    def _events(self, session: str, argument: str) -> None:
        if argument and not (argument.isdecimal() and int(argument) > 0):
            raise RequestError(f"/events {argument}: give a number of events, such as /events {EVENTS}")
        found = self._rt.sessions.get(self._user, session, num_recent_events=int(argument or EVENTS))
        for event in found.events if found is not None else ():
            for kind, text in event_lines(event):
                self._terminal.write(f"{event.seq:>4}  {event.author}  {kind}  {text}")
        if found is None:
            self._terminal.dim("the session has no events")
