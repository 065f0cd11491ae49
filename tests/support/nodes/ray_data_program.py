"""A program: a Ray Data pipeline over two nodes asks agents of a deployment that it joins, from parquet to parquet.

Run by test_ray_data.py in a process of its own, since it makes a cluster of its own. It runs the pipeline twice. Another one,
over many rows, loses a node.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import ray
from pydantic import BaseModel
from ray.cluster_utils import Cluster

from actors import LlmAgent
from runtime import Runtime, RunTurns
from runtime.settings import Settings
from tests.support.models.map_models import NotedModel

ROWS = 40
MANY, CONCURRENCY = 2_000, 20


class Echo(BaseModel):
    """What the agent answers."""

    said: str


class OnNode(RunTurns):
    """Notes on which node a batch was."""

    def __call__(self, batch: Any) -> pyarrow.Table:
        """Run the turns, and add the node."""
        table = super().__call__(batch)
        node = ray.get_runtime_context().get_node_id()
        return table.append_column("node", pyarrow.array([node] * table.num_rows))


def main(folder: Path) -> None:
    """Print what the pipeline has written, and how often the model was asked."""
    # A place for one actor of the pool on each node.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"place": 1}})
    doomed = cluster.add_node(num_cpus=2, resources={"place": 1})
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, namespace=Settings().namespace, log_to_driver=False, logging_level=logging.ERROR)
    options = ray.data.DataContext.get_current()
    options.enable_progress_bars = False
    options.wait_for_min_actors_s = 100
    questions = [f'{{"said": "{number}"}}' for number in range(ROWS)]
    questions[7] = "no JSON"
    for part in range(4):
        rows = pyarrow.table({"question": questions[part::4], "number": list(range(ROWS))[part::4]})
        (folder / "in").mkdir(exist_ok=True)
        pyarrow.parquet.write_table(rows, folder / "in" / f"{part}.parquet")
    model = NotedModel(folder / "calls", 0.1, echoes=True)
    root = LlmAgent(name="echo", model=model, output_schema=Echo, output_key="last")
    with Runtime(root, app_name="data", session_store=f"sqlite:///{folder}/sessions.db", memory_store=None):
        for run in ("first", "second"):
            ds = ray.data.read_parquet(str(folder / "in")).repartition(8)
            ds = ds.map_batches(
                OnNode,
                fn_constructor_args=("data",),
                fn_constructor_kwargs={"message": "question", "id_column": "number", "name": "june", "concurrency": 5},
                batch_size=5,
                compute=ray.data.ActorPoolStrategy(size=2),
                num_cpus=0.5,
                resources={"place": 1},
            )
            ds.write_parquet(str(folder / run))
            rows = pyarrow.parquet.read_table(folder / run).sort_by("number").to_pylist()
            good = [row for row in rows if row["error"] is None]
            print("RESULT rows", len(rows), len(good), len({row["node"] for row in rows}))
            print("RESULT texts", all(row["text"] == row["question"] for row in good))
            print("RESULT state", all(json.loads(row["state"])["last"]["said"] == str(row["number"]) for row in good))
            print("RESULT bad", rows[7]["text"], rows[7]["output"], str(rows[7]["error"]).partition(":")[0])
            print("RESULT ids", rows[0]["invocation_id"])
            print("RESULT calls", model.calls().total())
        lose_a_node(folder, model, lambda: cluster.remove_node(doomed, allow_graceful=False))
    ray.shutdown()
    cluster.shutdown()  # type: ignore[no-untyped-call]


def lose_a_node(folder: Path, model: NotedModel, lose: Callable[[], None]) -> None:
    """Ask about many rows, and lose a node when a third is answered. Print how many answers are right, and the repeated calls."""
    table = pyarrow.table({"question": [f'{{"said": "{number}"}}' for number in range(MANY)], "number": list(range(MANY))})
    pyarrow.parquet.write_table(table, folder / "many.parquet")
    before = model.calls().total()

    def watch() -> None:
        while model.calls().total() - before < MANY // 3:
            time.sleep(0.1)
        lose()

    watching = threading.Thread(target=watch)
    watching.start()
    ds = ray.data.read_parquet(str(folder / "many.parquet")).repartition(20)
    ds = ds.map_batches(
        RunTurns,
        fn_constructor_args=("data",),
        fn_constructor_kwargs={"message": "question", "id_column": "number", "name": "many", "concurrency": CONCURRENCY},
        batch_size=100,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=2),
        num_cpus=0.5,
        resources={"place": 1},
    )
    ds.write_parquet(str(folder / "answers"))
    watching.join()
    rows = pyarrow.parquet.read_table(folder / "answers").sort_by("number").to_pylist()
    right = [row for row in rows if row["error"] is None and row["text"] == row["question"]]
    print("RESULT many", len(rows), len({row["number"] for row in right}))
    again = model.calls().total() - before - MANY
    # Those that were under way, twice over: the Session actor may have been lost before it had stored their answers.
    print("RESULT again", again <= 4 * CONCURRENCY)
    print("calls that were made again:", again, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
