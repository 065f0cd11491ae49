"""Services of a Session actor: features with handlers of their own, which may do something around those of others."""

from __future__ import annotations

from typing import Any

import pytest

from actors.actor import Handler, Handlers
from actors.messages import protocol as p
from actors.messages.topology import Topology
from actors.refs import SessionRef
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from actors.session.service import Services, SessionService
from runtime.engine.local import LocalLink
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.fixtures.session_fixture import KEY


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
