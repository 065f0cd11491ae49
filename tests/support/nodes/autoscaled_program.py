"""A program: under load Ray's autoscaler adds nodes for an agent's replicas, and afterwards it takes them away.

Run by test_nodes.py in a process of its own, since Ray reads its variables when it is imported. Argument: a folder.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from actors import Content, CustomAgent, Event, InvocationContext, Placement
from tests.support.nodes.autoscaled import autoscaled_ray
from tests.support.polling import until

CPUS, NODES = 2, 4
RUN_S = 0.25
AT_ONCE = 64
BUSY_TURNS = 800


class Worker(CustomAgent):
    """Takes as long as a model would, and says on which node it runs."""

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        import ray

        await asyncio.sleep(RUN_S)
        yield Event(content=Content.of_text(ray.get_runtime_context().get_node_id()[-2:], role="model"))


def main(folder: Path) -> None:
    """Print how the nodes come, are used, and go."""
    with autoscaled_ray(folder, cpus=CPUS, least=0, most=NODES, idle_s=3) as address:
        run_on(address, folder)


def run_on(address: str, folder: Path) -> None:
    """Have the app work on this Ray."""
    import ray

    from runtime.settings import Settings
    from tests.support.runtimes import Deploy

    @ray.remote(num_cpus=CPUS)
    class Holder:
        """Keeps a node."""

        def is_there(self) -> bool:
            return True

    began_s = time.monotonic()

    def say(*words: object) -> None:
        print(f"{time.monotonic() - began_s:5.1f} s:", *words, file=sys.stderr, flush=True)

    def nodes() -> int:
        # The head does no work.
        return sum(each["Alive"] for each in ray.nodes()) - 1  # type: ignore[no-untyped-call]

    ray.init(address, log_to_driver=False)
    holders = [Holder.remote() for _ in range(2)]  # type: ignore[attr-defined]
    ray.get([holder.is_there.remote() for holder in holders])
    say(nodes(), "nodes are there for others")
    placement = Placement(num_cpus=1, max_replicas=CPUS * NODES, runs_per_replica=AT_ONCE // (CPUS * NODES))
    settings = Settings(autoscaling=True, idle_timeout_s=3, placement_timeout_s=60, log_to_driver=False)
    worker = Worker(name="worker", placement=placement)
    with Deploy("ray", folder)(worker, app_name="wanted", address=address, settings=settings) as rt:
        for holder in holders:
            ray.kill(holder)
        until(lambda: nodes() == 0)
        say("no node is left")
        say("the first answer comes from", rt.run(user_id="ada", session_id="first", message="go").result().text)
        print("RESULT nodes for one turn", nodes())
        began_s = time.monotonic()
        seen: Counter[str] = Counter()
        busy: Counter[str] = Counter()

        def inputs() -> Iterator[str]:
            while busy.total() < BUSY_TURNS:
                yield "go"

        for result in rt.map(inputs(), concurrency=AT_ONCE, progress=False):
            node = result.text
            if node not in seen:
                say(f"node {node} works: the {len(seen) + 1}. of {nodes()}")
            seen[node] += 1
            if len(seen) == NODES:
                busy[node] += 1
        print("RESULT nodes under load", nodes())
        least = min(busy.values()) * NODES / busy.total()
        say(f"turns by node {dict(busy)}; the node with the fewest has {least:.2f} of an even share")
        print("RESULT each node has half of its share at least", least > 0.5)
        say(rt.statistics().runner.counts)
        began_s = time.monotonic()
        until(lambda: nodes() == 0)
        say("the nodes are given back")
        print("RESULT nodes at rest", nodes())
        say("the next answer comes from", rt.run(user_id="ada", session_id="first", message="go").result().text)
        print("RESULT nodes for one turn", nodes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
