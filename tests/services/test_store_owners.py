"""One deployment of an app owns a store: others are refused, take it when that one is gone, and fence what it still writes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from actors.errors import StoreInUseError, StoreRevertedError, StoreUnavailableError, WriterReplacedError
from runtime.stores.owner import ProcessPlace, StoreOwner, TakesOwner, this_process
from runtime.stores.sql import owners as owners_module
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.store_writes import S1, event, fill_sessions, seqs

Open = Callable[[StoreOwner], SqlSessionStore]


def owner(deployment: str, app: str = "app", **more: Any) -> StoreOwner:
    return StoreOwner(app, deployment, **{"process": this_process(), **more})


def elsewhere() -> ProcessPlace:
    return ProcessPlace("another machine", "far", 1, "1")


@pytest.fixture
def ended() -> ProcessPlace:
    """The place of a process of this machine that has ended."""
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        here = this_process()
        return msgspec.structs.replace(here, pid=process.pid, started="1")


@pytest.fixture
def other() -> Iterator[ProcessPlace]:
    """The place of another process of this machine, which lives."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        yield msgspec.structs.replace(this_process(), pid=process.pid, started=started)
        process.kill()


def owners(store: SqlSessionStore) -> list[tuple[str, str]]:
    return [(row.app, row.deployment) for row in store._rows(text("SELECT app, deployment FROM raygrove_owners ORDER BY app"))]


def run_out(store: SqlSessionStore, by_s: float = 1.0) -> None:
    """Let all leases have run out by so many seconds."""
    now = "extract(epoch FROM now())" if not store._database.is_sqlite else "unixepoch()"
    with store._database.transaction() as transaction:
        transaction.connection.execute(text(f"UPDATE raygrove_owners SET until_s = {now} - {by_s}"))


def test_a_store_of_a_deployment_that_lives_is_refused_and_nothing_of_it_is_changed(open_store: Open) -> None:
    first, second = open_store(owner("one", address="127.0.0.1:6379", program="desk.py")), open_store(owner("two"))
    first.claim("one/session")
    with pytest.raises(StoreInUseError) as caught:
        second.claim("two/session")
    app, _, where, advice = caught.value.args
    assert (app, where.partition(" on host")[0]) == (
        "app",
        f"on the Ray at 127.0.0.1:6379, in process {this_process().pid} (desk.py)",
    )
    assert "Runtime.connect('app', address='127.0.0.1:6379')" in advice
    assert owners(first) == [("app", "one")]
    fill_sessions(first, S1, length=1)
    first.give_up_claim()
    second.claim("two/session")
    assert owners(second) == [("app", "two")]
    second.give_up_claim()
    assert owners(second) == []


def test_the_local_engine_cannot_be_joined_and_the_error_says_so(open_store: Open) -> None:
    open_store(owner("one")).claim("one/session")
    with pytest.raises(StoreInUseError, match="since no other one can join its engine='local'"):
        open_store(owner("two")).claim("two/session")


def test_apps_of_one_database_own_it_one_beside_the_other(open_store: Open) -> None:
    desk, shop = open_store(owner("one", "desk")), open_store(owner("two", "shop"))
    desk.claim("desk/session one")
    shop.claim("shop/session two")
    assert owners(desk) == [("desk", "one"), ("shop", "two")]


def test_session_actors_of_one_deployment_own_it_together_until_the_last_one_has_left(open_store: Open) -> None:
    mine = owner("one")
    first, second = open_store(mine), open_store(mine)
    first.claim("session-0 one")
    second.claim("session-1 one")
    first.give_up_claim()
    with pytest.raises(StoreInUseError):
        open_store(owner("two")).claim("session-0 two")
    second.give_up_claim()
    open_store(owner("two")).claim("session-0 two")


def test_a_session_actor_that_is_started_again_takes_its_deployments_place_at_once(open_store: Open, other: ProcessPlace) -> None:
    before, heir = open_store(owner("one", process=other, address="10.0.0.1:6379")), open_store(owner("one"))
    before.claim("session one")
    heir.claim("session one")
    with pytest.raises(WriterReplacedError):
        before.commit([event(S1, 1)])


