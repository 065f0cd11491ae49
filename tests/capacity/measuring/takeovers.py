"""How long a thread waits for a core that is busy while another one has nothing to do.

A kernel has a thread that wakes up wait for the core on which it ran before, or for that of the thread that wakes it, until it
next looks for work to move. With 16 sessions a third of all wake-ups were on a busy core of two while the other one had nothing
to do (`perf record -e sched:sched_switch,sched:sched_wakeup`).

`python -m tests.capacity.measuring.takeovers ROUNDS` prints the waits of so many rounds: it is a program of its own, because it
gives itself the priority of a process of Ray.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

_ROUNDS = 100
_NICE = 15
"""The priority of a process of Ray: its `worker_niceness`."""
_WORK_S = 0.005
"""CPU of each of the two. As much as a pass of an event loop that takes a few dozen messages."""
_SLEEP_S = 0.001
"""Between two rounds, at most: about as long as cores have nothing to do while turns run."""


def takeovers_ms(rounds: int = _ROUNDS) -> list[float]:
    """By round, how long one of two threads waited for the core of the other one, in milliseconds.

    Another core had nothing to do meanwhile: that is so if nothing else runs on the machine, and it has two cores.
    """
    command = [sys.executable, "-m", __name__, str(rounds)]
    return msgspec.json.decode(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout, type=list[float])


def _main(rounds: int) -> None:
    os.nice(_NICE)
    ours, theirs = socket.socketpair()
    other = os.fork()
    if not other:
        ours.close()
        while theirs.recv(1):
            _work()
            theirs.send(b"!")
        os._exit(0)
    theirs.close()
    print(msgspec.json.encode([_round_ms(ours, other) for _ in range(rounds)]).decode())
    ours.close()
    os.waitpid(other, 0)


def _round_ms(connection: socket.socket, other: int) -> float:
    """Wake the other one up, work as it does, and say how long both have waited together: only one of them waits at a time."""
    time.sleep(random.uniform(0.0, _SLEEP_S))
    before_ms = _waited_ms(os.getpid()) + _waited_ms(other)
    connection.send(b"?")
    _work()
    connection.recv(1)
    return _waited_ms(os.getpid()) + _waited_ms(other) - before_ms


def _work() -> None:
    until_s = time.thread_time() + _WORK_S
    while time.thread_time() < until_s:
        pass


def _waited_ms(pid: int) -> float:
    """The time that a process has stood in the kernel's line of those that want a core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e6


if __name__ == "__main__":
    _main(int(sys.argv[1]))
