"""How many new connections one pass of an event loop takes.

libuv takes one for each handle on a listening socket. While passes are long and many connect, the last would be heard only
after as many passes: by a busy server after seconds, although it answers each at once. So one socket has several handles.
"""

from __future__ import annotations

import asyncio
import socket


def more_handles(listening: socket.socket, at_once: int) -> list[socket.socket]:
    """Further handles on a listening socket, for servers of the running event loop beside its own. Each is to be closed.

    Args:
        at_once: how many new connections one pass may take.
    """
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        # It takes all that have come.
        return []
    return [socket.fromfd(listening.fileno(), listening.family, listening.type) for _ in range(at_once - 1)]
