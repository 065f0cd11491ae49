"""The connections of one process to others."""

from __future__ import annotations

from dataclasses import dataclass
from ssl import SSLContext

from runtime.transport.endpoint import Endpoint
from runtime.transport.io.channel import Channel
from runtime.transport.io.dialing import Dialer
from runtime.transport.options import DirectOptions

CLOSED = "this program has closed its connections"
"""Why there are no connections any more, where nothing else is known."""


@dataclass(frozen=True)
class ConnectionStatistics:
    """Figures of the connections that a process has made.

    Attributes:
        connections: that are open.
        reconnects: how often one was made again.
        read_bytes, written_bytes: on all of them, and on those before.
    """

    connections: int
    reconnects: int
    read_bytes: int
    written_bytes: int


class Channels:
    """One channel for each process that this one speaks to. It belongs to one event loop.

    Attributes:
        closed_because: why there will be no other channel; "" while there may be.

    Args:
        secret: of the deployment, at least 16 bytes.
        node: the name of this machine, see Endpoint.
        ssl: for TCP.
    """

    def __init__(self, secret: bytes, node: str, ssl: SSLContext | None = None, options: DirectOptions | None = None) -> None:
        self._options = options or DirectOptions()
        self._dialer = Dialer(secret, node, self._options.connect_s, ssl)
        self._channels: dict[bytes, Channel] = {}
        self._past = ConnectionStatistics(0, 0, 0, 0)
        self.closed_because = ""

    def to(self, endpoint: Endpoint) -> Channel:
        """The channel to a process. It connects when there is something to send."""
        channel = self._channels.get(endpoint.boot)
        if channel is None:
            channel = self._channels[endpoint.boot] = Channel(endpoint, self._dialer, self._options, self._retired)
        return channel

    async def close(self, reason: str = CLOSED) -> None:
        """Close all channels, for good, and for that reason."""
        self.closed_because = self.closed_because or reason
        for channel in list(self._channels.values()):
            channel.close()

    def statistics(self) -> ConnectionStatistics:
        """The figures now."""
        figures = self._past
        for channel in self._channels.values():
            figures = _sum(figures, channel)
        return figures

    def _retired(self, channel: Channel) -> None:
        if self._channels.get(channel.endpoint.boot) is channel:
            del self._channels[channel.endpoint.boot]
            past = _sum(self._past, channel)
            self._past = ConnectionStatistics(0, past.reconnects, past.read_bytes, past.written_bytes)


def _sum(figures: ConnectionStatistics, channel: Channel) -> ConnectionStatistics:
    read_bytes, written_bytes = channel.traffic
    return ConnectionStatistics(
        figures.connections + channel.is_connected,
        figures.reconnects + channel.reconnects,
        figures.read_bytes + read_bytes,
        figures.written_bytes + written_bytes,
    )
