"""The client of the Session actor."""

from __future__ import annotations

from collections.abc import Sequence

from actors.messages import protocol as p
from actors.messages.memory import MemoryEntry
from actors.messages.session import SessionKey
from actors.messages.topology import Topology
from actors.refs.base import Ref


class SessionRef(Ref):
    """A client of the Session actor."""

    @property
    def shards(self) -> Sequence[SessionRef]:
        """A client of each Session actor of the deployment: see `actors.refs.sharded`. Of one alone, this."""
        return (self,)

    def of(self, key: SessionKey) -> SessionRef:
        """A client of the Session actor that keeps a session."""
        return self

    async def topology(self) -> Topology:
        """The parent map."""
        return (await self._ask(p.GetTopology(), p.TopologyReply)).topology

    async def find_turn(self, message: p.FindTurn) -> p.TurnFound:
        """Who could take a message. Raises SessionNotFoundError, UnknownFunctionCallError."""
        return await self._ask(message, p.TurnFound)

    async def open_turn(self, message: p.OpenTurn) -> p.OpenTurnReply:
        """Begin a turn, once none runs. Raises SessionNotFoundError, SessionBusyError, UnknownFunctionCallError, StoreError."""
        return await self._ask(message, (p.TurnBegun, p.TurnResumed, p.TurnJoined, p.InterruptFirst, p.ResumeFirst))

    async def list_open_turns(self, message: p.ListOpenTurns) -> Sequence[tuple[SessionKey, str]]:
        """The turns that a Runner's predecessor has left open."""
        return (await self._ask(message, p.OpenTurnsReply)).turns

    async def resume_turn(self, message: p.ResumeTurn) -> p.ResumeTurnReply:
        """Go on with a turn whose Runner was lost. Raises StoreError."""
        return await self._ask(message, (p.TurnResumed, p.TurnKept, p.NothingToResume))

    async def abandon_runs(self, message: p.AbandonRuns) -> p.TurnProgress:
        """Give up runs that were lost, and learn how far their turn is. Raises FencedError when it has ended."""
        return await self._ask(message, p.TurnProgress)

    async def close_turn(self, message: p.CloseTurn) -> None:
        """End a turn. Raises FencedError, StoreError."""
        await self._ask(message, p.Ack)

    async def cancel_turn(self, message: p.CancelTurn) -> None:
        """Take a turn that has not begun out of the line."""
        await self._ask(message, p.Ack)

    async def append(self, message: p.Append) -> p.Appended:
        """Store events. Raises FencedError, StoreError."""
        return await self._ask(message, p.Appended)

    async def tell_partial(self, message: p.TellPartial) -> None:
        """Deliver pieces of an answer."""
        await self._ask(message, p.Ack)

    async def fetch(self, message: p.Fetch) -> p.Fetched:
        """What is new in a log. Raises SessionNotFoundError."""
        return await self._ask(message, p.Fetched)

    async def subscribe(self, message: p.Subscribe) -> p.TurnStatus:
        """Follow a turn, and say where it is. Raises InvocationNotFoundError, SessionNotFoundError."""
        return (await self._ask(message, p.Subscribed)).status

    async def poll(self, message: p.Poll) -> p.News:
        """Wait for news."""
        return await self._ask(message, p.News)

    async def read_turn(self, message: p.ReadTurn) -> p.TurnRead:
        """What a turn's agents have said, a page of it. Raises SessionNotFoundError, StoreError."""
        return await self._ask(message, p.TurnRead)

    async def unsubscribe(self, message: p.Unsubscribe) -> None:
        """Go away."""
        await self._ask(message, p.Ack)

    async def create_session(self, message: p.CreateSessionRequest) -> p.SessionReply:
        """Create a session. Raises SessionExistsError, StoreError."""
        return await self._ask(message, p.SessionReply)

    async def get_session(self, message: p.GetSessionRequest) -> p.SessionReply:
        """Read a session, None when there is none."""
        return await self._ask(message, p.SessionReply)

    async def list_sessions(self, message: p.ListSessionsRequest) -> p.SessionsReply:
        """List sessions, the one written last first."""
        return await self._ask(message, p.SessionsReply)

    async def delete_session(self, message: p.DeleteSessionRequest) -> None:
        """Delete a session. Raises SessionBusyError."""
        await self._ask(message, p.Ack)

    async def append_event(self, message: p.AppendEventRequest) -> int:
        """Add an event outside of turns and return its place. Raises SessionNotFoundError, SessionBusyError."""
        return (await self._ask(message, p.Appended)).first_seq

    async def rewind(self, message: p.RewindRequest) -> None:
        """See a session as before a turn. Raises InvocationNotFoundError, SessionNotFoundError, SessionBusyError."""
        await self._ask(message, p.Ack)

    async def remember(self, message: p.RememberSession) -> None:
        """Put a session into memory. Raises SessionNotFoundError, NoMemoryError, StoreError."""
        await self._ask(message, p.Ack)

    async def forget(self, message: p.ForgetSession) -> None:
        """Take a session out of memory. Raises NoMemoryError, StoreError."""
        await self._ask(message, p.Ack)

    async def search_memory(self, message: p.SearchMemory) -> list[MemoryEntry]:
        """What is remembered of a user, the best first. Raises NoMemoryError, StoreError."""
        return list((await self._ask(message, p.MemoriesReply)).entries)

    async def statistics(self) -> p.Statistics:
        """What it has done."""
        return await self._ask(p.GetStatistics(), p.Statistics)

    async def stop(self) -> None:
        """Write what waits, close the store."""
        await self._ask(p.Stop(), p.Ack)
