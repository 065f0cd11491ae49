"""Many turns are cancelled, run on and answered by one request; shown before; and only a user's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, tool
from actors.errors import AgentFailedError
from actors.messages.turn_info import TurnInfo
from actors.testing import PatternModel
from runtime import Runtime
from runtime.frontends.web.api.operating import bulk
from runtime.web import Principal, StaticTokens, app_for
from tests.support.agents.conversation_tools import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn
from tests.support.servers.web_server import TIMEOUT_S, serving

ADA, DESK, BOSS = (f"{name}-token-0123456789" for name in ("ada", "desk", "boss"))
NOTHING = {"turns": [], "calls": [], "refused": [], "more": False, "dryRun": False}
TOKENS = {ADA: Principal(user_id="ada"), DESK: Principal(), BOSS: Principal(is_admin=True)}


@tool(require_confirmation=True)
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path)
    yield made
    made.release()


def desk(gate: Gate, flag: Path) -> LlmAgent:
    """An agent that waits, asks for consent, or fails until the flag is there."""

    def fail_at_first(context: CallbackContext, request: LlmRequest) -> None:
        if request.contents[-1].text.startswith("fail") and not flag.exists():
            raise ConnectionError("no connection")

    call = {"call": "pay", "args": {"amount": 8}}
    model = PatternModel([("tool:", "done"), ("wait", {"call": "wait"}), ("pay", call)], default="ok")
    return LlmAgent(name="desk", model=model, tools=[gate.tool(), pay], before_model_callback=fail_at_first)


@pytest.fixture
def rt(local: Deploy, gate: Gate, tmp_path: Path) -> Iterator[Runtime]:
    with local(desk(gate, tmp_path / "flag"), app_name="desk") as made:
        yield made


class Client:
    """Sends requests about all turns of the app."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __call__(self, path: str, body: dict[str, Any], token: str = DESK, status: int = 200, **query: str) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        reply = httpx2.post(f"{self._url}/v1/apps/desk/{path}", json=body, params=query, headers=headers, timeout=TIMEOUT_S)
        assert reply.status_code == status, reply.text
        return reply.json()


@pytest.fixture
def post(rt: Runtime) -> Iterator[Client]:
    with serving(app_for(rt, auth=StaticTokens(TOKENS))) as url:
        yield Client(url)


def ids(found: dict[str, Any], what: str = "turns") -> list[str]:
    return [each["invocationId"] for each in found.get(what, ())]


def states(rt: Runtime) -> dict[str, str]:
    return {turn.invocation_id: turn.state for turn in rt.turns.list()}


def test_turns_are_shown_and_then_cancelled_those_in_line_too(rt: Runtime, gate: Gate, post: Client) -> None:
    held = [
        rt.run(user_id=user, session_id="s1", message="wait", invocation_id=f"{user}-1", on_leave="continue")
        for user in ("ada", "bob")
    ]
    in_line = rt.run(user_id="ada", session_id="s1", message="hi", invocation_id="ada-2", on_leave="continue")
    until(lambda: sorted(states(rt).values()) == ["running", "running", "waiting"])
    shown = post("turns/cancel", {"dryRun": True})
    assert (sorted(ids(shown)), shown["dryRun"], shown["more"]) == (["ada-1", "ada-2", "bob-1"], True, False)
    assert sorted(states(rt).values()) == ["running", "running", "waiting"]
    assert ids(post("turns/cancel", {"dryRun": True, "limit": 1})) == ["ada-2"]
    assert post("turns/cancel", {"dryRun": True, "limit": 1})["more"] is True
    assert ids(post("turns/cancel", {"dryRun": True, "text": "WAIT"}, user="bob")) == ["bob-1"]
    assert ids(post("turns/cancel", {"agent": "nobody"}, token=ADA)) == []
    done = post("turns/cancel", {}, token=ADA)
    assert ids(done) == ["ada-2", "ada-1"]
    until(lambda: states(rt) == {"ada-1": "cancelled", "bob-1": "running"})
    assert ids(post("turns/cancel", {"state": "running"})) == ["bob-1"]
    until(lambda: states(rt)["bob-1"] == "cancelled")
    assert post("turns/cancel", {}) == NOTHING
    for turn in (*held, in_line):
        turn.detach()


