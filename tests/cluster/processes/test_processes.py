"""Processes of actors on Ray: which there are, their caches and connections, and what is left of lost and replaced ones."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import ray
from ray.experimental import internal_kv

from actors import CallbackContext, Content, Event, LlmAgent, ModelLimits, Plugin
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import MIB
from actors.messages.event import new_event_id, now_s
from actors.messages.protocol.statistics import ConnectionFigures
from actors.messages.session import SessionKey
from actors.refs import SessionRef
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.machine.processes import stop
from tests.support.models.waiting_model import GatedModel
from tests.support.polling import until
from tests.support.runtimes import Deploy, author_texts, ray_actor_of, run_turn, stored

pytestmark = pytest.mark.usefixtures("local_ray")


def tree() -> LlmAgent:
    model = PatternModel([("bill", {"transfer": "billing"}), ("", "hello")])
    answers = PatternModel([("", "paid")])
    return LlmAgent(
        name="concierge",
        model=model,
        sub_agents=[LlmAgent(name="billing", model=answers), LlmAgent(name="shipping", model=answers)],
    )


def test_each_agent_that_is_spoken_to_is_an_actor_with_a_process_of_its_own_until_the_end(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(tree()) as rt:
        assert rt.statistics().agents == {}
        run_turn(rt, "hello")
        assert set(rt.statistics().agents) == {"concierge"}
        run_turn(rt, "my bill please")
        seen = rt.statistics()
        agents, everybody = seen.agents, [seen.session, seen.runner, *seen.agents.values()]
        assert {name: agent.counts["runs"] for name, agent in agents.items()} == {"concierge": 2, "billing": 1}
        assert agents["billing"].actor.startswith("test/host/")
        assert ray_actor_of(rt, "billing") != ray_actor_of(rt, "concierge")
        assert {actor.actor for actor in everybody} >= {"test/session", "test/runner"}
        assert len({actor.actor for actor in everybody}) == len({actor.pid for actor in everybody}) == 4
    for actor in everybody:
        with pytest.raises(ValueError, match=actor.actor):
            ray.get_actor(actor.actor, namespace=Settings().namespace)
        assert not Path(f"/proc/{actor.pid}").exists()


def test_its_process_ends_and_what_it_was_asked_is_done_by_the_one_in_its_place(tmp_path: Path) -> None:
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=PatternModel([], default="here I am"))) as rt:
        run_turn(rt, "one")
        before = rt.statistics().session.pid
        file = next(tmp_path.glob("**/*.db"))
        with closing(sqlite3.connect(file)) as connection:
            ((writer,),) = connection.execute("SELECT writer FROM raygrove_writers").fetchall()
        # As the heir does that Ray starts on another node.
        heir = SqlSessionStore(f"sqlite:///{file}")
        heir.open()
        heir.claim(writer)
        heir.close()
        run_turn(rt, "two")
        assert rt.statistics().session.pid != before
        assert author_texts(stored(rt)) == [
            *(("user", "one"), ("root", "here I am")),
            *(("user", "two"), ("root", "here I am")),
        ]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT * FROM raygrove_writers").fetchall() == []


async def take_over(session: SessionRef, key: SessionKey, invocation_id: str) -> None:
    """Take the turn over with a new epoch, and answer in the agent's place."""
    resumed = await session.ask(p.ResumeTurn(key=key, invocation_id=invocation_id, runner="another"))
    assert isinstance(resumed, p.TurnResumed)
    answer = Event(
        id=new_event_id(),
        invocation_id=invocation_id,
        author="root",
        timestamp=now_s(),
        content=Content.of_text("said in time", role="model"),
    )
    turn = p.TurnRef(key, invocation_id, resumed.epoch, generation=resumed.generation)
    await session.ask(p.Append(turn=turn, events=[encode(answer)], outcome=p.Finished(agent="root"), selected="root"))


def test_who_wakes_up_behind_the_end_of_its_turn_writes_nothing(tmp_path: Path) -> None:
    model = GatedModel(tmp_path, "said late")
    with Deploy("ray", tmp_path)(LlmAgent(name="root", model=model)) as rt:
        turn = rt.run(user_id="ada", session_id="s1", message="go")
        model.wait_until_called()
        zombie = rt.statistics().agents["root"].pid
        stop(zombie)
        try:
            rt._client.run(take_over(rt._client.session, SessionKey("test", "ada", "s1"), turn.invocation_id))
            assert author_texts(list(turn)) == [("root", "said in time")]
        finally:
            os.kill(zombie, signal.SIGCONT)
        model.release()
        while rt.statistics().runner.counts["running"]:
            pass
        assert author_texts(stored(rt)) == [("user", "go"), ("root", "said in time")]
        seen = rt.statistics().agents["root"]
        assert (seen.pid, seen.counts["runs"], seen.counts["events"]) == (zombie, 1, 0)
        following = rt.run(user_id="ada", session_id="s1", message="again")
        model.wait_until_called()
        model.release()
        assert following.result().text == "said late"


