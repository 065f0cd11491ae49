"""A program: it stands for an agent of a local raylet, and becomes it when it is needed.

A raylet starts two programs beside it, called agents, and takes no work before both have told their ports. Both import all of
Ray for that. The dashboard's agent has nothing to do where Ray's dashboard is not installed. The agent for runtime environments
is needed once a task or an actor asks for one: the first connection to its port makes this program that agent, which answers it.
"""

from __future__ import annotations

import os
import runpy
import select
import socket
import stat
import sys
from collections.abc import Sequence
from typing import Any

NOT_IN_USE = -1
"""What Ray writes for the port of a service that it does not have."""

DASHBOARD_PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")
ENVIRONMENT_PORT = "runtime_env_agent_port"

STDIN = 0


def stands_for(command: Sequence[str]) -> str:
    """Which agent the command starts, if this program can stand for it.

    Args:
        command: the interpreter with its options, the agent's file, and its arguments.

    Returns:
        "dashboard", "environments" or "".
    """
    if tuple(command[:2]) != (sys.executable, "-u") or len(command) < 3:
        return ""
    file, arguments = command[2], command[3:]
    if not all(option(arguments, name) for name in ("session-dir", "node-id")):
        return ""
    if file.endswith(os.path.join("dashboard", "agent.py")) and "--minimal" in arguments:
        return "dashboard"
    has_address = option(arguments, "node-ip-address") and option(arguments, "runtime-env-agent-port").isdecimal()
    return "environments" if file.endswith(os.path.join("runtime_env", "agent", "main.py")) and has_address else ""


def option(arguments: Sequence[str], name: str) -> str:
    """The value of an argument `--name=value`; "" without it."""
    return next((each.partition("=")[2] for each in arguments if each.startswith(f"--{name}=")), "")


def tell_port(arguments: Sequence[str], name: str, port: int) -> None:
    """Write a port where the raylet looks for it, as Ray's `persist_port` does."""
    path = os.path.join(option(arguments, "session-dir"), f"{name}_{option(arguments, 'node-id')}")
    # The raylet must not read half a number.
    with open(f"{path}.tmp", "w") as file:
        file.write(str(port))
    os.replace(f"{path}.tmp", path)


def wait_for_end() -> None:
    """Return when the raylet has ended: it holds the other end of the pipe that is the standard input."""
    while os.read(STDIN, 1024):
        pass


def listen(arguments: Sequence[str]) -> socket.socket:
    """Listen where the agent for runtime environments would."""
    address = (option(arguments, "node-ip-address"), int(option(arguments, "runtime-env-agent-port")))
    family, kind, protocol, _, resolved = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(resolved)
    listener.listen()
    return listener


def become(file: str, arguments: Sequence[str], listener: socket.socket) -> None:
    """Run the agent in this process. It takes over the listener, with the connections that wait there."""
    port = listener.getsockname()[1]

    class Socket(socket.socket):
        """A socket that is the listener from when it is bound to the listener's port."""

        def bind(self, address: Any) -> None:
            """Bind it to an address."""
            if isinstance(address, tuple) and address[1] == port:
                os.dup2(listener.fileno(), self.fileno(), inheritable=False)
                listener.close()
            else:
                super().bind(address)

    socket.socket = Socket  # type: ignore[misc]
    given = [each for each in arguments if not each.startswith("--runtime-env-agent-port=")]
    sys.argv = [file, *given, f"--runtime-env-agent-port={port}"]
    sys.path[0] = os.path.dirname(file)
    runpy.run_path(file, run_name="__main__")


def main() -> None:
    """Stand for the agent whose command the arguments are."""
    command = sys.argv[1:]
    agent = stands_for(command)
    if not agent or not stat.S_ISFIFO(os.fstat(STDIN).st_mode):
        os.execv(command[0], command)
    file, arguments = command[2], command[3:]
    if agent == "dashboard":
        for name in DASHBOARD_PORTS:
            tell_port(arguments, name, NOT_IN_USE)
        wait_for_end()
        return
    listener = listen(arguments)
    tell_port(arguments, ENVIRONMENT_PORT, listener.getsockname()[1])
    ready, _, _ = select.select([listener.fileno(), STDIN], [], [])
    if listener.fileno() in ready:
        become(file, arguments, listener)


if __name__ == "__main__":
    main()
