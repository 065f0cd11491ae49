"""Runs the turns of a vector one after the other in one session, through the public API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from actors import Event, FunctionCall, LlmRequest, RunConfig, Session
from actors.errors import RaygroveError
from runtime import Runtime
from tests.support.vectors.shared_runtimes import SESSION_ID, CaseRuntime
from tests.support.vectors.vector_notation import Case, VectorError, checked_keys, message
from tests.support.vectors.vector_rendering import is_compared, rendered


class TurnRecord(msgspec.Struct):
    """One turn, as its driver saw it."""

    invocation_id: str
    events: list[Event]
    error: BaseException | None = None


class CaseRun:
    """The turns of a case, run one after the other in one session."""

    def __init__(self, case: Case, case_runtime: CaseRuntime) -> None:
        self.given = case.given
        self.turns: list[TurnRecord] = []
        self.requests: list[LlmRequest] = []
        self.session: Session | None = None
        self.artifacts: list[str] = []
        self._user_id = case.id
        self._last_call: FunctionCall | None = None
        self._config = RunConfig(**(self.given.get("config") or {}))
        self._case_runtime = case_runtime

    def run(self) -> CaseRun:
        """Run all turns, and read the session, artifacts and requests afterwards."""
        rt = self._case_runtime.runtime
        if self.given.get("session") is None:
            rt.sessions.create(self._user_id, SESSION_ID, self.given.get("state"))
        elif self.given["session"] != "missing" or "state" in self.given:
            raise VectorError(f"session: {self.given['session']!r}")
        for turn in self.given["turns"]:
            self.turns.append(self._turn(rt, turn))
        self.session = rt.sessions.get(self._user_id, SESSION_ID)
        self.artifacts = rt.artifacts.list_keys(self._user_id, SESSION_ID)
        self.requests = list(self._case_runtime.model.requests[self._case_runtime.first :])
        self._check_the_script()
        self._check_what_was_raised()
        return self

    def _turn(self, rt: Runtime, given: Any) -> TurnRecord:
        if isinstance(given, dict) and "rewind" in given:
            of = self.turns[checked_keys(given, "rewind", of="a turn")["rewind"]]
            rt.sessions.rewind(self._user_id, SESSION_ID, of.invocation_id)
            return TurnRecord(f"rewind {len(self.turns)}", [])
        options = {key: given[key] for key in ("state_delta", "invocation_id") if isinstance(given, dict) and key in given}
        told = TurnRecord(f"never started {len(self.turns)}", [])
        try:
            turn = rt.run(
                user_id=self._user_id,
                session_id=SESSION_ID,
                message=message(given, self._last_call),
                run_config=self._config,
                auto_create_session=self.given.get("auto_create", True),
                **options,
            )
        except RaygroveError as error:
            told.error = error
            return told
        try:
            for event in turn:
                told.events.append(event)
                calls = {call.id: call for call in event.function_calls()}
                for call_id in event.long_running_tool_ids:
                    self._last_call = calls[call_id]
        except RaygroveError as error:
            told.error = error
        told.invocation_id = turn.invocation_id
        return told

    def _check_the_script(self) -> None:
        left = self._case_runtime.replies - len(self.requests)
        assert left >= 0, f"{-left} model calls without a reply left"
        if self.given.get("leftover") is None:
            assert left == 0, f"{left} replies are left over"
        elif self.given["leftover"] != "ok":
            raise VectorError(f"leftover: {self.given['leftover']!r}")

    def _check_what_was_raised(self) -> None:
        raises = self.given.get("raises") or {}
        for index, told in enumerate(self.turns):
            if index in raises:
                assert told.error is not None, f"turn {index} raised nothing"
                assert raises[index] in type(told.error).__name__ or raises[index] in str(told.error)
            elif told.error is not None:
                raise AssertionError(f"turn {index} raised {told.error!r}") from told.error
        if raises.keys() - set(range(len(self.turns))):
            raise VectorError(f"raises: {raises!r}")

    def state(self) -> dict[str, Any]:
        """The session's state, without keys whose value is null."""
        assert self.session is not None, "there is no session"
        return {key: value for key, value in self.session.state.items() if value is not None}

    def events(self, index: int) -> list[Event]:
        """The events of a turn that count."""
        return [event for event in self.turns[index].events if is_compared(event) and event.author != "user"]

    def stored(self) -> list[Event]:
        """The events of the log that count, the user's too."""
        return [event for event in (self.session.events if self.session is not None else ()) if is_compared(event)]

    def with_first_id(self, value: Any) -> Any:
        """An expectation with the id of the first turn filled in."""
        if isinstance(value, str):
            return value.replace("<inv0>", self.turns[0].invocation_id)
        return [self.with_first_id(each) for each in value] if isinstance(value, list) else value

    def check_events(self, expect: Sequence[Sequence[Any]]) -> None:
        """Compare the events of all turns."""
        branch, order = bool(self.given.get("branch")), self.given.get("order")
        if order not in (None, "any"):
            raise VectorError(f"order: {order!r}")
        assert len(self.turns) == len(expect), "the vector does not say what to expect of every turn"
        actual = [[rendered(event, branch=branch) for event in self.events(index)] for index in range(len(self.turns))]
        compared = [_in_order(turn) for turn in actual] if order else actual
        for index, wanted in enumerate(expect):
            if list(wanted[-1:]) == ["..."]:
                assert _begins(actual[index], list(wanted[:-1]), in_any_order=bool(order)), f"turn {index}: {actual[index]}"
                compared[index] = []
        whole = [[] if list(wanted[-1:]) == ["..."] else list(wanted) for wanted in expect]
        assert compared == ([_in_order(turn) for turn in whole] if order else whole)
        for turn, event, words in self.given.get("error_names") or ():
            alike = [each for each, shown in zip(self.events(turn), actual[turn], strict=True) if shown == expect[turn][event]]
            of_event = alike if order else [self.events(turn)[event]]
            assert any(all(word in _error_text(each) for word in words) for each in of_event), f"{words}: {of_event}"


def _in_order(events: Sequence[list[str]]) -> list[list[str]]:
    """The events with those of one author together, in their order: equal for all ways to interleave authors."""
    return sorted(events, key=lambda event: event[0])


def _begins(actual: list[list[str]], wanted: list[list[str]], *, in_any_order: bool) -> bool:
    if not in_any_order:
        return actual[: len(wanted)] == wanted
    for author in {each[0] for each in wanted}:
        of_author = [each for each in wanted if each[0] == author]
        if [each for each in actual if each[0] == author][: len(of_author)] != of_author:
            return False
    return True


def _error_text(event: Event) -> str:
    return " ".join(str(response.response.get("error", "")) for response in event.function_responses())
