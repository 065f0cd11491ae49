"""Has agents build requests of model calls again that went out in the past."""

from __future__ import annotations

from actors.errors import ActorLostError, ClusterError
from actors.messages import protocol as p
from actors.messages.llm.recorded import PackedCall
from actors.refs.agent import AgentRef
from actors.runner.dispatch.versions import TurnVersions

TRIES = 2
"""Processes of an agent that are asked one after the other."""


class RebuiltRequests:
    """Answers RebuildRequests.

    Args:
        versions: of the agent tree.
    """

    def __init__(self, versions: TurnVersions) -> None:
        self._versions = versions

    async def rebuild_requests(self, message: p.RebuildRequests) -> p.ModelCallsReply:
        """Ask the agent whose calls they were. Raises ActorLostError, ClusterError, SessionNotFoundError, StoreError."""
        if not message.version:
            return _omitted(message, "the store does not say with which tree the turn began")
        try:
            version = await self._versions.load(message.version)
        except ClusterError:
            return _omitted(message, f"the tree with which it began, version {message.version!r}, is not kept any more")
        node = version.routing.topology.find(message.agent)
        if node is None:
            return _omitted(message, f"there is no agent {message.agent!r} any more")
        if not node.is_llm:
            return _omitted(message, f"{message.agent!r} is no LLM agent")
        for left in reversed(range(TRIES)):
            link = await version.directory.link(message.agent, message.key)
            try:
                return await AgentRef(link).rebuild_requests(message)
            except ActorLostError:
                version.directory.drop_link(message.agent, link)
                if not left:
                    raise
        raise AssertionError("unreachable")


def _omitted(message: p.RebuildRequests, reason: str) -> p.ModelCallsReply:
    """The reply that has no request, for one reason."""
    call = PackedCall(id="", agent=message.agent, begun_s=0.0, ended_s=0.0, omitted=reason)
    return p.ModelCallsReply(calls=[p.StoredCall(seq, call) for seq in message.seqs])
