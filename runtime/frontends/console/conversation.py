"""A conversation on a terminal: lines of a person, and what agents answer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.errors import RaygroveError, RequestError
from actors.errors.hints import did_you_mean
from actors.layers.listing.messages import PendingCall
from actors.messages.config import RunConfig
from actors.messages.event import USER
from actors.messages.protocol.runs import Paused
from runtime.driver.runtime import Runtime
from runtime.driver.turns.finding import LOOKED_AT, newest_of_session
from runtime.driver.turns.turn import Turn, output_event
from runtime.frontends.console.lines import activity_lines, budget_line, event_lines, question
from runtime.frontends.console.options import json_or_text
from runtime.frontends.console.showing import AnswerText
from runtime.frontends.console.terminal import Keys, Terminal, read_line

PROMPT = "> "
RECENT_EVENTS = 10
"""Of an earlier conversation that are shown."""

_YES, _NO = ("y", "yes"), ("n", "no")


def new_session() -> str:
    """The id of a new conversation."""
    return f"chat-{uuid.uuid4().hex[:12]}"


class Conversation:
    """Reads lines, and runs a turn for each.

    Args:
        state: comes with the first message of each new conversation.
    """

    def __init__(self, rt: Runtime, *, user: str, session: str, state: Mapping[str, Any], config: RunConfig) -> None:
        self._rt = rt
        self._user = user
        self._session = session
        self._state = state
        self._config = config
        self._terminal = Terminal()
        self._commands = Commands(rt, user, self._terminal)
        self._speaker = ""
        self._seen = 0

    def talk(self) -> None:
        """Talk until the person leaves, with Ctrl-D or /quit."""
        self._show_session()
        while True:
            try:
                line = read_line(PROMPT).strip()
            except EOFError:
                self._terminal.write("")
                return
            except KeyboardInterrupt:
                self._terminal.write("")
                self._terminal.dim("Ctrl-D leaves")
                continue
            if line in ("/quit", "/exit"):
                return
            try:
                self._show_news()
                self._take(line)
            except EOFError:
                self._terminal.write("")
                self._terminal.dim(f"the turn waits: go on with --session {self._session}")
                return

    def _take(self, line: str) -> None:
        """Do what a line asks for. An error ends the turn, not the conversation. Raises EOFError for Ctrl-D at a question."""
        try:
            if line.startswith("/"):
                self._command(line)
            elif line:
                is_new = self._rt.sessions.get(self._user, self._session, num_recent_events=0) is None
                self._run(
                    self._rt.run(
                        user_id=self._user,
                        session_id=self._session,
                        message=line,
                        run_config=self._config,
                        state_delta=dict(self._state) if is_new and self._state else None,
                    )
                )
        except KeyboardInterrupt:
            self._terminal.dim("cancelled")
        except RaygroveError as error:
            if error.remote_traceback:
                self._terminal.dim(error.remote_traceback)
            self._terminal.red(f"error: {error}")

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name == "/answer":
            self._answer_pending()
        elif name == "/new" or (name == "/session" and argument.strip()):
            self._session = new_session() if name == "/new" else argument.strip()
            self._show_session()
        else:
            self._commands.do(name, argument.strip(), self._session)

    def _answer_pending(self) -> None:
        """Answer what the conversation has been waiting for, the newest turn first."""
        known = self._rt.sessions.get(self._user, self._session, num_recent_events=0) is not None
        pending = self._rt.pending(user_id=self._user, session_id=self._session) if known else []
        if not pending:
            self._terminal.dim("nothing waits for an answer")
            return
        answers = self._ask([call for call in pending if call.invocation_id == pending[0].invocation_id])
        self._run(self._rt.answer(answers, user_id=self._user, session_id=self._session, run_config=self._config))

    def _show_session(self) -> None:
        """Show which conversation goes on, its newest lines, and ask what it waits for."""
        self._speaker = ""
        self._terminal.dim(f"session {self._session}, /help lists the commands")
        try:
            session = self._rt.sessions.get(self._user, self._session, num_recent_events=RECENT_EVENTS)
            pending = self._rt.pending(user_id=self._user, session_id=self._session) if session is not None else []
        except RaygroveError as error:
            self._terminal.red(f"error: {error}")
            return
        self._seen = 0
        for event in session.events if session is not None else ():
            self._seen = event.seq
            if event.text:
                self._terminal.dim(f"{event.author}: {event.text}")
        if pending:
            self._terminal.dim(f"waits for an answer: {', '.join(map(question, pending))}. /answer gives it")

    def _show_news(self) -> None:
        """Show what agents have said since: the ends of background runs, and schedules, begin turns by themselves."""
        try:
            # Before the first turn there may be no session.
            while self._seen and (events := self._rt.sessions.events(self._user, self._session, after_seq=self._seen)):
                self._seen = events[-1].seq
                for event in events:
                    if event.text and event.author != USER:
                        self._terminal.dim(f"{event.author}: {event.text}")
        except RaygroveError as error:
            self._terminal.red(f"error: {error}")

    def _run(self, turn: Turn) -> None:
        """Show a turn to its end, and ask what it waits for. Ctrl-C and Esc cancel it; what is typed meanwhile steers it."""
        while True:
            given: list[Turn] = []

            def steer(line: str, given: list[Turn] = given) -> None:
                given.append(self._steer(line))

            with Keys(steer, turn.cancel, self._terminal.show_typed):
                self._show(turn)
            for other in given:
                self._show_answer(other)
            # Without a question an agent waits for the user's words: the next line has them.
            pending = turn.pending if isinstance(turn.result().outcome, Paused) else ()
            if not pending:
                return
            try:
                answers = self._ask(pending)
            except KeyboardInterrupt:
                turn.cancel()
                raise
            turn = turn.answer(answers, run_config=self._config)

    def _show(self, turn: Turn) -> None:
        text = AnswerText(self._begin, lambda piece: self._terminal.write(piece, end=""))
        held: list[str] = []
        try:
            for event in turn:
                self._seen = max(self._seen, event.seq)
                held += activity_lines(event)
                if text.add(event):
                    self._show_activity(held)
        finally:
            text.end_line()
            self._show_activity(held)
        result = turn.result()
        if (given := output_event(result.events)) is not None:
            self._begin(given.author)
            self._terminal.write(result.text)

    def _steer(self, line: str) -> Turn:
        config = msgspec.structs.replace(self._config, on_concurrent_turn="steer")
        return self._rt.run(user_id=self._user, session_id=self._session, message=line, run_config=config)

    def _show_answer(self, turn: Turn) -> None:
        """Show the answer to a message that no agent has read while the turn before ran; any other answer has been shown."""
        result = turn.result()
        self._seen = max((self._seen, *(event.seq for event in result.events)))
        if turn.steered is None and result.text:
            self._begin(result.agent)
            self._terminal.write(result.text)

    def _show_activity(self, held: list[str]) -> None:
        for line in held:
            self._terminal.dim(line)
        held.clear()

    def _begin(self, author: str) -> None:
        if author != self._speaker:
            self._speaker = author
            self._terminal.bold(f"{author}:")

    def _ask(self, pending: Sequence[PendingCall]) -> dict[str, object]:
        """The answers of the person, by the ids of the calls."""
        return {call.call_id: self._answer(call) for call in pending}

    def _answer(self, call: PendingCall) -> object:
        if not call.is_confirmation:
            while not (given := read_line(f"{call.agent} waits for the result of {question(call)}: ").strip()):
                pass
            return json_or_text(given)
        while (given := read_line(f"{call.agent} asks: may {question(call)} run? (y/n) ").strip().lower()) not in (*_YES, *_NO):
            self._terminal.dim("y or n")
        return given in _YES


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
