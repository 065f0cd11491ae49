"""The app whose turns run while its deployment is changed: agents of many kinds, all of which say of which tree they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.app_folders import write
from tests.support.releases.turns_program import EVERY_S

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
