"""Many turns are cancelled, run on and answered by one call, in scripts and over HTTP; and a user's own only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from actors import CallbackContext, LlmAgent, LlmRequest, tool
from actors.errors import AgentFailedError, RequestError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.turns.finding import CallQuery, TurnQuery
from runtime.driver.turns.turn import Turn
from runtime.web import Principal, StaticTokens, app_for
from tests.support.agents.conversation_tools import Gate
from tests.support.polling import until
from tests.support.runtimes import Deploy, run_turn, stored
from tests.support.servers.web_server import TIMEOUT_S, serving

ADA, DESK, BOSS = (f"{name}-token-0123456789" for name in ("ada", "desk", "boss"))
NOTHING = {"turns": [], "calls": [], "refused": [], "more": False, "dryRun": False}
TOKENS = {ADA: Principal(user_id="ada"), DESK: Principal(), BOSS: Principal(is_admin=True)}


@tool(require_confirmation=True)
def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


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


def hold(rt: Runtime, *turns: tuple[str, str, str]) -> list[Turn]:
    """Begin turns, by user, session and id, that wait for the gate or for each other."""
    return [
        rt.run(user_id=user, session_id=session, message="wait", invocation_id=invocation, on_leave="continue")
        for user, session, invocation in turns
    ]


def test_turns_are_found_and_then_cancelled_those_in_line_too(rt: Runtime, gate: Gate) -> None:
    held = hold(rt, ("ada", "s1", "ada-1"), ("bob", "s1", "bob-1"))
    until(lambda: sorted(states(rt).values()) == ["running", "running"])
    held += hold(rt, ("ada", "s1", "ada-2"))
    until(lambda: sorted(states(rt).values()) == ["running", "running", "waiting"])
    found = rt.turns.cancel_all(TurnQuery(), dry_run=True)
    assert (sorted(turn.invocation_id for turn in found.done), found.dry_run, found.more) == (
        ["ada-1", "ada-2", "bob-1"],
        True,
        False,
    )
    assert sorted(states(rt).values()) == ["running", "running", "waiting"]
    first = rt.turns.cancel_all(TurnQuery(), dry_run=True, limit=1)
    assert ([turn.invocation_id for turn in first.done], first.more) == (["ada-2"], True)
    assert rt.turns.cancel_all(TurnQuery(agent="nobody", state="running")).steps == []
    until(lambda: any(event.function_calls() for event in stored(rt)))
    of_ada = rt.turns.cancel_all(TurnQuery(user_id="ada"))
    assert [(step.of.invocation_id, step.sealed_calls) for step in of_ada.steps] == [("ada-2", 0), ("ada-1", 1)]
    assert states(rt) == {"ada-1": "cancelled", "bob-1": "running"}
    assert [turn.invocation_id for turn in rt.turns.cancel_all(rt.turns.list("bob")).done] == ["bob-1"]
    for turn in held:
        turn.detach()


def test_what_cannot_be_done_has_an_error_and_the_rest_is_done(rt: Runtime) -> None:
    for user in ("ada", "bob"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")
    listed = rt.turns.list()
    rt.answer({rt.pending(user_id="bob")[0].call_id: True}, user_id="bob", session_id="s1").result()
    done = rt.turns.cancel_all(listed)
    assert [turn.invocation_id for turn in done.done] == ["ada-1"]
    [(refused, error)] = done.refused
    assert (refused.invocation_id, str(error)) == ("bob-1", "it has ended already: it is finished")
    assert states(rt) == {"ada-1": "cancelled", "bob-1": "finished"}


async def test_failed_turns_are_run_on(rt: Runtime, tmp_path: Path) -> None:
    for number in range(3):
        with pytest.raises(AgentFailedError):
            await rt.run(user_id="ada", session_id=f"s{number}", message="fail", invocation_id=f"e-{number}")
    (tmp_path / "flag").touch()
    first = await rt.aio.turns.retry_all(TurnQuery(error="NO CONN"), limit=2)
    assert ([turn.invocation_id for turn in first.done], first.more) == (["e-2", "e-1"], True)
    for number in (1, 2):
        await rt.attach(user_id="ada", session_id=f"s{number}", invocation_id=f"e-{number}")
    # The same call goes on with the rest.
    rest = await rt.aio.turns.retry_all(TurnQuery(error="NO CONN"), limit=2)
    assert ([turn.invocation_id for turn in rest.done], rest.more) == (["e-0"], False)


def test_calls_that_wait_get_an_answer_each(rt: Runtime) -> None:
    for user in ("ada", "bob", "eve"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")
    assert rt.turns.answer_all(CallQuery(tool="look_up"), True).steps == []
    assert rt.turns.answer_all(CallQuery(older_than=timedelta(hours=1)), True).steps == []
    [calls] = rt.turns.answer_all(CallQuery(tool="pay", agent="desk", invocation="ada"), True, limit=1).done
    assert [call.invocation_id for call in calls] == ["ada-1"]
    until(lambda: states(rt) == {"ada-1": "finished", "bob-1": "paused", "eve-1": "paused"})
    done = rt.turns.answer_all(rt.pending(), lambda call: call.user_id == "bob")
    assert len(done.done) == 2
    until(lambda: set(states(rt).values()) == {"finished"})
    paid = {user: [r.response for e in stored(rt, user_id=user) for r in e.function_responses()][-1] for user in ("bob", "eve")}
    assert paid["bob"] == {"paid": 8}
    assert "error" in paid["eve"]


def test_wrong_arguments_are_refused(rt: Runtime) -> None:
    calls: list[Callable[[], object]] = [
        lambda: rt.turns.cancel_all(TurnQuery(state="failed")),
        lambda: rt.turns.retry_all(TurnQuery(state="running")),
        lambda: rt.turns.cancel_all(TurnQuery(session_id="s1")),
        lambda: rt.turns.cancel_all(TurnQuery(since=-1.0)),
        lambda: rt.turns.cancel_all(CallQuery()),  # type: ignore[arg-type]
        lambda: rt.turns.answer_all(TurnQuery(), True),  # type: ignore[arg-type]
        lambda: rt.turns.retry_all(TurnQuery(), limit=-1),
    ]
    for call in calls:
        with pytest.raises(RequestError):
            call()


def test_over_http_turns_are_shown_and_cancelled(rt: Runtime, post: Client) -> None:
    for user in ("ada", "bob"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")
    shown = post("turns/cancel", {"dryRun": True, "limit": 1})
    assert (ids(shown), shown["dryRun"], shown["more"]) == (["bob-1"], True, True)
    assert ids(post("turns/cancel", {"dryRun": True, "text": "PAY"}, user="ada")) == ["ada-1"]
    assert ids(post("turns/cancel", {}, token=ADA)) == ["ada-1"]
    assert ids(post("turns/cancel", {"state": "paused"})) == ["bob-1"]
    assert post("turns/cancel", {}) == NOTHING


def test_over_http_failed_turns_are_run_on_but_those_of_a_session_that_is_busy(
    rt: Runtime, gate: Gate, tmp_path: Path, post: Client
) -> None:
    for number in range(2):
        with pytest.raises(AgentFailedError):
            run_turn(rt, "fail", session_id=f"s{number}", invocation_id=f"e-{number}")
    [held] = hold(rt, ("ada", "s0", "busy"))
    refused = post("turns/retry", {"error": "no connection"}, status=403)
    assert "only administrators" in refused["detail"]
    assert ids(post("turns/retry", {"error": "NO CONN", "dryRun": True}, token=BOSS)) == ["e-1", "e-0"]
    assert "no connection" not in str(post("turns/retry", {"dryRun": True}))
    (tmp_path / "flag").touch()
    done = post("turns/retry", {})
    assert (ids(done), ids(done, "refused")) == (["e-1"], ["e-0"])
    assert done["refused"][0]["problem"]["status"] == 409
    held.cancel()


def test_over_http_calls_that_wait_get_one_answer(rt: Runtime, post: Client) -> None:
    for user in ("ada", "bob"):
        run_turn(rt, "pay", user_id=user, invocation_id=f"{user}-1")
    shown = post("pending/answer", {"value": True, "tool": "pay", "dryRun": True})
    assert sorted(ids(shown, "calls")) == ["ada-1", "bob-1"]
    assert ids(post("pending/answer", {"value": True}, token=ADA), "calls") == ["ada-1"]
    until(lambda: states(rt) == {"ada-1": "finished", "bob-1": "paused"})


def test_users_reach_only_their_own_turns_and_wrong_bodies_are_refused(rt: Runtime, post: Client) -> None:
    run_turn(rt, "pay", user_id="bob", invocation_id="bob-1")
    for path, body in (("turns/cancel", {}), ("turns/retry", {}), ("pending/answer", {"value": True})):
        assert post(path, body, token=ADA) == NOTHING
        assert "for no other user" in post(path, body, token=ADA, status=403, user="bob")["detail"]
    assert "olderThan" in post("turns/cancel", {"olderThen": 3}, status=400)["detail"]
    assert "state" in post("turns/retry", {"state": "running"}, status=400)["detail"]
    assert "user" in post("turns/cancel", {"sessionId": "s1"}, status=400)["detail"]
    assert states(rt) == {"bob-1": "paused"}
