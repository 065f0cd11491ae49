"""What a node of a graph costs: functions in a chain, side by side and in a circle; agents beside those of a ParallelAgent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import START, BaseAgent, FunctionNode, Graph, JoinNode, LlmAgent, NodeContext, ParallelAgent
from actors.testing import PatternModel
from runtime import Runtime
from tests.benchmarks.figures import BLOCK, Figure, interleaved, median, timed_ms
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import APP, run_turn, runtime

NAME = "graphs"
FEWER = 10
"""So many times fewer nodes has a small graph: what a node costs there is the floor of what it costs in a large one."""

SIDE_BY_SIDE = 16


def measure(plan: Plan) -> list[Figure]:
    """Turns of graphs of functions, large and small, and of agents at once in a graph and in a ParallelAgent."""
    figures: list[Figure] = []
    for made in (chain, fan_out, circle):
        name = made.__name__.replace("_", "-")
        small = _node_ms(plan, made, plan.nodes // FEWER)
        large = _node_ms(plan, made, plan.nodes)
        named = f"{name} of {plan.nodes:,}: a node"
        of = f"of {plan.nodes // FEWER:,}"
        figures.append(Figure(benchmark=NAME, name=named, value=large, unit="ms", reference=small, reference_name=of))
    return figures + _beside_parallel(plan)


def _beside_parallel(plan: Plan) -> list[Figure]:
    """Turns of agents at once, in a graph with and without a join behind them, and in a ParallelAgent, by turns."""
    roots = {
        "ParallelAgent": ParallelAgent(name="root", sub_agents=agents()),
        f"{SIDE_BY_SIDE} agents at once: a turn": Graph(name="root", edges=[(START, tuple(agents()))]),
        f"{SIDE_BY_SIDE} agents and a join: a turn": Graph(name="root", edges=[(START, tuple(agents()), JoinNode("all"))]),
    }
    with ExitStack() as stack:
        runtimes: list[Runtime] = []
        for number, root in enumerate(roots.values()):
            folder = stack.enter_context(TemporaryDirectory())
            runtimes.append(stack.enter_context(runtime(plan, root, Path(folder), app=f"{APP}-{number}")))
        sessions = count()
        calls = {name: lambda rt=rt: run_turn(rt, f"s{next(sessions)}") for name, rt in zip(roots, runtimes, strict=True)}
        samples = {name: median(each) for name, each in interleaved(calls, BLOCK * plan.graphs).items()}
    beside, reference = samples.pop("ParallelAgent"), "ParallelAgent"
    return [
        Figure(benchmark=NAME, name=name, value=value, unit="ms", reference=beside, reference_name=reference)
        for name, value in samples.items()
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