def test_a_program_that_was_killed_leaves_its_store_at_once(open_store: Open, ended: ProcessPlace) -> None:
    killed, following = open_store(owner("one", process=ended, driver=ended)), open_store(owner("two"))
    killed.claim("session one")
    fill_sessions(killed, S1, length=1)
    following.claim("session two")
    # An older copy of the store looks the same, so the next claim tells.
    with pytest.raises(StoreRevertedError):
        killed.commit([event(S1, 2)])
    with pytest.raises(StoreRevertedError):
        killed.renew_claim()
    with pytest.raises(StoreInUseError):
        killed.claim("session one")
    following.commit([event(S1, 2)])
    killed.give_up_claim()
    assert (owners(following), seqs(following.events(S1))) == ([("app", "two")], [1, 2])


def test_a_process_that_is_stopped_keeps_its_store(open_store: Open, other: ProcessPlace) -> None:
    stopped = open_store(owner("one", process=other, driver=other))
    stopped.claim("session one")
    run_out(stopped, by_s=60)
    with pytest.raises(StoreInUseError):
        open_store(owner("two")).claim("session two")


def test_an_owner_on_another_machine_is_told_by_whether_it_renews_its_lease(open_store: Open) -> None:
    far, near = open_store(owner("one", process=elsewhere())), open_store(owner("two"))
    far.claim("session one")
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="on host 'far', and owns it for 1"):
            near.claim("session two")
    far.renew_claim()
    with pytest.raises(StoreInUseError, match="on host 'far'"):
        near.claim("session two")
    run_out(far)
    near.claim("session two")
    assert owners(near) == [("app", "two")]


def test_a_lease_that_nobody_renews_is_not_waited_for_longer_where_the_clock_was_set_back(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    far, near = open_store(owner("one", process=elsewhere())), open_store(owner("two"))
    far.claim("session one")
    # The clock by which it was given was an hour ahead.
    run_out(far, by_s=-3_600)
    now_s = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"and owns it for 15\.0 s"):
        near.claim("session two")
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now_s + owners_module.LEASE_S - 1)
        with pytest.raises(StoreUnavailableError):
            near.claim("session two")
        patched.setattr(time, "monotonic", lambda: now_s + owners_module.LEASE_S + 1)
        near.claim("session two")
    assert owners(near) == [("app", "two")]


def test_a_session_actor_that_is_gone_is_waited_for_where_its_ray_may_start_it_again(
    open_store: Open, ended: ProcessPlace
) -> None:
    lost, following = open_store(owner("one", process=ended, address="192.0.2.1:6379")), open_store(owner("two"))
    lost.claim("session one")
    with pytest.raises(StoreUnavailableError):
        following.claim("session two")
    # Nothing listens at this port of this machine.
    gone = open_store(owner("one", process=ended, address="127.0.0.1:1"))
    gone.claim("session one")
    following.claim("session two")


def test_a_copy_of_a_file_has_no_owner(tmp_path: Path) -> None:
    first = SqlSessionStore(f"sqlite:///{tmp_path}/s.db")
    first.owner = owner("one")
    first.open()
    first.claim("session one")
    first._database.erase_traces()
    (tmp_path / "copy.db").write_bytes((tmp_path / "s.db").read_bytes())
    copy = SqlSessionStore(f"sqlite:///{tmp_path}/copy.db")
    copy.owner = owner("two")
    copy.open()
    copy.claim("session two")
    assert owners(copy) == [("app", "two")]
    copy.close()
    first.close()


def test_a_store_in_memory_and_one_that_only_looks_own_nothing(open_store: Open) -> None:
    first = open_store(owner("one"))
    first.claim("session one")
    reader = open_store(owner("two"))
    reader.owner = None
    assert isinstance(reader, TakesOwner)
    reader.claim("reader")
    memory = SqlSessionStore("sqlite://")
    memory.owner = owner("three")
    memory.open()
    memory.claim("session three")
    assert (owners(memory), memory.renew_s) == ([], None)
    memory.close()
