"""Types are worked out by one thread at a time: two Runtimes of a process have a thread each."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator

from actors.messages.event import Event
from tests.support.sources import sources

PROGRAM = """
import sys, threading
import msgspec
from actors.messages import codec

FRESH = '''
class Inner(msgspec.Struct):
    one: list[str] = []
    two: dict[str, list[int]] = {}
class Middle(msgspec.Struct):
    inner: list[Inner] = []
    other: Inner | None = None
class Outer(msgspec.Struct):
    middle: list[Middle] = []
    last: Middle | None = None
'''
sys.setswitchinterval(1e-6)
for number in range(200):
    fresh = {"msgspec": msgspec}
    exec(FRESH, fresh)
    Inner, Middle, Outer = (fresh[name] for name in ("Inner", "Middle", "Outer"))
    value = Outer(middle=[Middle(inner=[Inner(one=["x"], two={"y": [1]})])], last=Middle(other=Inner(one=["z"])))
    raw, text, plain = msgspec.msgpack.encode(value), msgspec.json.encode(value), msgspec.to_builtins(value)
    ways = [
        lambda: codec.decoder(Outer).decode(raw),
        lambda: codec.json_decoder(Outer).decode(text),
        lambda: codec.decode(raw, Outer),
        lambda: codec.decode_json(text, Outer),
        lambda: codec.convert(plain, Outer),
    ]
    got, start = [], threading.Barrier(len(ways))
    def read(way):
        start.wait()
        got.append(way())
    threads = [threading.Thread(target=read, args=[way]) for way in ways]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert got == [value] * len(ways), got
"""


def test_threads_that_need_a_class_for_the_first_time_read_all_of_it() -> None:
    # A process of its own: what goes wrong here ends processes.
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_fork_of_a_process_reads_though_a_thread_of_its_parent_was_reading() -> None:
    text, is_over = Event(id="e", invocation_id="i", author="user", timestamp=1.0).to_json(), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            Event.from_json(text)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        for _ in range(10):
            with warnings.catch_warnings(action="ignore"):
                child = os.fork()
            if child == 0:
                # If it hangs it is ended.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(5)
                Event.from_json(text)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        is_over.set()
        thread.join()


def reads_of_types(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    """The calls with which msgspec works out a type."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith("msgspec."):
            has_type = len(node.args) > 1 or any(keyword.arg == "type" for keyword in node.keywords)
            if node.func.attr in {"Decoder", "convert"} or (node.func.attr == "decode" and has_type):
                yield node


def test_no_other_module_has_msgspec_read_a_type() -> None:
    found = {each.path.as_posix() for each in sources("actors", "runtime", "raygrove") for _ in reads_of_types(each.nodes)}
    assert found == {"actors/messages/codec.py"}
