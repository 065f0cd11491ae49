"""Memory of a user's past sessions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.memory import MemoryEntry
from runtime.driver.inputs import Id
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation


class Remember(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The session whose texts are added to memory."""

    session_id: Id


class MemoryQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words to look for."""

    query: str


class MemoryList(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of memory, the best first."""

    entries: Sequence[MemoryEntry]


async def add_to_memory(call: Call) -> None:
    """Add what was said in a session so far to the memory of its user."""
    given = await call.body(Remember)
    await call.runtime.aio.memory.add_session(call.user_id, given.session_id)


async def search_memory(call: Call) -> MemoryList:
    """Search the memory of a user."""
    given = await call.body(MemoryQuery)
    return MemoryList(entries=await call.runtime.aio.memory.search(call.user_id, given.query))


async def forget_session(call: Call) -> None:
    """Delete the entries of a session from memory; its log stays."""
    await call.runtime.aio.memory.delete_session(call.user_id, call.session_id)


OPERATIONS = [
    HttpOperation("POST", "/v1/apps/{app}/memory", add_to_memory, body=Remember, status=204),
    HttpOperation("POST", "/v1/apps/{app}/memory/search", search_memory, body=MemoryQuery, gives=MemoryList),
    HttpOperation("DELETE", "/v1/apps/{app}/memory/{session}", forget_session, status=204),
]
"""What can be done with what is kept of a user."""
