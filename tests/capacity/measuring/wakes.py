"""How long it takes until a process that sleeps runs again for a message, beside the CPU of both that the kernel counts."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

_ROUNDS = 300
_SLEEP_S = 0.0005
"""Before each message: long enough for a core to go to rest."""

_ECHO = "import os\nwhile message := os.read(0, 1):\n    os.write(1, message)"
"""A program that sends back all that comes, until nothing will."""


def wake_ms(rounds: int = _ROUNDS) -> float:
    """The median way of a message over a Unix socket: half of the way to a process and back."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            echo = subprocess.Popen([sys.executable, "-I", "-c", _ECHO], stdin=theirs.fileno(), stdout=theirs.fileno())
        used = Path(f"/proc/{echo.pid}/schedstat")
        _round_ms(ours, used)
        times_ms = [_round_ms(ours, used) for _ in range(rounds)]
    echo.wait()
    return median(times_ms) / 2


def _round_ms(connection: socket.socket, used: Path) -> float:
    """One way there and back, without the CPU of both processes."""
    time.sleep(_SLEEP_S)
    theirs_s, own_s, began_s = _cpu_s(used), time.thread_time(), time.perf_counter()
    connection.send(b"?")
    connection.recv(1)
    took_s, spent_s = time.perf_counter() - began_s, time.thread_time() - own_s
    return max(0.0, took_s - spent_s - (_cpu_s(used) - theirs_s)) * 1_000


def _cpu_s(used: Path) -> float:
    return int(used.read_text().split()[0]) / 1e9
