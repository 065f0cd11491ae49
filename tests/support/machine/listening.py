"""The ports of a deployment's processes, and programs that try them without credentials: for tests with several users."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from runtime.frontends.testing.leaks import children

_LISTENS = "0A"
_LOOPBACK = "127.0.0.1"


class Port(NamedTuple):
    """Where a process listens: the host is one at which it can be reached from this machine."""

    process: str
    host: str
    number: int


def descendants(pid: int) -> list[int]:
    """A process, and all that it has started."""
    found = [pid]
    for each in found:
        found += [child.pid for child in children(each)]
    return found


def ports_of(pids: list[int]) -> set[Port]:
    """The TCP ports at which processes listen."""
    owners: dict[str, str] = {}
    for pid in pids:
        # Some end meanwhile.
        with suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    owners[os.readlink(descriptor)] = name
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            owner = owners.get(f"socket:[{fields[9]}]")
            if fields[3] == _LISTENS and owner is not None:
                address, _, port = fields[1].rpartition(":")
                found.add(Port(owner, _host(address), int(port, 16)))
    return found


def _host(address: str) -> str:
    """An IPv4 address of the kernel's table; one that stands for all of them is reached at this machine's own."""
    if len(address) > 8 or not int(address, 16):
        return _LOOPBACK
    return ".".join(str(byte) for byte in bytes.fromhex(address)[::-1])


TRY_PORTS = '''
CALLS = (
    "CoreWorkerService/GetCoreWorkerStats", "CoreWorkerService/Exit", "CoreWorkerService/PushTask", "CoreWorkerService/KillActor",
    "NodeManagerService/GetNodeStats", "NodeManagerService/DrainRaylet", "NodeManagerService/KillLocalActor",
    "ObjectManagerService/Pull", "ObjectManagerService/Push",
    "InternalKVGcsService/InternalKVKeys", "InternalKVGcsService/InternalKVPut", "NodeInfoGcsService/GetClusterId",
    "NodeInfoGcsService/DrainNode", "ActorInfoGcsService/GetAllActorInfo", "ActorInfoGcsService/KillActorViaGcs",
)
UNKNOWN, REFUSED = "12", "16"
def header(name, value):
    return b"\\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
def exchange(host, port, request, until):
    data = b""
    try:
        with socket.create_connection((host, port), 10) as peer:
            peer.settimeout(10)
            peer.sendall(request)
            while not until(data) and (more := peer.recv(65536)):
                data += more
    except OSError:
        pass
    return data
def call(host, port, method):
    """The status of a call of gRPC without a token; "" where no gRPC answers."""
    names = {":method": "POST", ":scheme": "http", ":path": "/ray.rpc." + method, ":authority": host,
             "content-type": "application/grpc", "te": "trailers"}
    block = b"".join(header(*each) for each in names.items())
    begin = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + frame(4, 0, 0, b"")
    data = exchange(host, port, begin + frame(1, 4, 1, block) + frame(0, 1, 1, bytes(5)), lambda data: b"grpc-status" in data)
    _, found, rest = data.partition(b"grpc-status")
    return rest[1:1 + rest[0]].decode() if found else ""
def get(host, port, line):
    """The status of a request of HTTP without credentials; "" where no HTTP answers."""
    request = f"{line} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n".encode()
    data = exchange(host, port, request, lambda data: b"\\r\\n" in data or data[:1] == b"\\0")
    return data.split()[1].decode() if data.startswith(b"HTTP/1.") else ""
found = {}
for process, host, port in json.loads(sys.argv[1]):
    lines = ("GET /", "GET /metrics", "POST /get_or_create_runtime_env", "GET /v1/apps", "GET /api/version")
    statuses = [get(host, port, line) for line in lines]
    if any(statuses):
        found[f"{process} {port}"] = {"http": dict(zip(lines, statuses))}
        continue
    is_grpc = exchange(host, port, b"", lambda data: data)[3:5] == b"\\4\\0"
    replies = {method: call(host, port, method) for method in CALLS} if is_grpc else {}
    found[f"{process} {port}"] = {
        "refused": sorted(method for method, status in replies.items() if status == REFUSED),
        "other": {method: status for method, status in replies.items() if status not in (UNKNOWN, REFUSED)},
    }
print(json.dumps(found))
'''
"""A program for the other user. Its argument: ports as JSON. It prints what answers at each without credentials."""
