"""Small histories, for tests of the judge: what a log has, and what programs have asked and got."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors import Content, Event, EventActions, FunctionCall, FunctionResponse, Part, Usage
from tests.model.history import Ask, Found, History, TurnRecord

HERE = ("ada", "s1")


class Tale:
    """A history of one session that is told step by step; a second passes with each."""

    def __init__(self) -> None:
        self._steps = 0
        self.history = History(self._tick)
        self.log: list[Event] = []
        self.records: dict[str, TurnRecord] = {}
        self.state: dict[str, Any] = {}
        self.written_s = 0.0

    def _tick(self) -> float:
        self._steps += 1
        return float(self._steps)

    def event(self, turn: str, author: str = "root", *parts: Part, text: str = "", **more: Any) -> Event:
        """Store an event of a turn."""
        content = Content(role="user" if author == "user" else "model", parts=[*parts, *([Part(text=text)] if text else [])])
        actions = EventActions(**{name: more.pop(name) for name in list(more) if name in EventActions.__struct_fields__})
        seq = more.pop("seq", len(self.log) + 1)
        fields = {"id": f"event {seq}", "seq": seq, "timestamp": float(self._steps), "content": content, **more}
        event = Event(invocation_id=turn, author=author, actions=actions, **fields)
        self.log.append(event)
        self.history.store(HERE, event)
        self.state.update(actions.state_delta)
        return event

    def message(self, turn: str, text: str = "hi", **more: Any) -> Event:
        """The user says something."""
        return self.event(turn, "user", text=text, **more)

    def model(self, turn: str, text: str = "hello", **more: Any) -> Event:
        """A model answers."""
        return self.event(turn, text=text, usage=Usage(prompt_token_count=1), model_version="m", **more)

    def call(self, turn: str, call_id: str, *, waits: bool = False, **more: Any) -> Event:
        """A model calls a tool, which waits for the user or not."""
        ids = (call_id,) if waits else ()
        return self.event(turn, "root", Part(function_call=FunctionCall(id=call_id, name="f")), long_running_tool_ids=ids, **more)

    def response(self, turn: str, call_id: str, response: dict[str, Any], author: str = "root") -> Event:
        """A tool, or the user, answers a call."""
        return self.event(turn, author, Part(function_response=FunctionResponse(id=call_id, name="f", response=response)))

    def ask(self, what: str = "run", turn: str = "", program: str = "p", **more: Any) -> Ask:
        """A program asks."""
        if what == "run" and "responses" not in more:
            more.setdefault("message", Content.of_text("hi"))
        return self.history.ask(what, turn=turn, program=program, user="ada", session="s1", **more)

    def give(self, ask: Ask, *events: Event, ended: str | BaseException = "Finished") -> None:
        """Events come to the program, and the end."""
        for event in events:
            self.history.hear(ask, event)
        if ended:
            self.history.end(ask, ended)

    def turn(self, turn: str = "e-1", *, status: str = "finished", **more: Any) -> Ask:
        """A whole turn: a program asks, the model answers, and the program gets that."""
        ask = self.ask("run", turn, **more)
        self.message(turn)
        self.give(ask, self.model(turn))
        self.end(turn, status)
        return ask

    def end(self, turn: str, status: str = "finished", used: Mapping[str, int] | None = None) -> None:
        """The record of a turn says its end."""
        own = [event for event in self.log if event.invocation_id == turn and event.author != "user"]
        sums = {
            "llm_calls": sum(event.usage is not None for event in own),
            "tool_calls": sum(len(list(event.function_calls())) for event in own),
            "input_tokens": sum(event.usage is not None for event in own),
        }
        self.records[turn] = TurnRecord(status=status, used=sums if used is None else used)

    def over(self) -> History:
        """What a fresh reader finds at the end."""
        self.history.found[HERE] = Found(log=self.log, state=self.state, turns=self.records, written_s=self.written_s)
        return self.history