def test_failed_turns_are_run_on(rt: Runtime, tmp_path: Path, post: Client) -> None:
    for number in range(3):
        with pytest.raises(AgentFailedError):
            run_turn(rt, "fail", session_id=f"s{number}", invocation_id=f"e-{number}")
    refused = post("turns/retry", {"error": "no connection"}, status=403)
    assert "only administrators" in refused["detail"]
    assert ids(post("turns/retry", {"error": "NO CONN", "dryRun": True}, token=BOSS)) == ["e-2", "e-1", "e-0"]
    [first, *_] = post("turns/retry", {"dryRun": True})["turns"]
    assert "no connection" not in str(first)
    (tmp_path / "flag").touch()
    first = post("turns/retry", {"limit": 2})
    assert (ids(first), first["more"]) == (["e-2", "e-1"], True)
    until(lambda: states(rt)["e-1"] == states(rt)["e-2"] == "finished")
    # The same request goes on with the rest.
    assert ids(post("turns/retry", {"limit": 2})) == ["e-0"]
    until(lambda: set(states(rt).values()) == {"finished"})


def test_calls_that_wait_get_one_answer(rt: Runtime, post: Client) -> None:
    for user in ("ada", "bob"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")
    shown = post("pending/answer", {"value": True, "tool": "pay", "dryRun": True})
    assert sorted(ids(shown, "calls")) == ["ada-1", "bob-1"]
    assert post("pending/answer", {"value": True, "tool": "look_up"}) == NOTHING
    assert post("pending/answer", {"value": True, "olderThan": 3600}) == NOTHING
    assert ids(post("pending/answer", {"value": True}, token=ADA), "calls") == ["ada-1"]
    until(lambda: states(rt) == {"ada-1": "finished", "bob-1": "paused"})
    assert ids(post("pending/answer", {"value": False, "agent": "desk"}), "calls") == ["bob-1"]
    until(lambda: states(rt)["bob-1"] == "finished")


def test_what_cannot_be_done_is_told_and_the_rest_is_done(rt: Runtime, post: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends by itself between the list and its cancel."""
    for user in ("ada", "bob"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")

    async def found(*_: object) -> list[TurnInfo]:
        turns = rt.turns.list(state="paused")
        run_turn(rt, "no", user_id="bob", session_id="s2", invocation_id="bob-2")
        return [*rt.turns.list("bob", "s2"), *turns]

    monkeypatch.setattr(bulk, "_found", lambda *given: asyncio.to_thread(asyncio.run, found(*given)))
    told = post("turns/cancel", {})
    assert (sorted(ids(told)), ids(told, "refused")) == (["ada-1", "bob-1"], ["bob-2"])
    assert told["refused"][0]["problem"]["detail"] == "it has ended already: it is finished"
    assert states(rt) == {"ada-1": "cancelled", "bob-1": "cancelled", "bob-2": "finished"}


def test_users_reach_only_their_own_turns_and_wrong_bodies_are_refused(rt: Runtime, post: Client) -> None:
    run_turn(rt, "pay", user_id="bob", invocation_id="bob-1")
    for path, body in (("turns/cancel", {}), ("turns/retry", {}), ("pending/answer", {"value": True})):
        assert post(path, body, token=ADA) == NOTHING
        assert "for no other user" in post(path, body, token=ADA, status=403, user="bob")["detail"]
    assert "olderThan" in post("turns/cancel", {"olderThen": 3}, status=400)["detail"]
    assert "state" in post("turns/retry", {"state": "running"}, status=400)["detail"]
    assert "user" in post("turns/cancel", {"sessionId": "s1"}, status=400)["detail"]
    assert states(rt) == {"bob-1": "paused"}
