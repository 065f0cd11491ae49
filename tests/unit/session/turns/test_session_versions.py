"""The versions of the tree in a Session actor: a record that comes late changes nothing."""

from __future__ import annotations

from actors import LlmAgent
from actors.layers.services import session_actor
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.messages import UseVersions
from actors.layers.updates.rules import first_record
from actors.layers.updates.versions import KeptVersion, SessionTrees, VersionRecord
from actors.messages import protocol as p
from actors.refs import SessionRef
from actors.session.environment import SessionEnvironment
from actors.testing import PatternModel
from runtime.engine.deployment import FlowRegistry
from runtime.engine.local import LocalLink, LocalVersions
from runtime.stores.sql.sessions import SqlSessionStore


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
