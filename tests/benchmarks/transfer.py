"""What a transfer from one agent to another adds to a turn."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from actors import LlmAgent
from actors.testing import PatternModel
from tests.benchmarks.figures import Figure, interleaved, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import run_turn, runtime

NAME = "transfer"


def measure(plan: Plan) -> list[Figure]:
    """A turn of the root alone and one that it hands over, by turns; both agents live already."""
    with TemporaryDirectory() as folder, runtime(plan, _tree(), Path(folder)) as rt:
        contestants = {"alone": lambda: run_turn(rt, "s", "hello"), "handed over": lambda: run_turn(rt, "s", "my bill")}
        interleaved(contestants, 20)
        samples = interleaved(contestants, plan.turns // 2 + 1)
    alone, handed_over = median(samples["alone"]), median(samples["handed over"])
    return [
        Figure("turn without: median", alone, "ms"),
        Figure("turn with: median", handed_over, "ms", alone, "without"),
        Figure("hop", handed_over - alone, "ms"),
    ]


def _tree() -> LlmAgent:
    # An agent that may not transfer to its parent is not sticky either: the root gets every turn.
    billing = LlmAgent(name="billing", model=PatternModel([], default="paid"), disallow_transfer_to_parent=True)
    model = PatternModel([("bill", {"transfer": "billing"})], default="ok")
    return LlmAgent(name="concierge", model=model, sub_agents=[billing])