LOSSES = 5


class CountsProcesses(Plugin):
    """Puts the number of processes that the Runner has an object of in the place of a message that asks for it."""

    def on_user_message_callback(self, context: CallbackContext, content: Content) -> Content | None:
        # Imported and looked at where it runs. What only a collection would find counts.
        import gc

        from runtime.cluster.processes.ray_processes import RayProcess

        if content.text != "count":
            return None
        return Content.of_text(str(sum(isinstance(each, RayProcess) for each in gc.get_objects())), role="user")


def exported() -> int:
    """Classes that Ray's control service has for actors of this program: others use the same Ray."""
    job = ray.get_runtime_context().get_job_id()
    return len(internal_kv._internal_kv_list(f"ActorClass:{job}:".encode(), namespace=b"fun"))


@pytest.mark.full
def test_nothing_is_kept_of_lost_processes(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([], default="ok"))
    settings = Settings(max_live_agents=1, spare_hosts=1)
    with Deploy("ray", tmp_path)(root, plugins=[CountsProcesses()], settings=settings) as rt:
        run_turn(rt, "hi")
        before = exported()
        assert before
        for _ in range(LOSSES):
            os.kill(rt.statistics().agents["root"].pid, signal.SIGKILL)
            run_turn(rt, "hi")
        assert exported() == before

        def kept() -> int:
            run_turn(rt, "count", "counts")
            return int([event for event in stored(rt, "counts") if event.author == "user"][-1].text)

        # The process of the agent, and one that stands ready. A spare may just be started in the place of another.
        until(lambda: kept() <= 2)
        assert rt.statistics().runner.counts["lost"] == LOSSES


SESSIONS, TEXT = 60, "x" * 200_000

ROOM = 8 * MIB


def taken(rt: Runtime) -> int:
    """Bytes of all caches."""
    seen = rt.statistics()
    views = sum(agent.counts["bytes_of_views"] for agent in seen.agents.values())
    return seen.session.counts["bytes_in_memory"] + views


@pytest.mark.full
def test_all_processes_together_take_no_more_than_the_memory_for_caches(tmp_path: Path) -> None:
    helper = LlmAgent(name="helper", model=PatternModel([("long", TEXT)], default="ok"))
    root = LlmAgent(name="root", model=PatternModel([("long|go", {"transfer": "helper"})], default="ok"), sub_agents=[helper])
    with Deploy("ray", tmp_path)(root, settings=Settings(max_cache_bytes=ROOM, max_live_agents=2)) as rt:
        for number in range(SESSIONS):
            run_turn(rt, "long", f"s{number}")
        seen = rt.statistics()
        assert len({seen.session.pid, *(agent.pid for agent in seen.agents.values())}) == 3
        # What was used lately is kept for some seconds, and as often each process looks what the others take.
        until(lambda: run_turn(rt, "go", "again") and taken(rt) <= ROOM)


@pytest.mark.parametrize("transport", ["direct", "ray"])
def test_every_process_tells_how_messages_travel_to_and_from_it(
    transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYGROVE_TRANSPORT", transport)
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    settings = Settings(model_limits={"PatternModel": ModelLimits(max_concurrency=2)})
    with Deploy("ray", tmp_path)(root, settings=settings) as rt:
        run_turn(rt, "hi")
        before, figures = figures_of(rt), figures_of(rt)
    assert {each.transport for each in figures.values()} == {transport}
    assert len(figures) == 5
    assert not any(each.unreached for each in figures.values())
    assert {name: (each.made, each.accepted) for name, each in figures.items()} == (
        {
            "driver": (3, 0),  # to the Session actor, the Runner and the limiter
            "session": (0, 3),
            "runner": (2, 1),  # to the Session actor and the agent's process
            "limiter": (0, 2),
            "process": (2, 1),  # to the Session actor and the limiter
        }
        if transport == "direct"
        else dict.fromkeys(figures, (0, 0))
    )
    grown = {name for name, each in figures.items() if each.read_bytes > before[name].read_bytes}
    assert grown == (set(figures) if transport == "direct" else set())
    assert all((each.written_bytes > 0) == (transport == "direct") for each in figures.values())


def figures_of(rt: Runtime) -> dict[str, ConnectionFigures]:
    """The figures of the driver and of every process."""
    seen = rt.statistics()
    assert seen.limiter is not None
    (process,) = seen.processes.values()
    found = {
        "driver": seen.connections,
        "session": seen.session.connections,
        "runner": seen.runner.connections,
        "limiter": seen.limiter.connections,
        "process": process.connections,
    }
    return {name: each for name, each in found.items() if each is not None}
