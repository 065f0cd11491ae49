"""A user is moved from one store to another, with everything, and is in one of them whatever is lost meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, product
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from actors import Content, FunctionResponse, LlmAgent, LongRunningFunctionTool, Part, Paused
from actors.errors import RequestError, StoreError
from actors.layers.placing.messages import (
    AdmitUser,
    BeginArrival,
    GetArrivalDigest,
    LeaveStore,
    ListArrivals,
    ReadUserRows,
    StageUserRows,
)
from actors.layers.users import HoldUser, ReleaseUser
from actors.messages.protocol.base import Request
from actors.refs import Ref
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.engine.users import MovedUser
from runtime.stores.sql import placing, schema
from tests.support import inside
from tests.support.agents.conversation_tools import forever
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, run_turn, stored
from tests.support.several_stores import store_files, users_at
from tests.support.vectors.vector_agents import lro

USER = users_at(0, 2)[0]
STEPS = (
    HoldUser,
    ListArrivals,
    BeginArrival,
    ReadUserRows,
    StageUserRows,
    GetArrivalDigest,
    LeaveStore,
    AdmitUser,
    ReleaseUser,
)


def desk() -> LlmAgent:
    rules: list[Any] = [("^ask", {"call": "lro"}), ("tool:lro", "thanks"), ("hang", {"call": "forever"})]
    return LlmAgent(name="root", model=PatternModel(rules, default="hello"), tools=[LongRunningFunctionTool(lro), forever])


def fill(rt: Runtime, user: str = USER) -> None:
    """Have something of all kinds of a user."""
    for number in range(3):
        run_turn(rt, "hi", user_id=user, session_id=f"s{number}", state_delta={"user:n": number, "own": number})
    paused = rt.run(user_id=user, session_id="asking", message="ask", invocation_id="asked").result()
    assert isinstance(paused.outcome, Paused)
    rt.memory.add_session(user, "s1")
    rt.artifacts.save(user, "s1", "note.txt", Part(text="kept"))
    rt.schedules.create("daily", user_id=user, session_id="s1", message="hi", every=86_400)
    rt.sessions.rewind(user, "s2", rt.turns.list(user, "s2")[0].invocation_id)
    rt.sessions.archive(1_000)


def seen(rt: Runtime, user: str = USER) -> dict[str, Any]:
    """What programs see of a user."""
    return {
        "sessions": rt.sessions.list(user),
        "events": {session.id: stored(rt, session.id, user) for session in rt.sessions.list(user)},
        "turns": rt.turns.list(user),
        "pending": rt.pending(user_id=user),
        "memory": rt.memory.search(user, "hello"),
        "artifacts": rt.artifacts.list_keys(user, "s1"),
        "schedules": rt.schedules.list(user),
        "usage": rt.usage(user),
        "all": [(session.user_id, session.id) for session in rt.sessions.list()],
        "counts": rt.turns.counts(),
    }


def goes_on(rt: Runtime, user: str = USER) -> None:
    """Have a user's sessions go on where they were."""
    call = rt.pending(user_id=user)[0]
    answer = Content(parts=[Part(function_response=FunctionResponse(id=call.call_id, name="lro", response={"r": 1}))])
    assert rt.run(user_id=user, session_id="asking", message=answer).result().text == "thanks"
    assert author_texts(run_turn(rt, "hi", user_id=user, session_id="s1")) == [("root", "hello")]


def turns_of_stores(rt: Runtime) -> list[int]:
    return [part.counts["turns"] for part in rt.statistics().session.parts]


def test_each_table_is_moved_or_stays_for_a_reason() -> None:
    moved = {schema.sessions, *placing.OF_SESSIONS, *placing.OF_USERS}
    made_again_at_the_target = {schema.authors}
    # Versions of a state are those of its writers there, and batches are in the first store, with items of all users.
    of_the_store = {schema.schema_version, schema.writers, schema.owners, schema.seats, schema.placements, schema.arrivals}
    of_the_store |= {schema.shared_versions, schema.batches, schema.batch_items}
    assert moved | made_again_at_the_target | of_the_store == set(schema.metadata.tables.values())


