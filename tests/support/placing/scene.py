"""A deployment of two stores whose agents wait for a test, with a user who has talked before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors import AgentTool, Event, FunctionTool, LlmAgent, tool
from actors.testing import PatternModel
from runtime import Runtime
from tests.support.placing.several import store_files, users_at
from tests.support.programs.hall import Hall
from tests.support.runtimes import Deploy, run_turn, stored

USER = users_at(0, 2)[0]


@tool(long_running=True)
def ask(what: str) -> None:
    """Ask the user."""


def desk(hall: Hall, says: str = "old") -> LlmAgent:
    """Waits in the hall, has an expert wait there, or asks twice at once; at the end it says `says`."""
    waits = FunctionTool(hall.wait)
    asks: Any = {"parts": [{"call": "ask", "args": {"what": what}} for what in ("one", "two")]}
    expert = LlmAgent(
        name="expert",
        description="Waits.",
        model=PatternModel([("", {"call": "wait", "args": {"name": "expert"}}), ("tool:", "waited")]),
        tools=[waits],
    )
    rules: list[Any] = [("tool:", says), ("ask", asks), ("expert", {"call": "expert", "args": {"request": "wait"}})]
    rules += [(f"wait for {name}", {"call": "wait", "args": {"name": name}}) for name in ("it", "0", "1", "2")]
    return LlmAgent(name="root", model=PatternModel(rules, default="hello"), tools=[waits, ask, AgentTool(expert)])


class Scene:
    """A deployment over two stores, with a user who has talked before.

    Attributes:
        rt: the one that lives.
        says: what turns say at the end that began before anything was done.
        is_replaced: the deployment is another one than that in which the turns began.
    """

    def __init__(self, deploy: Deploy, folder: Path, urls: Sequence[str] = (), **options: Any) -> None:
        self.hall = Hall(folder)
        self.urls = urls or store_files(folder, 2)
        self.files = [folder / f"store-{each}.db" for each in range(2)]
        self.is_replaced = False
        self._deploy = deploy
        self._options = options
        self.rt = self._started()
        for session in ("s1", "other"):
            run_turn(self.rt, "hi", session, USER)
            run_turn(self.rt, "hi", session, USER)

    def _started(self) -> Runtime:
        rt = self._deploy(desk(self.hall), session_store=self.urls, **self._options)
        rt.start()
        return rt

    def replace(self) -> None:
        """Another deployment goes on with the open turns."""
        self.rt = self._started()
        self.is_replaced = True
        self.rt.turns.resume()

    def result(self, session: str, invocation_id: str) -> Any:
        """How a turn has ended, also one that an earlier deployment began."""
        return self.rt.attach(user_id=USER, session_id=session, invocation_id=invocation_id).result()

    def check(self, *sessions: str) -> None:
        """The logs are whole, and the sessions go on."""
        for session in sessions:
            log = stored(self.rt, session, USER)
            check_log(log)
            assert run_turn(self.rt, "hi", session, USER)[-1].text in ("hello", "new")
            assert [event.id for event in stored(self.rt, session, USER)[: len(log)]] == [event.id for event in log]


def check_log(log: list[Event]) -> None:
    """Every event once and in its place, and one answer to each call."""
    seqs = [event.seq for event in log]
    assert seqs == sorted(set(seqs))
    assert len({event.id for event in log}) == len(log)
    calls = Counter(call.id for event in log for call in event.function_calls())
    responses = Counter(response.id for event in log for response in event.function_responses())
    assert set(calls.values()) <= {1}
    assert calls == responses
