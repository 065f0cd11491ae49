"""What messages between two agents cost that run side by side, beside an event that is appended."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

from actors import Content, CustomAgent, Event, InvocationContext, ParallelAgent
from tests.benchmarks.figures import Figure, median
from tests.benchmarks.plan import Plan
from tests.benchmarks.workloads import run_turn, runtime

NAME = "sends"


class Caller(CustomAgent):
    """Sends messages one by one and many at once, appends events, and says how long each took."""

    times: int
    many: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        appended_ms, sent_ms, heard_ms = list[float](), list[float](), list[float]()
        for number in range(self.times + 1):
            began_s = time.perf_counter()
            await context.change_state({"number": number})
            appended_ms.append((time.perf_counter() - began_s) * 1_000)
            began_s = time.perf_counter()
            # The clock is that of all processes of a machine.
            await context.send("answerer", f"{began_s}")
            sent_ms.append((time.perf_counter() - began_s) * 1_000)
            heard_ms.append(float((await context.next_message()).text))
        began_s = time.perf_counter()
        for _ in range(self.many):
            await context.send("answerer", "more")
        await context.next_message()
        rate = self.many / (time.perf_counter() - began_s)
        # The first of each makes connections.
        took = {"appended": median(appended_ms[1:]), "sent": median(sent_ms[1:]), "heard": median(heard_ms[1:]), "rate": rate}
        yield Event(content=Content.of_text(json.dumps(took)))


class Answerer(CustomAgent):
    """Answers each message with how long it took to come, and many with one answer."""

    times: int
    many: int

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        for _ in range(self.times + 1):
            sent_s = float((await context.next_message()).text)
            await context.send("caller", f"{(time.perf_counter() - sent_s) * 1_000}")
        for _ in range(self.many):
            await context.next_message()
        await context.send("caller", "all")
        yield Event(content=Content.of_text("done"))


def measure(plan: Plan) -> list[Figure]:
    """Messages one by one, and many at once."""
    agents = [made(name=made.__name__.lower(), times=plan.sent, many=plan.sent_at_once) for made in (Caller, Answerer)]
    with TemporaryDirectory() as folder, runtime(plan, ParallelAgent(name="root", sub_agents=agents), Path(folder)) as rt:
        [said] = [event.text for event in run_turn(rt, "s") if event.author == "caller" and event.text]
    took = json.loads(said)
    times = (("sent", "a message is sent: median"), ("heard", "from the send of a message to its reader: median"))
    return [
        *(
            Figure(
                benchmark=NAME,
                name=name,
                value=took[key],
                unit="ms",
                reference=took["appended"],
                reference_name="an event is appended",
            )
            for key, name in times
        ),
        Figure(
            benchmark=NAME,
            name="messages of one agent to another",
            value=took["rate"],
            unit="messages/s",
            reference=1_000 / took["appended"],
            reference_name="events appended",
        ),
    ]
