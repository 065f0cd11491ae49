"""Features of a Session actor: handlers of their own, what they keep of turns, and records of versions that come late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from actors.actor import Handler, Handlers
from actors.layers.services import session_actor
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.messages import UseVersions
from actors.layers.updates.rules import first_record
from actors.layers.updates.versions import KeptVersion, SessionTrees, VersionRecord
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.refs import SessionRef
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from actors.session.service import Services, SessionService
from actors.testing import PatternModel
from runtime.engine.deployment import FlowRegistry
from runtime.engine.local import LocalLink, LocalVersions
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.fixtures.session_fixture import KEY, TREE, SessionFixture
from tests.support.tool_calls import CountToolCalls
from tests.support.tool_calls import session_actor as counting_actor


def actor(services: Services) -> SessionActor:
    return SessionActor(SessionEnvironment(SqlSessionStore("sqlite://"), Topology.of(())), services=services)


class Noting(SessionService):
    """Notes which sessions are created, and when it is closed."""

    def __init__(self, name: str, noted: list[str]) -> None:
        self._name = name
        self._noted = noted

    def around(self, kind: type[p.Request[p.Message]], handler: Handler) -> Handler:
        if kind is not p.CreateSessionRequest:
            return handler

        async def handle(message: Any) -> p.Message:
            self._noted.append(f"{self._name} before")
            reply = await handler(message)
            self._noted.append(f"{self._name} after")
            return reply

        return handle

    async def close(self) -> None:
        self._noted.append(f"{self._name} closed")


async def test_services_are_around_a_handler_in_their_order_and_are_closed_with_the_actor() -> None:
    noted: list[str] = []
    ref = SessionRef(LocalLink(actor(lambda _: [Noting("first", noted), Noting("second", noted)])))
    await ref.ask(p.CreateSessionRequest(key=KEY))
    await ref.ask(p.GetSessionRequest(key=KEY))
    assert noted == ["first before", "second before", "second after", "first after"]
    await ref.stop()
    assert noted[4:] == ["first closed", "second closed"]


class SecondStop(SessionService):
    def handlers(self) -> Handlers:
        return {p.Stop: self.stop}

    async def stop(self, _: p.Stop) -> p.Ack:
        return p.Ack()


def test_a_message_with_two_handlers_is_found_when_the_actor_starts() -> None:
    with pytest.raises(TypeError, match="Stop has two handlers: SecondStop has the second one"):
        actor(lambda _: [SecondStop()])


async def counted(session: SessionFixture) -> int:
    reply = await session.ref.ask(CountToolCalls(app=KEY.app, user=KEY.user))
    return reply.calls


def with_feature(session: SessionFixture) -> SessionFixture:
    session.actor = counting_actor(SessionEnvironment(session.store, TREE, clock=session.clock))
    session.ref = SessionRef(LocalLink(session.actor))
    return session


async def test_calls_of_open_paused_and_ended_turns_count_also_after_a_restart(tmp_path: Path) -> None:
    session = with_feature(SessionFixture(tmp_path))
    await session.open("e-1")
    await session.say(session.event("root", call="c1"), session.event("root", call="c2"))
    assert await counted(session) == 2
    await session.close("e-1")
    await session.open("e-2")
    await session.say(session.event("root", turn="e-2", call="c3"), turn="e-2")
    session = with_feature(await session.restarted())
    assert await counted(session) == 3
    await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-2", runner="other"))
    await session.say(session.event("root", turn="e-2", call="c4"), turn="e-2", epoch=2)
    session = with_feature(await session.restarted())
    # Its record has the first call, and its events have both.
    assert await counted(session) == 4
    await session.close("e-2", p.Paused(agent="root", call_ids=("c4",)), epoch=2)
    session = with_feature(await session.restarted())
    assert await counted(session) == 4


async def test_an_actor_without_the_feature_goes_on_with_turns_that_have_it(tmp_path: Path) -> None:
    session = with_feature(SessionFixture(tmp_path))
    await session.open("e-1")
    await session.say(session.event("root", call="c1"))
    session = await session.restarted()
    resumed = await session.ref.ask(p.ResumeTurn(key=KEY, invocation_id="e-1", runner="other"))
    assert isinstance(resumed, p.TurnResumed)
    await session.close("e-1", epoch=2)


def tree(says: str) -> AgentTree:
    return AgentTree(LlmAgent(name="root", model=PatternModel([], default=says), description=says))


async def test_the_newest_record_counts_in_whatever_order_they_come() -> None:
    first, second, third = tree("first"), tree("second"), tree("third")
    versions = LocalVersions("app", first, FlowRegistry({}))
    for each in (second, third):
        await versions.keep_tree(each)
    environment = SessionEnvironment(
        SqlSessionStore("sqlite://"),
        first.topology,
        version=first.version.id,
    )
    trees = SessionTrees(first_record(first.version, 0.0), [first.version], versions)
    session = SessionRef(LocalLink(session_actor(environment, trees=trees)))
    records = [
        VersionRecord(number=number, current=each.version.id, kept=(KeptVersion(each.version.id, 1.0),))
        for number, each in ((1, second), (2, third))
    ]
    for record in reversed(records):
        await session.ask(UseVersions(record=record))
    found = await session.ask(p.GetTopology())
    assert (found.version, found.topology) == (third.version.id, third.topology)
    # A program that knows it is not sent it again.
    assert await session.ask(p.GetTopology(known=third.version.id)) == p.TopologyReply(version=third.version.id)
    await session.stop()
