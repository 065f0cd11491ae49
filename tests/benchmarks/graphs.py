"""What a node of a graph costs: functions in a chain, side by side and in a circle; agents beside those of a ParallelAgent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import START, BaseAgent, FunctionNode, Graph, JoinNode, LlmAgent, NodeContext, ParallelAgent
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from tests.benchmarks.figures import BLOCK, Block, Figure, median, paired, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, run_turn, runtime
from tests.support.machine.process_use import cpu_s

NAME = "graphs"
FEWER = 10
"""So many times fewer nodes has a small graph: what a node costs there is the floor of what it costs in a large one."""

SIDE_BY_SIDE = 16
PARALLEL = "ParallelAgent"


def measure(plan: Plan) -> list[Figure]:
    """Turns of graphs of functions, large and small, and of agents at once in a graph and in a ParallelAgent."""
    figures: list[Figure] = []
    for made in (chain, fan_out, circle):
        name = made.__name__.replace("_", "-")
        small = _node_ms(plan, made, plan.nodes // FEWER)
        large = _node_ms(plan, made, plan.nodes)
        named = f"{name} of {plan.nodes:,}: a node"
        of = f"of {plan.nodes // FEWER:,}"
        figures.append(Figure(named, large, "ms", small, of))
    return figures + _beside_parallel(plan)


def _beside_parallel(plan: Plan) -> list[Figure]:
    """Turns of agents at once, in a graph with and without a join behind them, beside those of a ParallelAgent, by pairs."""
    roots = {
        PARALLEL: ParallelAgent(name="root", sub_agents=agents()),
        f"{SIDE_BY_SIDE} agents at once": Graph(name="root", edges=[(START, tuple(agents()))]),
        f"{SIDE_BY_SIDE} agents and a join": Graph(name="root", edges=[(START, tuple(agents()), JoinNode("all"))]),
    }
    with ExitStack() as stack:
        sessions = count()
        calls: dict[str, Callable[[], object]] = {}
        pids = {os.getpid()}
        for number, (name, root) in enumerate(roots.items()):
            folder = stack.enter_context(TemporaryDirectory())
            rt = stack.enter_context(runtime(plan, root, Path(folder), app=f"{APP}-{number}"))
            calls[name] = partial(_turn, rt, sessions)
            for _ in range(BLOCK):
                calls[name]()
            seen = rt.statistics()
            pids |= {each.pid for each in (seen.session, seen.runner, *seen.agents.values()) if each.pid}
        blocks = paired(calls, 2 * plan.graphs, lambda: sum(map(cpu_s, pids)))
    beside = blocks.pop(PARALLEL)
    return [figure for name, each in blocks.items() for figure in _pair(name, each, beside)]


def _turn(rt: Runtime, sessions: Iterator[int]) -> None:
    run_turn(rt, f"s{next(sessions)}")


def _pair(name: str, blocks: Sequence[Block], beside: Sequence[Block]) -> list[Figure]:
    """Time and CPU of a turn beside those of the reference, whose blocks were measured next to these."""
    return [
        Figure(
            f"{name}: {what}",
            median([each[index] for each in blocks]),
            "ms",
            median([each[index] for each in beside]),
            PARALLEL,
            paired=median([own[index] / other[index] for own, other in zip(blocks, beside, strict=True)]),
        )
        for index, what in enumerate(("a turn", "CPU of a turn"))
    ]


def chain(nodes: int) -> Graph:
    """Functions, one after the other."""
    return Graph(name="root", edges=[(START, *functions(nodes))])


def fan_out(nodes: int) -> Graph:
    """Functions, all at once, and a join behind them."""
    return Graph(name="root", edges=[(START, tuple(functions(nodes)), JoinNode("all"))])


def circle(nodes: int) -> Graph:
    """One function, again and again."""

    def again(ctx: NodeContext) -> None:
        ctx.route = "again" if int(ctx.run_id) < nodes else "done"

    return Graph(name="root", edges=[(START, again), (again, {"again": again})])


def functions(nodes: int) -> list[FunctionNode]:
    """So many that give their number."""

    def function(number: int) -> FunctionNode:
        async def give(node_input: object) -> int:
            return number

        return FunctionNode(give, name=f"node_{number}")

    return [function(number) for number in range(nodes)]


def agents() -> list[LlmAgent]:
    """Agents that answer at once."""
    return [LlmAgent(name=f"agent_{number}", model=PatternModel([("", "ok")])) for number in range(SIDE_BY_SIDE)]


def _node_ms(plan: Plan, made: Callable[[int], Graph], nodes: int) -> float:
    return _turn_ms(plan, made(nodes)) / nodes


def _turn_ms(plan: Plan, root: BaseAgent) -> float:
    with TemporaryDirectory() as folder, runtime(plan, root, Path(folder)) as rt:
        run_turn(rt, "warm")
        return median([timed_ms(lambda number=number: run_turn(rt, f"s{number}")) for number in range(plan.graphs)])  # type: ignore[misc]
