"""Each message to a Session actor says by its class whether it is about a user, so that none goes to a store without the user."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import pytest

from actors.messages import protocol as p
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.refs.session import SessionRef
from actors.refs.sharded import ShardedSessionRef
from actors.refs.stores import StoresSessionRef
from actors.rules.placing.owners import OF_ANY_STORE, OF_ONE_USER, OF_USERS
from actors.session.actor import SessionActor
from actors.session.environment import SessionEnvironment
from runtime.stores.sql.sessions import SqlSessionStore

KINDS = sorted(
    SessionActor(SessionEnvironment(SqlSessionStore("sqlite://"), Topology.of(()))).handlers(), key=lambda kind: kind.__name__
)

TO_ONE_ACTOR = {
    p.AdmitUser: "a program that moves a user tells one store",
    p.AnnounceRunner: "a Runner tells each actor that it is the one that lives",
    p.ArchiveOldEvents: "a program asks each actor for its own sessions",
    p.AwaitDue: "a Runner waits at each actor that serves sessions of its shard",
    p.BeginArrival: "a program that moves a user tells one store",
    p.CountTurns: "`count_turns` asks each store by it",
    p.DropArrival: "the start of a deployment tells one store, the deletion of a user each of them",
    p.ForgetStates: "a Session actor tells others of its store",
    p.FindOldSessions: "a program asks each store in turn",
    p.GetArrivalDigest: "a program that moves a user asks one store",
    p.GetDrain: "a Runner asks any actor",
    p.GetPlacement: "a client asks the store before whether a user has left it",
    p.GetStoreSeat: "the start of a deployment asks the first actor of each store",
    p.LeaveStore: "a program that moves a user tells one store",
    p.ListArrivals: "a client asks the store to which a user is being moved",
    p.ListOpenTurns: "a Runner asks each actor that serves sessions of its shard",
    p.ListStoreUsers: "the start of a deployment asks the first actor of each store",
    p.PlaceUsers: "the start of a deployment tells each actor of a store",
    p.Poll: "a subscriber is known to one actor only",
    p.PruneSessions: "a program asks each actor for its own sessions",
    p.ReadUserRows: "a program that moves a user asks one store",
    p.StageUserRows: "a program that moves a user tells one store",
    p.TakeStoreSeat: "the start of a deployment tells the first actor of each store",
    p.Unsubscribe: "a subscriber is known to one actor only",
    p.WatchStates: "a Session actor asks others of its store",
}
"""Messages that no client of several stores sends, and why."""


def sends(method: object, kind: type[p.Message]) -> bool:
    """Whether a method of a client is given a message of a class, or makes one."""
    source = inspect.getsource(method)  # type: ignore[arg-type]
    known = (f"message: p.{kind.__name__})", f"message: p.{kind.__name__},", f"(p.{kind.__name__}(")
    return any(each in source for each in known)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_message_is_about_a_user_or_about_a_store(kind: type[p.Message]) -> None:
    if kind in OF_ANY_STORE:
        return
    fields = get_type_hints(kind)
    if kind in OF_USERS:
        assert (fields["app"], fields["user"]) == (str, str | None)
    elif kind in OF_ONE_USER:
        assert (fields["app"], fields["user"]) == (str, str)
    else:
        named = fields.get("key") or get_type_hints(fields["turn"])["key"]
        assert named is SessionKey


TO_ALL = [kind for kind in KINDS if kind in (*OF_ANY_STORE, *OF_USERS) and kind not in TO_ONE_ACTOR]


@pytest.mark.parametrize("kind", TO_ALL, ids=lambda kind: kind.__name__)
def test_what_concerns_all_stores_is_asked_of_all(kind: type[p.Message]) -> None:
    methods = {name for name, method in vars(SessionRef).items() if inspect.isfunction(method) and sends(method, kind)}
    of_several = vars(StoresSessionRef) if kind in OF_USERS else {**vars(ShardedSessionRef), **vars(StoresSessionRef)}
    assert methods
    assert methods <= of_several.keys()
