"""Programs with graphs, each built of this project's classes or of google-adk's.

Their models answer by what they are asked and nothing else, so an answer is the same when a call is made again. Each call of a
function, and of a model, is noted in a file outside of everything that can be lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from actors import LlmRequest, Part
from actors.messages.json_types import JsonMapping, JsonValue
from tests.graph.kit import Kit

Reply = str | tuple[str, JsonMapping]
"""What a model says: a text, or a call as (name, args)."""


class Program(NamedTuple):
    """A tree, and what its user says: texts, or answers by the ids of the questions."""

    root: Any
    turns: Sequence[str | Mapping[str, JsonValue]]


class Notes:
    """Lines in a file of the play that goes on, which processes share.

    Args:
        folder: its file `play` has the name of the play.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def _play(self) -> str:
        return (self.folder / "play").read_text()

    def begin(self, play: str) -> None:
        """Another play begins."""
        written = self.folder / "play.new"
        written.write_text(play)
        written.replace(self.folder / "play")

    def add(self, key: str) -> None:
        """Note that something begins now."""
        self._append("notes", f"{time.time()} {key}\n")

    def count(self, what: str) -> int:
        """The number of this thing in the play, from 1."""
        return self._append(what, ".")

    def _append(self, what: str, text: str) -> int:
        path = self.folder / f"{self._play}.{what}"
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
            return os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)

    def read(self, play: str) -> dict[str, list[float]]:
        """When each thing began in a play, in seconds, by its key."""
        begun: dict[str, list[float]] = {}
        path = self.folder / f"{play}.notes"
        for line in path.read_text().splitlines() if path.exists() else ():
            at_s, _, key = line.partition(" ")
            begun.setdefault(key, []).append(float(at_s))
        return begun

    def run(self, ctx: Any) -> None:
        """Note that a function begins."""
        self.add(f"{ctx.invocation_id} {ctx.node_path} {ctx.attempt_count}")


class Answers:
    """A model's answers: the first whose words stand in the last content that it is asked.

    Args:
        name: of the agent.
        known: pairs of words and answers.
    """

    def __init__(self, name: str, notes: Notes, known: Sequence[tuple[str, Reply]]) -> None:
        self.name = name
        self._notes = notes
        self._known = known

    def reply(self, request: LlmRequest) -> Reply:
        """The answer to a request."""
        asked = " ".join(map(_shown, request.contents[-1].parts))
        self._notes.add(f"{self.name}: {len(request.contents)} {asked}")
        return next(reply for words, reply in self._known if words in asked)


def _shown(part: Part) -> str:
    answer = part.function_response
    return part.text or "" if answer is None else f"<resp {answer.name} {json.dumps(answer.response, sort_keys=True)}>"


class Review(BaseModel):
    ok: bool
    remark: str


class Verdict(BaseModel):
    approved: bool
    remark: str = ""


class Booking(BaseModel):
    city: str
    nights: int
    breakfast: bool = False


class Order(BaseModel):
    item: str
    count: int


def approval(kit: Kit, notes: Notes) -> Program:
    """A draft waits for a person, who sends it back with a remark once."""
    author = kit.llm(
        Answers("author", notes, [("Change it", "Offer: 90."), ("", "Offer: 100.")]), instruction="Write it.", output_key="offer"
    )

    def ask_manager(ctx: Any, node_input: str) -> Any:
        notes.run(ctx)
        yield kit.request_input(
            interrupt_id=f"approve-{ctx.run_id}",
            message="May this go out?",
            payload={"offer": node_input},
            response_schema=Verdict,
        )

    def judge(ctx: Any, node_input: dict[str, Any]) -> Any:
        notes.run(ctx)
        if node_input["approved"]:
            return kit.event(route="send")
        return kit.event(route="redo", output=f"Change it: {node_input['remark']}")

    def send(ctx: Any, offer: str) -> str:
        notes.run(ctx)
        return f"sent <{offer}>"

    root = kit.graph("approval", [(kit.start, author, ask_manager, judge, {"send": send, "redo": author})])
    return Program(root, ["10 pieces", {"approve-1": {"approved": False, "remark": "dear"}}, {"approve-2": {"approved": True}}])


