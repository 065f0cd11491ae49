"""The routing rules, applied to the agent tree of the deployment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from actors.errors import InvalidMessageError, RaygroveError, TransferLimitExceededError, TransferTargetError
from actors.messages import protocol as p
from actors.messages.graph import NodeTask, root_path
from actors.messages.topology import GRAPH, TASK, Topology
from actors.refs import SessionRef
from actors.rules.routing import resumption
from actors.rules.routing.branches import is_below_branch
from actors.rules.routing.selection import address_obstacle, select_agent, supervisor
from actors.rules.routing.transfer import route_refusal
from actors.runner.running_turn import Run, RunningTurn

logger = logging.getLogger(__name__)


class Routing:
    """Decides which agent of the tree a turn goes to.

    Args:
        session: the Session actor, which has the tree.
        topology: the tree, if it is known already.

    Attributes:
        topology: the tree; where it was not known empty until `load`.
    """

    def __init__(self, session: SessionRef, topology: Topology | None = None) -> None:
        self._session = session
        self.topology = topology if topology is not None else Topology.of(())

    async def load(self) -> None:
        """Ask for the tree, the first time, if it is not known."""
        if not self.topology.nodes:
            found = (await self._session.ask(p.GetTopology())).topology
            # No version is called "".
            assert found is not None
            self.topology = found

    def select(self, authors: Iterable[str], caller: str, addressed: str = "") -> str:
        """The agent that a turn begins with: see `select_agent`. Authors that are not in the tree are logged.

        Args:
            addressed: the agent to which the message is addressed; "": to none.
        """
        if addressed and self.topology.find(addressed) is not None:
            return caller if self._is_reached(caller, self._answered_below(addressed)) else addressed
        selection = select_agent(self.topology, authors, caller)
        for author in selection.unknown_authors:
            logger.warning("author %r of the log is not in the agent tree: looking at older events", author)
        return selection.agent

    def waiting_callers(self, progress: p.TurnProgress, addressed: str = "") -> list[str]:
        """The agents of the tree, or of where the turn stays that is addressed to one, whose calls the message answers.

        Of a flow its controller.
        """
        in_tree = (caller for caller in progress.callers if self._is_reached(caller, self._answered_below(addressed)))
        return resumption.through_flows(list(in_tree), progress)

    def _answered_below(self, addressed: str) -> str:
        """The agent at or below which calls are answered. A turn may leave the one to which it is addressed, and then ask."""
        return self.scope(addressed) or self.topology.root.name

    def _is_reached(self, caller: str, root: str) -> bool:
        return self.topology.find(caller) is not None and self.topology.is_below(caller, root)

    def scope(self, addressed: str) -> str | None:
        """Where transfers of a turn that is addressed to an agent stay: at or below one that no message of the user reaches."""
        if not addressed or self.topology.find(addressed) is None:
            return None
        is_alone = self.topology.is_beside(addressed) or supervisor(self.topology, addressed) is not None
        return addressed if is_alone else None

    def checked_address(self, addressed: str, *, works_alone: bool = False) -> None:
        """Refuse an agent that gets no message: see address_obstacle. Raises UnknownAgentError, InvalidMessageError."""
        if (why := address_obstacle(self.topology, addressed, works_alone=works_alone)) is not None:
            raise InvalidMessageError(why)

    def waiting_calls(self, progress: p.TurnProgress) -> list[p.WaitingCall]:
        """The calls of LLM agents in the tree that wait for the user; agents of other kinds say so themselves when they run."""
        nodes = ((call, self.topology.find(call.agent)) for call in progress.waiting)
        return [call for call, node in nodes if node is not None and node.is_llm]

    def still_waiting(self, turn: RunningTurn, scope: str | None) -> tuple[str, ...]:
        """The calls of agents at or below `scope` that wait for the user, of those that have not run since the log was read."""
        if not turn.waiting:
            return ()
        return tuple(call.call_id for call in turn.waiting if scope is None or self.topology.is_below(call.agent, scope))

    def waiting_beside(self, turn: RunningTurn, run: Run) -> list[p.WaitingCall]:
        """The calls that wait for the user, without those of a run and of what is below it."""
        return [call for call in turn.waiting if not self._is_of_run(call, run)]

    def _is_of_run(self, call: p.WaitingCall, run: Run) -> bool:
        is_here = run.branch is None or is_below_branch(call.branch, run.branch)
        return is_here and resumption.entry(self.topology, call.agent, run.agent) == run.agent

    def llm_calls(self, progress: p.TurnProgress) -> int:
        """Model calls that the log has of LLM agents; what other agents say costs none."""
        nodes = ((self.topology.find(agent), calls) for agent, calls in progress.model_calls.items())
        return sum(calls for node, calls in nodes if node is not None and node.is_llm)

    def entries(self, callers: Sequence[str], agent: str, scope: str | None) -> list[str]:
        """The agents to run, one after the other, so that each answer reaches its caller.

        Returns:
            In the order of the answers; `agent` alone when no caller is at or below `scope`.
        """
        reached = (caller for caller in callers if scope is None or self.topology.is_below(caller, scope))
        return list(dict.fromkeys(resumption.entry(self.topology, caller, scope) for caller in reached)) or [agent]

    def entry(self, agent: str) -> str:
        """The topmost supervisor above an agent, or the agent itself: where a turn goes on to reach it."""
        return resumption.entry(self.topology, agent)

    def is_in_graph(self, agent: str) -> bool:
        """True for a graph, and for what is below one."""
        return any(node.kind == GRAPH for node in self.topology.lineage(agent))

    def own_task(self, agent: str) -> NodeTask | None:
        """The task of a root that works on its message with the user, as a node does on its input; None for any other agent."""
        if not self.topology.has_tasks:
            return None
        node = self.topology[agent]
        return NodeTask(path=root_path(agent), graph=agent, is_root=True) if node.mode == TASK and node.parent is None else None

    def is_awaited(self, turn: RunningTurn, entry: str, scope: str | None) -> bool:
        """True when a caller that has not been resumed yet is reached by running `entry`."""
        return any(resumption.entry(self.topology, caller, scope) == entry for caller in turn.callers)

    def resume_at(self, turn: RunningTurn, agent: str) -> tuple[str, ...]:
        """Where a paused run of the agent goes on: at itself, or at its children that have callers below them."""
        if not turn.callers:
            return ()
        if turn.reach(agent):
            return (agent,)
        towards = (resumption.child_towards(self.topology, agent, caller) for caller in turn.callers)
        return tuple(dict.fromkeys(child for child in towards if child is not None))

    def refusal(self, turn: RunningTurn, transfer: p.Transfer, scope: str | None) -> RaygroveError | None:
        """Why a transfer cannot be made: no valid target, or one more than the turn may have; None when it can."""
        reason = route_refusal(self.topology, transfer.to, scope)
        if reason is not None:
            return TransferTargetError(transfer.agent, transfer.to, reason)
        if sum(seq < transfer.seq for seq in turn.transfers) >= turn.config.max_transfers:
            return TransferLimitExceededError(transfer.agent, transfer.to, turn.config.max_transfers)
        return None
