"""A deployment under load: a program has turns of all kinds run while it is updated, upgraded and drained from outside."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.app_folders import write
from tests.support.machine.ray_environment import without_ray
from tests.support.releases.turns_program import EVERY_S
from tests.support.servers.postgres_server import short_folder

RATE = float(os.environ.get("SOAK_RATE", "50"))
"""Turns a second."""

SHOWN = 20
"""Faults that are shown."""

BETWEEN_S = 2.0


@contextmanager
def recovering() -> Iterator[None]:
    """Waits after the block for as long as it has lasted: what has waited while the deployment was away is worked off then."""
    began_s = time.monotonic()
    yield
    time.sleep(max(BETWEEN_S, time.monotonic() - began_s))


@dataclass
class Busy:
    """A deployment under load.

    Attributes:
        releases: two copies of this raygrove, or an older one and this one. The first starts the deployment and the program.
        path: of the app's code.
        address: of its Ray.
        told: what the program tells, in the end.
        lasted_s: how long there was load.
    """

    releases: list[Release]
    path: str
    address: str
    told: dict[str, Any] = field(default_factory=dict)
    lasted_s: float = 0.0

    def json(self, *command: str, release: int = 0) -> Any:
        """What a command tells as a line of JSON."""
        return json.loads(self.releases[release].run(*command, "--json").splitlines()[0])

    def versions(self) -> list[dict[str, Any]]:
        """The versions that it keeps."""
        return [json.loads(line) for line in self.releases[0].run("history", NAME, "--json").splitlines()]

    def check(self, trees: Mapping[str, int], tell: Callable[[str], None]) -> None:
        """Every turn has ended, once, with what the tree says by which it began."""
        found = list(faults(self.told, dict(trees)))
        turns, due = len(self.told["asked"]), sum(map(len, self.told["due"].values()))
        by = Counter(str(trees.get(turn[1])) for turn in self.told["turns"].values())
        per_s = turns / self.lasted_s
        tell(
            f"{turns:,} turns in {self.lasted_s:.0f} s ({per_s:.0f} a second) and {due} of schedules, by {len(by)} trees; "
            f"{len(found)} lost, failed, doubled or by another tree"
        )
        tell(f"refused: {self.told['refusals']}")
        for fault in found[:SHOWN]:
            tell(f"  {fault}")
        assert not found
        assert turns > 100


@contextmanager
def busy_deployment(folder: Path, rate: float = RATE) -> Iterator[Busy]:
    """A deployment under load while the block lasts."""
    with plain_ray() as of_ray:
        of_ray |= {"RAYGROVE_DATA_DIR": str(folder / "data"), "RAYGROVE_MAX_LIVE_AGENTS": "6"}
        of_ray["RAYGROVE_MIN_SCHEDULE_INTERVAL_S"] = "1"
        releases = [Release.of_this(folder / each, each, of_ray) for each in ("one", "other")]
        busy = Busy(releases, code(folder, 0), of_ray["RAY_ADDRESS"])
        releases[0].run("start", busy.path)
        releases[0].add("tests/support/releases/turns_program.py")
        program = releases[0].started("tests.support.releases.turns_program", NAME, str(rate))
        began_s = time.monotonic()
        try:
            time.sleep(BETWEEN_S)
            yield busy
            busy.lasted_s = time.monotonic() - began_s
            output, _ = program.communicate(timeout=300)
            assert program.returncode == 0
            busy.told = json.loads(output.splitlines()[-1])
        finally:
            program.kill()
            program.communicate()
            releases[-1].run("stop", NAME)


NAME = "busy"

AGENTS = '''
    import asyncio

    from actors import START, Graph, JoinNode, LlmAgent, LoopAgent, tool
    from actors.testing import PatternModel

    WORD = "tree NUMBER"


    @tool
    async def look_up() -> str:
        """Take longer than a drain."""
        await asyncio.sleep(3)
        return WORD


    @tool(require_confirmation=True)
    def pay() -> str:
        """Pay, once somebody agrees."""
        return WORD


    async def take_time(context) -> None:
        await asyncio.sleep(0.05)


    def read(node_input: str) -> str:
        return WORD


    def finish(node_input: dict[str, str]) -> str:
        assert node_input == {"left": WORD, "right": WORD}, node_input
        return WORD


    says = PatternModel([], default=WORD)
    helper = LlmAgent(name="helper", description="helps", model=says, before_agent_callback=take_time)
    turner = LlmAgent(name="turner", model=says, before_agent_callback=take_time)
    around = LoopAgent(name="around", sub_agents=[turner], max_iterations=3)
    sides = tuple(LlmAgent(name=name, model=says, before_agent_callback=take_time) for name in ("left", "right"))
    nodes = Graph(name="nodes", edges=[(START, read, sides, JoinNode("both"), finish)])
    same = LlmAgent(name="same", description="is the same in all trees", model=PatternModel([], default="same"))
    model = PatternModel(
        [
            ("tool:", WORD),
            ("slow", {"call": "look_up"}),
            ("pause", {"call": "pay"}),
            ("go", {"transfer": "helper"}),
            ("loop", {"transfer": "around"}),
            ("graph", {"transfer": "nodes"}),
            ("still", {"transfer": "same"}),
        ],
        default=WORD,
    )
    root_agent = LlmAgent(name="root", model=model, tools=[look_up, pay], sub_agents=[helper, around, nodes, same])
'''

SAID = {"slow": 2, "pause": 2, "go": 1, "loop": 3, "graph": 4, "stream": 1, "left": 1, "still": 0}
"""How often a turn says of which tree it is: its agents, functions of its graph and results of its tools."""


def code(folder: Path, number: int) -> str:
    """Write the code of a tree. Returns its path."""
    write(folder / NAME, {"agent.py": AGENTS.replace("NUMBER", str(number))})
    return str(folder / NAME)


def faults(told: dict[str, Any], trees: dict[str, int]) -> Iterator[str]:
    """What is wrong with the turns that a program has had run, in words.

    Args:
        told: what the program tells: see turns_program.
        trees: the numbers of trees, by the names of their versions.
    """
    for turn, (kind, said) in told["asked"].items():
        if turn not in told["turns"]:
            yield f"{turn} ({kind}) is lost"
            continue
        state, version, words, messages, error = told["turns"][turn]
        if state != "finished":
            yield f"{turn} ({kind}) is {state}: {error}"
            continue
        tree = f"tree {trees.get(version)}"
        expected = {tree: SAID[kind]} if SAID[kind] else {}
        if words != expected:
            yield f"{turn} ({kind}) began by {tree}, and says {words}"
        if messages != 1:
            yield f"{turn} ({kind}) has {messages} messages"
        if said != {"still": "same", "left": ""}.get(kind, tree):
            yield f"{turn} ({kind}) of {tree} was heard to say {said!r}"
    for schedule, due in told["due"].items():
        if missing := set(range(min(due), max(due) + 1, EVERY_S)) - set(due):
            yield f"{schedule} made no turn at {sorted(missing)}"
        if doubled := [each for each, count in Counter(due).items() if count > 1]:
            yield f"{schedule} made turns twice at {doubled}"


HOME = Path(__file__).parents[3]
PACKAGES = ("actors", "raygrove", "runtime")


@contextmanager
def plain_ray() -> Iterator[dict[str, str]]:
    """A Ray as it is on clusters, whose processes load what is in the folder of the program that starts them.

    Gives the environment of its programs.
    """
    with short_folder() as folder, closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        other.close()
        environment = without_ray("PYTHONDONT")
        environment["RAY_AUTH_MODE"] = "disabled"
        options = ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={folder}/ray", "--num-cpus=4"]
        start = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--include-dashboard=false", *options]
        own = {**environment, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
        with subprocess.Popen(start, env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                assert process.stdout is not None
                assert any("Ray runtime started" in line for line in process.stdout)
                yield {**environment, "RAY_ADDRESS": f"127.0.0.1:{port}"}
            finally:
                process.terminate()
                assert process.stdout is not None
                process.stdout.read()


class Release:
    """A copy of the packages in a folder. Processes of Ray import from the folder in which their program was started.

    Args:
        folder: where it is.
        environment: of its programs.

    Attributes:
        folder, environment: as given.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    @classmethod
    def of_this(cls, folder: Path, mark: str, environment: Mapping[str, str]) -> Release:
        """This code, with a comment that makes it another one."""
        for package in PACKAGES:
            shutil.copytree(HOME / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        with (folder / "raygrove" / "__init__.py").open("a") as file:
            file.write(f"# {mark}\n")
        return cls(folder, environment)

    def add(self, path: str) -> None:
        """Have a file of the tests in the folder, too."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HOME / path, self.folder / path)

    def run(self, *arguments: str, tries: int = 5) -> str:
        """What a command prints. It has to succeed, but for a Ray that is too busy to be joined: that is tried again."""
        done = self._done(*arguments)
        if "cannot be joined" in done.stderr and tries > 1:
            return self.run(*arguments, tries=tries - 1)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def code(self, *arguments: str) -> int:
        """The exit code of a command."""
        return self._done(*arguments).returncode

    def _done(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "raygrove", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )

    def started(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        """A program of the folder that runs."""
        command, pipe = [sys.executable, "-m", module, *arguments], subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self.environment, cwd=self.folder)
