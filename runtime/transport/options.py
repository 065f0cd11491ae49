"""The times and bounds of direct connections."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class DirectOptions:
    """Times and bounds; the defaults are for use, tests take shorter and smaller ones.

    Attributes:
        connect_s: how long a connection may take to be made and to be proven by both sides.
        beat_s: a server that works on requests and has written nothing for this long writes a heartbeat.
        lost_s: a client that waits for replies and has read nothing for this long takes the connection for lost.
        grace_s: how long a server keeps the replies of a client that has no connection.
        max_unproven: connections that have not proven themselves yet; beyond it, the oldest of them are closed.
        max_unwritten_bytes: replies that wait for a client to read. Beyond it the server reads no more of its requests.
        max_running: requests of one client that the server works on; beyond it, it reads no more of them.
        max_message_bytes: the longest message. What one side has read of unfinished messages is bounded by it, too.
        requests_at_once: a client writes as soon as it has so many requests, and goes on with its pass of the event loop; None:
            all requests of a pass are written together at its end.
    """

    connect_s: float = 5.0
    beat_s: float = 2.0
    lost_s: float = 5.0
    grace_s: float = 60.0
    max_unproven: int = 256
    max_unwritten_bytes: int = 64 * MIB
    max_running: int = 10_000
    max_message_bytes: int = 512 * MIB
    requests_at_once: int | None = None