def test_a_user_who_was_moved_has_everything_and_goes_on_there(deploy: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 3)
    with deploy(desk(), session_store=urls[:2]) as rt:
        fill(rt)
        before = seen(rt)
        moved = rt.users.move(USER, urls[1])
        assert (moved.before, moved.now) == (0, 1)
        assert moved.rows > 20
        assert seen(rt) == before
        assert rt.users.move(USER, urls[1]).rows == 0
        for url in (urls[0], urls[1]):
            rt.users.move(USER, url)
            assert seen(rt) == before
    with deploy(desk(), session_store=urls) as rt:
        assert seen(rt) == before
        goes_on(rt)
        assert turns_of_stores(rt)[1] == 2
        rt.users.move(USER, urls[2])
        assert author_texts(run_turn(rt, "hi", user_id=USER, session_id="s1")) == [("root", "hello")]
        assert turns_of_stores(rt)[2] == 1
        assert rt.users.delete(USER).sessions == 4
        assert rt.sessions.list() == []
        assert author_texts(run_turn(rt, "hi", user_id=USER)) == [("root", "hello")]
        assert len(stored(rt, "s1", USER)) == 2


def test_an_agent_that_has_the_floor_has_it_in_the_other_store(deploy: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    other = LlmAgent(name="other", model=PatternModel([], default="still here"))
    root = LlmAgent(name="root", model=PatternModel([("^to other", {"transfer": "other"})], default="root"), sub_agents=[other])
    with deploy(root, session_store=urls) as rt:
        run_turn(rt, "to other", user_id=USER)
        assert rt.users.move(USER, urls[1]).now == 1
        assert author_texts(run_turn(rt, "hi", user_id=USER)) == [("other", "still here")]


def test_a_user_without_data_is_told_of_and_begins_in_the_other_store(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt:
        first, again = (rt.users.move(USER, urls[1]) for _ in range(2))
        assert (first.before, first.now, first.has_data) == (0, 1, False)
        assert (again.before, again.now, again.has_data) == (1, 1, False)
        run_turn(rt, "hi", user_id=USER)
        assert turns_of_stores(rt) == [0, 1]
        assert rt.users.move(USER, urls[1]).has_data
        assert rt.users.move(USER, urls[0]).has_data


def test_a_program_that_knows_the_store_before_finds_the_user(deploy: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with deploy(desk(), session_store=urls) as rt:
        fill(rt)
        rt.users.move(USER, urls[1])
        for _ in range(2):
            rt._client.engine.session.note_store("test", USER, 0)
            assert author_texts(run_turn(rt, "hi", user_id=USER, session_id="s1")) == [("root", "hello")]
        rt._client.engine.session.note_store("test", USER, 0)
        assert isinstance(rt.attach(user_id=USER, session_id="asking", invocation_id="asked").result().outcome, Paused)
        goes_on(rt)


class _LostError(Exception):
    """The program that moves is lost."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("restarts", [True, False], ids=["restarted", "running"])
def test_a_user_is_in_one_store_when_the_program_that_moves_is_lost(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: type[Request[Any]], when: str, restarts: bool
) -> None:
    urls = store_files(tmp_path, 2)
    ask = Ref._ask
    lost: list[bool] = []
    tokens: list[str] = []

    async def losing(self: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
        if lost:
            raise _LostError
        if isinstance(message, HoldUser):
            tokens.append(message.token)
        if isinstance(message, step):
            if when == "after":
                await ask(self, message, *args, **options)
            lost.append(True)
            raise _LostError
        return await ask(self, message, *args, **options)

    rt = local(desk(), session_store=urls)
    rt.start()
    fill(rt)
    before = seen(rt)
    with monkeypatch.context() as patched:
        patched.setattr(Ref, "_ask", losing)
        with pytest.raises(_LostError):
            rt.users.move(USER, urls[1])
    if restarts:
        rt.close()
        rt = local(desk(), session_store=urls)
        rt.start()
    else:
        # The hold of a program that is lost ends by itself, a minute later.
        rt._client.run(rt._client.engine.session.ask(ReleaseUser(app="test", user=USER, token=tokens[0])))
    has_left = STEPS.index(step) > STEPS.index(LeaveStore) or (step is LeaveStore and when == "after")
    assert seen(rt) == before
    goes_on(rt)
    assert turns_of_stores(rt)[int(has_left)] >= 2
    assert turns_of_stores(rt)[1] == (2 if has_left else 0)
    again = rt.users.move(USER, urls[1])
    assert (again.before, again.now) == (int(has_left), 1)
    assert len(seen(rt)["sessions"]) == 4
    rt.close()


def test_a_user_who_is_admitted_by_two_at_once_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that moves the user asks for it, and so does a request that finds the user arriving."""
    urls = store_files(tmp_path, 2)
    ask, reads, done = Ref._ask, count(), asyncio.Event()

    async def late(read: Callable[..., Any], access: object, function: Callable[..., Any], *args: Any) -> Any:
        found = await read(access, function, *args)
        if function.__name__ == "arrivals" and next(reads) == 1:
            # The second has seen that the user arrives when the first has finished.
            async with asyncio.timeout(5):
                await done.wait()
        return found

    async def first(ref: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
        reply = await ask(ref, message, *args, **options)
        done.set()
        return reply

    async def twice(ref: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
        if not isinstance(message, AdmitUser):
            return await ask(ref, message, *args, **options)
        with monkeypatch.context() as patched:
            inside.around(patched, "read the store", late)
            return (await asyncio.gather(*(each(ref, message, *args, **options) for each in (first, ask))))[1]

    with Deploy("local", tmp_path)(desk(), session_store=urls) as rt:
        fill(rt)
        before = seen(rt)
        monkeypatch.setattr(Ref, "_ask", twice)
        assert rt.users.move(USER, urls[1]).now == 1
        assert seen(rt) == before


class KillingMove:
    """Kills the Session actor of a store at a step of a move.

    Attributes:
        pid: of the actor.
        asks: called right then, by a thread.
    """

    def __init__(self, step: Any, when: str, pid: int, asks: Callable[[], object]) -> None:
        self._ask: Any = Ref._ask
        self._step, self._when, self._pid, self._asks = step, when, pid, asks
        self.asked: list[asyncio.Future[object]] = []

    async def __call__(self, ref: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
        is_moment = isinstance(message, self._step) and not self.asked
        if is_moment and self._when == "before":
            self._kill()
        reply = await self._ask(ref, message, *args, **options)
        if is_moment and self._when == "after":
            self._kill()
            # What is asked meanwhile comes before the next step.
            await asyncio.wait(self.asked, timeout=1.0)
        return reply

    def _kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self.asked.append(asyncio.get_running_loop().run_in_executor(None, self._asks))


@pytest.mark.soak
@pytest.mark.timeout(280)
@pytest.mark.usefixtures("local_ray")
def test_a_user_is_in_one_store_when_a_session_actor_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = store_files(tmp_path, 2)
    with Deploy("ray", tmp_path)(desk(), session_store=urls) as rt:
        fill(rt)
        before, at, refused = seen(rt), 0, 0
        for said, (step, when, whose) in enumerate(product(STEPS, ("before", "after"), (0, 1)), start=1):
            pid = rt.statistics().session.parts[(at + whose) % 2].pid
            killing = KillingMove(step, when, pid, lambda: run_turn(rt, "hi", user_id=USER, session_id="meanwhile"))
            with monkeypatch.context() as patched:
                patched.setattr(Ref, "_ask", lambda ref, *args, killing=killing, **options: killing(ref, *args, **options))
                try:
                    at = rt.users.move(USER, urls[1 - at]).now
                except StoreError:
                    refused += 1
            (asked,) = killing.asked
            until(asked.done)
            assert asked.result() is not None
            # The user, and what was said meanwhile, is there once.
            assert len(stored(rt, "meanwhile", USER)) == 2 * said, (step, when, whose)
            assert len([turn for turn in rt.turns.list(USER) if turn.session_id != "meanwhile"]) == len(before["turns"])
        # Where the actor is lost that holds the user, from the hold until LeaveStore is done; elsewhere the move goes on.
        between = STEPS[STEPS.index(ListArrivals) : STEPS.index(LeaveStore)]
        assert refused == 1 + 2 * len(between) + 1
        rt.sessions.delete(USER, "meanwhile")
        assert seen(rt)["events"] == before["events"]
        goes_on(rt)


def test_turns_are_waited_for_and_what_comes_meanwhile_goes_on_in_the_other_store(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt:
        fill(rt)
        hanging = rt.run(user_id=USER, session_id="s0", message="hang", invocation_id="hanging")
        events = iter(hanging)
        next(events)
        with pytest.raises(RequestError, match=r"was not moved within 0.2 s: turn 'hanging' runs"):
            rt.users.move(USER, urls[1], timeout=0.2)
        assert author_texts(run_turn(rt, "hi", user_id=USER, session_id="s1")) == [("root", "hello")]
        mover = Thread(target=rt.users.move, args=(USER, urls[1]))
        mover.start()
        hanging.cancel()
        mover.join()
        ask, came = Ref._ask, []

        async def with_a_request(self: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
            if isinstance(message, LeaveStore):
                came.append(rt.run(user_id=USER, session_id="s1", message="hi"))
                came.append(rt.run(user_id=USER, session_id="new", message="hi"))
                await asyncio.sleep(0.05)
            return await ask(self, message, *args, **options)

        monkeypatch.setattr(Ref, "_ask", with_a_request)
        rt.users.move(USER, urls[0])
        assert [turn.result().text for turn in came] == ["hello", "hello"]
        assert len(stored(rt, "new", USER)) == 2
        assert len(rt.sessions.list()) == 5


YOUNG_S = 0.001
"""An age that all has which was stored before."""


async def set_now(event: asyncio.Event) -> None:
    event.set()


class AtStep:
    """Does something once when a step of a move is about to be taken, on the loop of the program."""

    def __init__(self, step: type[Request[Any]], does: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._ask: Any = Ref._ask
        self._step = step
        self._does = does
        self.has_come = False
        self.is_other_there = asyncio.Event()

    async def __call__(self, ref: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
        if isinstance(message, self._step) and not self.has_come:
            self.has_come = True
            await self._does()
        reply = await self._ask(ref, message, *args, **options)
        if isinstance(message, BeginArrival) or (isinstance(message, HoldUser) and not reply.is_idle):
            self.is_other_there.set()
        return reply

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on."""
        monkeypatch.setattr(Ref, "_ask", lambda ref, *args, **options: self(ref, *args, **options))


@pytest.mark.parametrize("other", [1, 2], ids=["to the same store", "to another one"])
def test_of_two_moves_at_once_the_second_waits_and_the_user_is_whole(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: int
) -> None:
    urls = store_files(tmp_path, 3)
    with local(desk(), session_store=urls) as rt, ThreadPoolExecutor() as pool:
        user = users_at(0, 3)[0]
        fill(rt, user)
        before, second = seen(rt, user), list[Future[MovedUser]]()

        async def move_as_well() -> None:
            at_step.is_other_there.clear()
            second.append(pool.submit(rt.users.move, user, urls[other]))
            async with asyncio.timeout(20):
                await at_step.is_other_there.wait()

        at_step = AtStep(LeaveStore, move_as_well)
        at_step.patch(monkeypatch)
        moved = rt.users.move(user, urls[1])
        assert (moved.before, moved.now) == (0, 1)
        assert second[0].result().now == other
        assert seen(rt, user) == before
        goes_on(rt, user)
        assert turns_of_stores(rt)[other] == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("other", [1, 2], ids=["to the same store", "to another one"])
@pytest.mark.parametrize("step", STEPS[1:-1], ids=lambda step: step.__name__)
def test_a_move_that_goes_on_after_another_one_has_taken_its_place_changes_nothing(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: type[Request[Any]], other: int
) -> None:
    urls = store_files(tmp_path, 3)
    with local(desk(), session_store=urls) as rt, ThreadPoolExecutor() as pool:
        user = users_at(0, 3)[0]
        fill(rt, user)
        before, ask = seen(rt, user), Ref._ask
        has_stopped, goes_on_again = threading.Event(), asyncio.Event()
        holds: list[HoldUser] = []

        async def noting(ref: Ref, message: Request[Any], *args: Any, **options: Any) -> Any:
            if isinstance(message, HoldUser):
                holds.append(message)
            return await ask(ref, message, *args, **options)

        async def stop() -> None:
            has_stopped.set()
            await goes_on_again.wait()

        monkeypatch.setattr(Ref, "_ask", noting)
        AtStep(step, stop).patch(monkeypatch)
        first = pool.submit(rt.users.move, user, urls[1])
        assert has_stopped.wait(20)
        # As a Session actor does that is lost: it lets go of the user.
        release = ReleaseUser(app="test", user=user, token=holds[0].token)
        rt._client.run(rt._client.engine.session.ask(release))
        assert rt.users.move(user, urls[other]).now == other
        assert seen(rt, user) == before
        rt._client.run(set_now(goes_on_again))
        if step is AdmitUser:
            assert first.result().now == 1
        else:
            with pytest.raises(StoreError):
                first.result()
        assert seen(rt, user) == before
        goes_on(rt, user)
        assert turns_of_stores(rt)[other] == 2


def test_a_change_that_comes_while_a_user_is_moved_is_made_in_the_other_store(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt, ThreadPoolExecutor() as pool:
        fill(rt)
        pauses: list[Future[Any]] = []

        async def pause() -> None:
            pauses.append(pool.submit(rt.schedules.pause, "daily", user_id=USER))
            await asyncio.wait([asyncio.wrap_future(pauses[0])], timeout=0.3)

        AtStep(LeaveStore, pause).patch(monkeypatch)
        assert rt.users.move(USER, urls[1]).now == 1
        assert pauses[0].result().state == "paused"
        assert [schedule.state for schedule in rt.schedules.list(USER)] == ["paused"]


@pytest.mark.parametrize("to", [0, 1], ids=["to a store that was pruned", "to one that comes later"])
def test_pruning_leaves_out_nothing_of_a_user_who_is_moved_meanwhile(
    local: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: int
) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt, ThreadPoolExecutor() as pool:
        user = users_at(1 - to, 2)[0]
        fill(rt, user)
        old = rt.sessions.prune(YOUNG_S, dry_run=True).sessions
        assert old > 2
        pruned: list[Future[Any]] = []

        async def prune() -> None:
            pruned.append(pool.submit(rt.sessions.prune, YOUNG_S))
            await asyncio.wait([asyncio.wrap_future(pruned[0])], timeout=0.3)

        AtStep(LeaveStore, prune).patch(monkeypatch)
        assert rt.users.move(user, urls[to]).now == to
        assert pruned[0].result().sessions == old
        assert rt.sessions.prune(YOUNG_S, dry_run=True).sessions == 0


def test_a_user_whom_another_program_holds_is_waited_for(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt:
        fill(rt)
        hold = HoldUser(app="test", user=USER, moves=True, token="another program")
        assert rt._client.run(rt._client.engine.session.ask(hold)).is_idle
        with pytest.raises(RequestError, match=r"within 0\.2 s: another program moves or deletes the user, or was lost"):
            rt.users.move(USER, urls[1], timeout=0.2)
        release = ReleaseUser(app="test", user=USER, token="another program")
        rt._client.run(rt._client.engine.session.ask(release))
        assert rt.users.move(USER, urls[1]).now == 1


def test_what_cannot_be_moved_is_refused(local: Deploy, tmp_path: Path) -> None:
    urls = store_files(tmp_path, 2)
    with local(desk(), session_store=urls) as rt:
        with pytest.raises(RequestError, match=r"other.db' is none of the stores of app 'test': session store .*store-0.db'"):
            rt.users.move(USER, f"sqlite:///{tmp_path}/other.db")
        with pytest.raises(StoreError):
            rt.users.move(USER, "nowhere")
        assert rt.users.move("unknown", urls[1]).rows == 0
    with local(desk(), session_store=f"sqlite:///{tmp_path}/one.db") as rt, pytest.raises(RequestError, match="has one store"):
        rt.users.move(USER, f"sqlite:///{tmp_path}/one.db")
