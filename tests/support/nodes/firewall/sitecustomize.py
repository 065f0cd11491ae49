"""A firewall: no TCP packet reaches a socket that Python code listens on in a worker of Ray. Ray's own sockets are not Python's.

For nodes whose `PYTHONPATH` has this folder. The kernel drops the packets, so who connects gets no answer at all.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys

SO_ATTACH_FILTER = 26
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A program of the kernel's packet filter, of one instruction: return 0 bytes of each packet."""

_listen = socket.socket.listen


def listen(self: socket.socket, backlog: int = 0) -> None:
    """Listen, and get nothing."""
    if self.family != socket.AF_UNIX:
        code = ctypes.create_string_buffer(DROP_ALL)
        self.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(code)))
    _listen(self, backlog)


if any("default_worker" in each for each in sys.orig_argv):
    socket.socket.listen = listen  # type: ignore[assignment,method-assign]
