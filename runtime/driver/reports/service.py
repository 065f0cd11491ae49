"""Reports of one turn: a part of `rt.turns` and `rt.aio.turns`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from actors.layers.graphs.rules.shape import EdgeReason
from actors.layers.listing.client import get_turn
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.messages.turn_info import TurnInfo
from actors.rules.checks.ids import checked_id, checked_key
from runtime.driver.engine_client import EngineClient
from runtime.driver.reports.edges import TurnEdges
from runtime.driver.reports.events import events_of
from runtime.driver.reports.flow_board import FlowBoard, TurnBoards
from runtime.driver.waits import M, RuntimeService, waits
from runtime.observability.logs.kept import LogLine


class TurnReports(RuntimeService[M]):
    """Reports of a turn, as a part of the turns service.

    Args:
        topology: gives the tree; it may wait.
    """

    def __init__(self, client: EngineClient, mode: type[M], topology: Callable[[], Topology]) -> None:
        super().__init__(client, mode)
        self._topology = topology

    @waits
    async def log_lines(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[LogLine]:
        """List what agents have logged and printed in a turn, as far as the deployment keeps it, the oldest first.

        On Ray that is the newest 1 MiB of each Runner and Session actor; on the local engine the newest 2,000 records of the
        program, without what was printed. A turn that is in the store for longer has no lines any more.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the store cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        return await self._client.engine.log_lines((key, turn.invocation_id))

    @waits
    async def edges(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[EdgeReason]:
        """Tell for each edge that graphs have come to in a turn why it was taken, or was not.

        The log says which nodes ended and what they said, and the tree as it is now which edges there are.

        Returns:
            The edges of all runs of graphs, in the order in which the nodes before them ended.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        # A program that has joined asks for the tree, and waits for it.
        edges = TurnEdges(await asyncio.to_thread(self._topology))
        async for event in events_of(self._client.session, key, turn):
            edges.add(event)
        return edges.reasons

    @waits
    async def boards(self, user_id: str, session_id: str, invocation_id: str) -> Sequence[FlowBoard]:
        """List the boards of the flows that a turn has run: their tasks, what each needs, who works on it, and its result.

        Raises:
            InvocationNotFoundError, SessionNotFoundError, InvalidIdError: there is no such turn.
            StoreError: the log cannot be read.
        """
        key, turn = await self._turn(user_id, session_id, invocation_id)
        boards = TurnBoards()
        async for event in events_of(self._client.session, key, turn):
            boards.add(event)
        return boards.boards(runs=turn.state == "running")

    async def _turn(self, user_id: str, session_id: str, invocation_id: str) -> tuple[SessionKey, TurnInfo]:
        key = checked_key(self._client.app_name, user_id, session_id)
        checked = checked_id("invocation id", invocation_id)
        return key, await get_turn(self._client.session, key, checked)