def booking(kit: Kit, notes: Notes) -> Program:
    """A task agent collects a booking over three messages, and hands on an object that was checked."""

    def greet(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        ctx.state["guest"] = "Ada"
        return f"The guest {ctx.state['guest']} says: {node_input}"

    def rate(city: str) -> int:
        """The price of a night."""
        notes.add(f"rate {city}")
        return {"Rome": 90}.get(city, 100)

    def store(ctx: Any, node_input: dict[str, Any]) -> dict[str, Any]:
        notes.run(ctx)
        ctx.state["number"] = 17
        return node_input | {"number": 17}

    known: list[tuple[str, Reply]] = [
        ("The guest", "Which city, please?"),
        ("<resp rate", "A night in Rome is 90. How many nights?"),
        ("<resp finish_task", ("finish_task", {"city": "Rome", "nights": 3, "breakfast": True})),
        ("three nights", ("finish_task", {"city": "Rome", "nights": "three"})),
        ("Rome", ("rate", {"city": "Rome"})),
    ]
    clerk = kit.llm(
        Answers("clerk", notes, known),
        mode="task",
        tools=[rate],
        output_schema=Booking,
        output_key="booking",
        instruction="Book.",
    )
    confirm = kit.llm(Answers("confirm", notes, [("", "Booked: Rome, 3 nights.")]), instruction="Confirm it.")
    root = kit.graph("hotel", [(kit.start, greet, clerk, store, confirm)])
    return Program(root, ["I need a room", "Rome", "three nights with breakfast"])


def dynamic(kit: Kit, notes: Notes) -> Program:
    """A function plans with an agent, runs steps, two at the same time, and asks the user in between."""
    planner = kit.llm(Answers("planner", notes, [("", '["wash", "cut", "cook"]')]), instruction="Plan.")
    taster = kit.llm(Answers("taster", notes, [("less salt", "good"), ("", "too salty")]), instruction="Taste.")

    def cook(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        ctx.state[f"done_{node_input}"] = ctx.run_id
        return f"{node_input} done"

    def ask_guests(ctx: Any, node_input: Any) -> Any:
        notes.run(ctx)
        yield kit.request_input(interrupt_id="guests", message="How many guests?", response_schema=int)

    def season(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        return f"{node_input} with less salt"

    step, asking, seasoning = kit.node(cook, name="step"), kit.node(ask_guests), kit.node(season)

    async def kitchen(ctx: Any, node_input: str) -> Any:
        plan = json.loads(await ctx.run_node(planner, node_input))
        first = await asyncio.gather(*(ctx.run_node(step, name) for name in plan[:2]))
        guests = await ctx.run_node(asking, None)
        dish = await ctx.run_node(step, plan[2])
        for _ in range(3):
            if await ctx.run_node(taster, f"{dish} for {guests}") == "good":
                break
            dish = await ctx.run_node(seasoning, dish)
        return {"prepared": first, "dish": dish, "guests": guests}

    def serve(ctx: Any, node_input: dict[str, Any]) -> str:
        notes.run(ctx)
        return f"served {node_input['dish']} to {node_input['guests']}"

    chief = kit.node(kitchen, rerun_on_resume=True)
    root = kit.graph("restaurant", [(kit.start, chief, serve)], below=[planner, taster])
    return Program(root, ["soup", {"guests": "4"}])


def nested(kit: Kit, notes: Notes) -> Program:
    """A graph with a fan-out and a join inside another one, used several times in a circle; the second message fails in it."""

    def parse(ctx: Any, node_input: str) -> Order:
        notes.run(ctx)
        item, count = node_input.split()
        return Order(item=item, count=int(count))

    def stock(ctx: Any, node_input: Order) -> bool:
        notes.run(ctx)
        return node_input.count < 10

    def weight(ctx: Any, node_input: Order) -> int:
        notes.run(ctx)
        return 3 * node_input.count

    def summary(ctx: Any, node_input: dict[str, Any]) -> dict[str, Any]:
        notes.run(ctx)
        ctx.state["seen"] = ctx.state.get("seen", 0) + 1
        return {"ok": node_input["stock"], "kg": node_input["weight"]}

    def first_line(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        first, _, rest = node_input.partition(";")
        ctx.state["rest"] = rest
        return first.strip()

    def more(ctx: Any, node_input: dict[str, Any]) -> Any:
        notes.run(ctx)
        ctx.state["kg"] = ctx.state.get("kg", 0) + (node_input["kg"] if node_input["ok"] else 0)
        rest = ctx.state["rest"]
        return kit.event(route="more", output=rest) if rest else kit.event(route="end", output=node_input)

    def bill(ctx: Any, kg: int, seen: int) -> str:
        notes.run(ctx)
        return f"{seen} orders, {kg} kg"

    letter = kit.llm(Answers("letter", notes, [("", "Dear customer.")]), instruction="Write the letter for {kg} kg.")
    intake = kit.graph("intake", [(kit.start, parse, (stock, weight), kit.join("facts"), summary)])
    edges = [(kit.start, first_line, intake, more), (more, {"more": first_line, "end": bill}), (bill, letter)]
    return Program(kit.graph("shop", edges), ["nails 4; bolts 20; nuts 5", "nails x"])


def research(kit: Kit, notes: Notes) -> Program:
    """Two agents at the same time, a join, a writer, and a critic that sends the draft back until it is content."""

    def topic(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        ctx.state["topic"] = node_input
        return node_input

    def brief(ctx: Any, node_input: dict[str, str]) -> str:
        notes.run(ctx)
        return "; ".join(f"{name}: {found}" for name, found in sorted(node_input.items()))

    def decide(ctx: Any, node_input: dict[str, Any]) -> Any:
        notes.run(ctx)
        ctx.state["rounds"] = rounds = ctx.state.get("rounds", 0) + 1
        if node_input["ok"] or rounds >= 3:
            return kit.event(route="done", output=ctx.state["draft"])
        return kit.event(route="again", output=f"Improve it: {node_input['remark']}")

    def publish(ctx: Any, node_input: str) -> str:
        notes.run(ctx)
        return f"PUBLISHED {node_input}"

    history = kit.llm(Answers("history", notes, [("", "Invented in 1888.")]), instruction="The history of {topic}.")
    market = kit.llm(Answers("market", notes, [("", "Sales doubled.")]), instruction="The market of {topic}.")
    drafts: list[tuple[str, Reply]] = [("Improve it", "Draft two, with the year."), ("", "Draft one.")]
    writer = kit.llm(Answers("writer", notes, drafts), instruction="Write about {topic}.", output_key="draft")
    found: list[tuple[str, Reply]] = [
        ("two", '{"ok": true, "remark": ""}'),
        ("", '{"ok": false, "remark": "name the year"}'),
    ]
    critic = kit.llm(Answers("critic", notes, found), instruction="Judge the draft.", output_schema=Review)
    edges = [
        (kit.start, topic, (history, market), kit.join("gather"), brief, writer, critic, decide),
        (decide, {"again": writer, "done": publish}),
    ]
    return Program(kit.graph("research", edges), ["the tyre"])


def items(kit: Kit, notes: Notes) -> Program:
    """A function runs for each item of a list, two at a time, and one of them is tried again; in the second message one fails."""

    async def price(ctx: Any, node_input: str) -> dict[str, Any]:
        notes.run(ctx)
        if node_input == "stone":
            raise ValueError("a stone has no price")
        if node_input == "pear" and ctx.attempt_count == 1:
            raise ConnectionError("the shop is closed")
        return {"name": node_input, "cents": 10 * len(node_input)}

    def split(ctx: Any, node_input: str) -> list[str]:
        notes.run(ctx)
        return [word.strip() for word in node_input.split(",")]

    def total(ctx: Any, node_input: list[Any]) -> int:
        notes.run(ctx)
        return sum(item["cents"] for item in node_input)

    soon = kit.retry_config(max_attempts=2, initial_delay=0.01, jitter=0.0)
    worker = kit.node(kit.node(price, retry_config=soon), parallel_worker=True, max_parallel_workers=2)
    teller = kit.llm(Answers("teller", notes, [("", "That is it.")]), instruction="Say the price.")
    return Program(kit.graph("prices", [(kit.start, split, worker, total, teller)]), ["apple, fig, pear", "stone"])


PROGRAMS: Mapping[str, Callable[[Kit, Notes], Program]] = {
    each.__name__: each for each in (approval, booking, dynamic, items, nested, research)
}
