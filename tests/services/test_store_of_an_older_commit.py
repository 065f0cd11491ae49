"""A store that an older commit has written opens, reads as it did there, and its turns go on.

`tests/support/stores/older_store_program.py` says how the stores were made. What is expected was read by the commit that wrote
them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from actors import Event, Finished, Paused
from actors.errors import FlowNotFoundError, InvocationNotFoundError, RaygroveError
from actors.messages.protocol.outcomes import decode_outcome
from actors.messages.session import SessionKey
from runtime import Runtime
from runtime.frontends.console import cli
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support import inside
from tests.support.runtimes import run_turn
from tests.support.stores.older_store_agents import APP, errand, runtime
from tests.support.stores.older_store_program import answer, read

STORES = Path(__file__).with_name("stores_of_older_versions")

PAUSED = {
    "paused": ["refunds"],
    "paused_cashier": ["cashier"],
    "paused_rounds": ["loop_asker", "loop_asker"],
    "paused_sides": ["right", "middle"],
    "paused_report": ["researcher"],
    "paused_errand": ["researcher"],
}
"""Sessions whose turn is paused, and the agents that wait there for an answer, or will."""

ANSWER = "user has {'confirmed': True, 'allowed': True}"
HELD = "has {'result': 'held, stopped'}"
DONE = "has {'status': 'successful'}"

AFTER_ANSWERS = {
    "paused": [ANSWER, "refunds: refunds knows"],
    "paused_cashier": [ANSWER, "cashier has {'receipt': 5}", 'cashier: {"receipt":5}'],
    "paused_rounds": [
        *(ANSWER, "loop_asker: loop_asker knows", "closer: closer is here", "opener: opener is here"),
        *("loop_asker calls ask_manager", ANSWER, "loop_asker: loop_asker knows", "closer: closer is here"),
    ],
    "paused_sides": [ANSWER, "right: right knows", ANSWER, "middle: middle knows"],
    "paused_report": [
        *(ANSWER, "researcher calls succeed_facts", f"researcher {DONE}"),
        *("judge calls succeed_judge", f"judge {DONE}", "report: good"),
    ],
    "paused_errand": [ANSWER, "researcher calls succeed_facts", f"researcher {DONE}", "@controller: Paris"],
}
"""What the answers to paused turns bring."""

AFTER_ATTACH = {
    "keeper": [f"keeper {HELD}", "keeper: keeper is done"],
    "held_rounds": [f"loop_holder {HELD}", "loop_holder: loop_holder is done"],
    "held_sides": [f"slow {HELD}", "slow: slow is done"],
    "held_restarts": [f"last {HELD}", "last: last is done"],
    "held_again": [
        "brittle fails",
        "held_again decides brittle failed with RuntimeError: restart 2 of 3 within 1e+10 s begins at once",
        "brittle: run 3",
        "brittle fails",
        "held_again decides brittle failed with RuntimeError: restart 3 of 3 within 1e+10 s begins at once",
        "brittle: run 4",
        "brittle: steady",
    ],
    "held_skips": [f"kept {HELD}", "kept: kept is done"],
    "digging": [f"digger {HELD}", "digger calls succeed_second", f"digger {DONE}", "digging: gold"],
}
"""Agents that held when the process ended, and what is left to do; each has a session `stopped_<agent>`, turn `e-<agent>`."""

STATES_AT_END = {
    "paused": {"turns": 1, "mood_at_end": "curious"},
    "paused_cashier": {"turns": 1, "paid": 5},
    "stopped_keeper": {"turns": 1, "steps": 1, "held": 1},
    "stopped_held_rounds": {"turns": 1, "steps": 2, "held": 2},
    "stopped_held_sides": {"turns": 1, "steps": 1, "held": 1},
    "stopped_held_restarts": {"turns": 1, "steps": 1, "held": 1, "shaky": 2},
    "stopped_held_again": {"turns": 1, "brittle": 4},
    "stopped_held_skips": {"turns": 1, "steps": 1, "held": 1, "flop": 1},
    "stopped_digging": {"turns": 1, "held": 1},
}
"""State of sessions once their turns have ended; of the others it is that of a turn that writes none."""


@pytest.fixture(params=sorted(path.name for path in STORES.iterdir()))
def commit(request: pytest.FixtureRequest) -> str:
    """The commit that has written the store."""
    return str(request.param)


@pytest.fixture
def expected(commit: str) -> Any:
    """What that commit has read in it."""
    return json.loads((STORES / commit / "expected.json").read_text())


@pytest.fixture
def folder(commit: str, tmp_path: Path) -> Path:
    """A copy of the store."""
    return Path(shutil.copytree(STORES / commit, tmp_path / "stores"))


def log(rt: Runtime, session_id: str) -> list[Event]:
    session = rt.sessions.get("ada", session_id)
    assert session is not None
    return list(session.events)


def own_state(rt: Runtime, session_id: str) -> dict[str, Any]:
    """The state of the session alone."""
    session = rt.sessions.get("ada", session_id)
    assert session is not None
    return {key: value for key, value in session.state.items() if ":" not in key}


def plain(value: Any) -> Any:
    """As it would be read back from JSON."""
    return json.loads(msgspec.json.encode(value))


def added(rt: Runtime, expected: Any, session_id: str) -> list[Event]:
    """The events that the session did not have before; those that it had are as they were."""
    events, before = log(rt, session_id), expected["sessions"][f"ada/{session_id}"]["events"]
    assert [json.loads(event.to_json()) for event in events[: len(before)]] == before
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return events[len(before) :]


def in_words(events: Sequence[Event]) -> list[str]:
    """What is said, called, answered and decided, each with its author."""
    words = []
    for event in events:
        words += [f"{event.author}: {event.text}"] if event.text else []
        words += [f"{event.author} calls {call.name}" for call in event.function_calls()]
        words += [f"{event.author} has {response.response}" for response in event.function_responses()]
        words += [f"{event.author} fails"] if event.error_code else []
        decision = (event.custom_metadata or {}).get("supervision")
        words += [f"{event.author} decides {decision['told']}"] if decision else []
    return words


def test_every_log_state_memory_and_artifact_reads_as_it_did(folder: Path, expected: Any) -> None:
    found = read(folder)
    assert list(found["sessions"]) == list(expected["sessions"])
    for session, was in expected["sessions"].items():
        for event, event_was in zip(found["sessions"][session]["events"], was["events"], strict=True):
            assert event == event_was
        assert found["sessions"][session]["state"] == was["state"]
    for what in ("turns", "memory", "artifacts", "shown"):
        assert found[what] == expected[what]


def test_the_records_of_turns_are_understood(folder: Path, expected: Any) -> None:
    store = SqlSessionStore(f"sqlite:///{folder}/sessions.db")
    store.open()
    statuses = set()
    for was in expected["turns"]:
        key = SessionKey(APP, was["user"], was["session"])
        row = store.turn(key, was["invocation_id"])
        if was["invocation_id"] == "e-order 2":
            assert row is None, "it was rewound"
            continue
        assert row is not None
        names = ("invocation_id", "status", "epoch", "first_seq", "opened_seq", "agent")
        assert [getattr(row, name) for name in names] == [was[name] for name in names]
        assert (plain(decode_outcome(row.outcome)) if row.outcome else None) == was["outcome"]
        temp, config = [*(was["temp"] or ()), {}, {}][:2]
        temp_now, config_now = inside.opened(row)
        assert (temp_now, plain(config_now)) == (temp, config)
        statuses.add(row.status)
    store.close()
    assert statuses == {"finished", "failed", "cancelled", "paused", "running"}


def test_a_turn_that_has_ended_ends_in_the_same_way_for_whoever_attaches(folder: Path, expected: Any) -> None:
    ended = [each for each in expected["turns"] if each["status"] in ("finished", "failed", "cancelled")]
    names = set()
    with runtime(folder) as rt:
        for was in ended:
            if was["invocation_id"] == "e-order 2":
                continue
            turn = rt.attach(user_id=was["user"], session_id=was["session"], invocation_id=was["invocation_id"])
            error: RaygroveError | None = None
            try:
                turn.result()
            except RaygroveError as raised:
                error = raised
            names.add(type(error).__name__)
            outcome = was["outcome"]
            if was["status"] == "finished":
                assert error is None
            elif was["status"] == "cancelled":
                assert type(error).__name__ == ("TurnTimeoutError" if "timeout_s" in outcome else "TurnCancelledError")
            elif outcome.get("error_args") is not None:
                assert (type(error).__name__, list(getattr(error, "args", ()))) == (outcome["error_code"], outcome["error_args"])
            else:
                assert getattr(error, "args", ()) == (outcome["agent"], outcome["error_code"], outcome["error_message"])
    assert len(names) >= 10


def finish(rt: Runtime, session_id: str) -> None:
    """Answer the agents that wait in the turn of a session, one after the other."""
    outcomes = []
    for agent in PAUSED[session_id]:
        message = answer(rt, session_id, agent)
        if session_id == "paused_errand":
            turn = rt.run_flow(errand(), user_id="ada", session_id=session_id, message=message)
        else:
            turn = rt.run(user_id="ada", session_id=session_id, message=message)
        outcomes.append(type(turn.result().outcome))
    assert outcomes == [Paused] * (len(outcomes) - 1) + [Finished]


def check_finished(rt: Runtime, expected: Any, session_id: str, wanted: list[str]) -> None:
    """The log is the one before and what was left to do, all in one turn; the state is right; the session takes another turn."""
    assert in_words(added(rt, expected, session_id)) == wanted
    assert len({event.invocation_id for event in log(rt, session_id)}) == 1
    assert own_state(rt, session_id) == STATES_AT_END.get(session_id, {"turns": 1})
    assert run_turn(rt, "hello", session_id)[-1].invocation_id != log(rt, session_id)[0].invocation_id


@pytest.mark.parametrize("session_id", PAUSED)
def test_a_paused_turn_is_answered_and_finishes(folder: Path, expected: Any, session_id: str) -> None:
    with runtime(folder) as rt:
        finish(rt, session_id)
        check_finished(rt, expected, session_id, AFTER_ANSWERS[session_id])


@pytest.mark.parametrize("agent", AFTER_ATTACH)
def test_a_turn_whose_process_ended_is_resumed_by_attach_and_repeats_nothing(folder: Path, expected: Any, agent: str) -> None:
    with runtime(folder) as rt:
        turn = rt.attach(user_id="ada", session_id=f"stopped_{agent}", invocation_id=f"e-{agent}")
        assert isinstance(turn.result().outcome, Finished)
        check_finished(rt, expected, f"stopped_{agent}", AFTER_ATTACH[agent])


@pytest.mark.full
def test_turns_go_on_in_actors_of_their_own(folder: Path, expected: Any, local_ray: str) -> None:
    with runtime(folder, engine="ray") as rt:
        for session_id in ("paused", "paused_sides", "paused_report"):
            finish(rt, session_id)
            check_finished(rt, expected, session_id, AFTER_ANSWERS[session_id])
        for agent in ("keeper", "held_restarts"):
            assert rt.attach(user_id="ada", session_id=f"stopped_{agent}", invocation_id=f"e-{agent}").result().text
            check_finished(rt, expected, f"stopped_{agent}", AFTER_ATTACH[agent])


def test_the_tasks_of_a_flow_in_progress_are_told_with_their_results(folder: Path) -> None:
    with runtime(folder) as rt:
        tasks = rt.attach(user_id="ada", session_id="stopped_digging", invocation_id="e-digging").result().tasks
        assert {name: (task.status, task.result) for name, task in tasks.items()} == {
            "first": ("successful", "here"),
            "second": ("successful", "gold"),
        }
        finish(rt, "paused_report")
        judged = rt.sessions.get("ada", "paused_report")
        assert judged is not None
        assert judged.events[-1].text == "good"


def test_a_flow_that_is_not_in_the_tree_is_asked_for_again(folder: Path) -> None:
    with runtime(folder) as rt:
        message = answer(rt, "paused_errand", "researcher")
        with pytest.raises(FlowNotFoundError, match="give the flow again"):
            rt.run(user_id="ada", session_id="paused_errand", message=message).result()


def test_a_rewound_session_is_seen_without_the_turn_and_keeps_its_places(folder: Path) -> None:
    with runtime(folder) as rt:
        before = rt.sessions.get("ada", "rewound")
        assert before is not None
        assert [event.seq for event in before.events] == [1, 2, 3, 4, 5, 11, 12, 13, 14]
        with pytest.raises(InvocationNotFoundError):
            rt.sessions.rewind("ada", "rewound", "e-order 2")
        rt.sessions.rewind("ada", "rewound", "e-order 1")
        after = rt.sessions.get("ada", "rewound")
        assert after is not None
        assert [event.actions.rewind_before_invocation_id for event in after.events] == ["e-order 1"]
        assert own_state(rt, "rewound") == {}


def test_a_late_answer_and_an_id_that_was_used_find_their_turns(folder: Path, expected: Any) -> None:
    with runtime(folder) as rt:
        again = rt.run(user_id="ada", session_id="talk", message="something else", invocation_id="e-given").result()
        assert again.text == "hello"
        assert added(rt, expected, "talk") == []
        assert run_turn(rt, answer(rt, "clerk", "clerk"), "clerk")[-1].author == "clerk"


def test_state_of_user_and_app_and_memory_go_on_from_what_is_there(folder: Path) -> None:
    with runtime(folder) as rt:
        run_turn(rt, "order 7", "new")
        session = rt.sessions.get("ada", "new")
        assert session is not None
        shared = {"user:name": "Ada", "user:orders": 4, "app:motto": "be kind", "app:orders": 5}
        assert {key: value for key, value in session.state.items() if ":" in key} == shared
        assert rt.artifacts.list_versions("ada", "new", "user:profile.txt") == [0, 1, 2, 3]
        profile = rt.artifacts.load("ada", "new", "user:profile.txt", 0)
        assert profile is not None
        assert profile.text == "likes tea"
        rt.memory.add_session("ada", "new")
        assert [entry.session_id for entry in rt.memory.search("ada", "order")] == ["new", "talk"]
        rt.memory.delete_session("ada", "talk")
        assert [entry.session_id for entry in rt.memory.search("ada", "order")] == ["new"]


def test_the_command_lists_the_sessions(folder: Path, expected: Any) -> None:
    arguments = ["sessions", "list", APP, "--store", f"sqlite:///{folder}/sessions.db"]
    listed = [line.split("\t")[:2] for line in CliRunner().invoke(cli.app, arguments).output.splitlines()[1:]]
    assert ["/".join(each) for each in listed] == list(expected["sessions"])
