"""Each message to a Session actor says by its class whether it is about a user, so that none goes to a store without the user."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from actors.layers.listing.messages import ListTurns
from actors.layers.services import session_actor
from actors.messages import protocol as p
from actors.messages.protocol.base import Route, replies_to
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.session.environment import SessionEnvironment
from runtime.stores.sql.sessions import SqlSessionStore

KINDS = sorted(
    session_actor(SessionEnvironment(SqlSessionStore("sqlite://"), Topology.of(()))).handlers(), key=lambda kind: kind.__name__
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_message_names_what_it_is_about(kind: type[p.Request[p.Message]]) -> None:
    fields = get_type_hints(kind)
    match kind.route:
        case Route.SESSION:
            named = fields.get("key") or get_type_hints(fields["turn"])["key"]
            assert named is SessionKey
        case Route.USER | Route.USER_ACTORS:
            assert fields["app"] is str
            assert fields["user"] in (str, str | None)
        case Route.ALL:
            assert all("joined" in vars(reply) for reply in replies_to(kind))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.route is Route.USER], ids=lambda kind: kind.__name__)
def test_lists_over_all_users_are_joined(kind: type[p.Request[p.Message]]) -> None:
    if get_type_hints(kind)["user"] == str | None and kind is not ListTurns:
        assert "joined" in vars(kind)
