"""How long it takes until a process that sleeps runs for a message, beside what sending and reading it take."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from statistics import median
from struct import Struct

_ROUNDS = 300
_SLEEP_S = 0.0005
"""Before each message: long enough for a core to go to rest."""

_TIME = Struct("d")
_ECHO = (
    "import os, struct, time\n"
    "while sent := os.read(0, 8):\n"
    "    arrived_s = time.perf_counter()\n"
    "    os.write(1, struct.pack('d', arrived_s - struct.unpack('d', sent)[0]))"
)
"""A program that answers each message, which is the time when it was sent, with how long it was on its way.

All processes of a machine have the same `perf_counter`."""


def wake_ms(rounds: int = _ROUNDS) -> float:
    """The median way of a message over a Unix socket to a process that sleeps, less the way to a reader that need not be woken.

    The CPU of both processes cannot be subtracted instead: they have it at the same time, on two cores.
    """
    return max(0.0, median(ways_ms(rounds)) - median(_ways_awake_ms(rounds)))


def ways_ms(rounds: int) -> list[float]:
    """The ways of so many messages to a process that sleeps, in milliseconds each."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            echo = subprocess.Popen([sys.executable, "-I", "-c", _ECHO], stdin=theirs.fileno(), stdout=theirs.fileno())
        _way_ms(ours)
        found = [_way_ms(ours) for _ in range(rounds)]
    echo.wait()
    return found


def _way_ms(connection: socket.socket) -> float:
    time.sleep(_SLEEP_S)
    os.write(connection.fileno(), _TIME.pack(time.perf_counter()))
    took_s: float = _TIME.unpack(os.read(connection.fileno(), _TIME.size))[0]
    return took_s * 1_000


def _ways_awake_ms(rounds: int) -> list[float]:
    """Both ends are of one thread, so what was sent is there when it reads."""
    sending, reading = socket.socketpair()
    with sending, reading:
        return [_way_awake_ms(sending, reading) for _ in range(rounds)]


def _way_awake_ms(sending: socket.socket, reading: socket.socket) -> float:
    time.sleep(_SLEEP_S)
    began_s = time.perf_counter()
    os.write(sending.fileno(), _TIME.pack(began_s))
    os.read(reading.fileno(), _TIME.size)
    return (time.perf_counter() - began_s) * 1_000
