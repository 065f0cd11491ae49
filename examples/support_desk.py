"""A support desk on a local Ray: four agents, transfers, tools, and a conversation that outlives the program.

Run it twice: the second run goes on where the first one ended. Give messages as arguments to say something else. With a key
for Gemini in the environment the agents think; without one they answer by patterns.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from raygrove import BaseAgent, LlmAgent, Runtime, Session, ToolContext, event_lines, tool
from raygrove.errors import RaygroveError
from raygrove.testing import PatternModel

GEMINI = "gemini-2.5-flash"
USES_VERTEX = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("true", "1")
HAS_KEY = USES_VERTEX or any(map(os.environ.get, ("GOOGLE_API_KEY", "GEMINI_API_KEY")))
APP, USER, SESSION = "support_desk", "ada", "desk-1"
FIRST_TIME = (
    "Hello, I am Ada.",
    "Where is my order 42?",
    "And when will it arrive?",
    "That is too late. I want my money back.",
)
AFTERWARDS = ("Did my refund go through?", "Thank you, that is all.")
COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


# ---------------------------------------------------------------------------------------------------------------- tools
@tool
def remember_name(name: str, context: ToolContext) -> str:
    """Remember what the customer is called, for this and all later conversations."""
    context.state["user:name"] = name
    return "remembered"


@tool
def lookup_order(order_id: str) -> dict[str, Any]:
    """Look up where an order is, when it will arrive and what it costs."""
    return {"order_id": order_id, "status": "on its way", "arrives": "Thursday", "euros": 39}


@tool
def refund_order(order_id: str, euros: int, context: ToolContext) -> dict[str, Any]:
    """Pay the price of an order back."""
    context.state["refund"] = {"order_id": order_id, "euros": euros}
    return {"status": "paid back"}


@tool
def refund_status(context: ToolContext) -> dict[str, Any]:
    """Look up which refund the customer got."""
    return {"refund": context.state.get("refund", "none")}


# --------------------------------------------------------------------------------------------------------------- agents
def model(*patterns: tuple[str, Any]) -> Any:
    """Gemini, or answers by patterns."""
    return GEMINI if HAS_KEY else PatternModel(patterns)


refunds = LlmAgent(
    name="refunds",
    description="Pays money back.",
    instruction="Refund orders that are late, whole and at once: the conversation tells order and price. For all else go back.",
    tools=[refund_order, refund_status],
    model=model(
        ("money", {"call": "refund_order", "args": {"order_id": "42", "euros": 39}}),
        ("tool:refund_order", "Done. The 39 euros are on their way back to you."),
        ("go through", {"call": "refund_status"}),
        ("tool:refund_status.*42", "Yes, the money for order 42 was paid back."),
        ("tool:refund_status", "I see no refund of yours."),
        ("thank|bye", {"transfer": "billing"}),
    ),
)
billing = LlmAgent(
    name="billing",
    description="Invoices, payments and refunds.",
    instruction="Answer questions about invoices and payments. Refunds are for your colleague, thanks for the concierge.",
    sub_agents=[refunds],
    model=model(("money|refund", {"transfer": "refunds"}), ("thank|bye", {"transfer": "concierge"})),
)
shipping = LlmAgent(
    name="shipping",
    description="Where orders are and when they arrive.",
    instruction="Answer questions about deliveries. Look orders up. Who wants money back is for billing.",
    tools=[lookup_order],
    model=model(
        ("money|refund", {"transfer": "billing"}),
        ("arrive", "It will arrive on Thursday."),
        ("order", {"call": "lookup_order", "args": {"order_id": "42"}}),
        ("tool:lookup_order", "Order 42 has left our warehouse and is on its way."),
        ("thank|bye", {"transfer": "concierge"}),
    ),
)
concierge = LlmAgent(
    name="concierge",
    description="Receives customers and finds who can help them.",
    instruction="Greet {user:name?}. Remember the customer's name. Hand questions to the colleague whose field it is.",
    global_instruction="You work at the support desk of a shop. Answer in one short sentence.",
    tools=[remember_name],
    sub_agents=[billing, shipping],
    model=model(
        ("i am ada", {"call": "remember_name", "args": {"name": "Ada"}}),
        ("tool:remember_name", "Nice to meet you! What can I do for you?"),
        ("money|refund", {"transfer": "billing"}),
        ("order|arrive", {"transfer": "shipping"}),
        ("thank|bye", "You are welcome. Have a good day!"),
        ("", "I can help with orders, deliveries and payments."),
    ),
)


# --------------------------------------------------------------------------------------------------------------- output
class Screen:
    """Shows the desk at work.

    Args:
        rt: the runtime, which is asked for the process of an agent when it speaks first.
        before: the conversation of earlier runs, if there is one.
    """

    def __init__(self, console: Console, rt: Runtime, before: Session | None) -> None:
        self._console = console
        self._rt = rt
        self._pids: dict[str, int] = {}
        agents = [event.author for event in before.events if event.author != "user"] if before is not None else []
        self._floor = agents[-1] if agents else ""
        if before is not None:
            self._remember(before)

    def _remember(self, before: Session) -> None:
        name = before.state.get("user:name")
        self._console.print(Text(f"\nWelcome back{f', {name}' if name else ''}.", "bold"))
        self._console.print(f"  stored  {len(before.events)} events")
        self._console.print(f"  floor   {self._floor or 'nobody'}")
        for key, value in before.state.items():
            self._console.print(Text(f"  state   {key} = {value!r}"))

    def turn(self, message: str) -> None:
        """Say something, and show each event as it comes."""
        self._console.print()
        self._line("you", "", "text", message, style="bold")
        turn = self._rt.run(user_id=USER, session_id=SESSION, message=message)
        reason = "which spoke last" if turn.agent == self._floor else "the root"
        self._console.print(f"{'':11}the turn goes to {turn.agent}, {reason}", style="dim")
        for event in turn:
            self._floor = event.author
            for kind, text in event_lines(event):
                self._line(event.author, f"pid {self._pid(event.author)}", kind, text, style=_colour(event.author))

    def _pid(self, agent: str) -> int:
        if agent not in self._pids:
            self._pids = {name: each.pid for name, each in self._rt.statistics().agents.items()}
        return self._pids[agent]

    def _line(self, who: str, process: str, kind: str, text: str, *, style: str) -> None:
        grid = Table.grid(padding=(0, 1))
        for width in (10, 11, 8):
            grid.add_column(width=width, no_wrap=True)
        grid.add_column()
        grid.add_row(Text(who, style), Text(process, "dim"), Text(kind, "dim"), Text(text, "" if kind == "text" else "dim"))
        self._console.print(grid)

    def processes(self) -> None:
        """Show what lives now, and what it has done."""
        seen = self._rt.statistics()
        table = Table("actor", "pid", "runs", "model calls", "events", box=None, pad_edge=False, header_style="dim")
        for actor in (seen.session, seen.runner, *seen.agents.values()):
            counts = (str(actor.counts.get(name, "")) for name in ("runs", "llm_calls", "events"))
            table.add_row(Text(actor.actor, _colour(actor.agent)), str(actor.pid), *counts)
        self._console.print("\n[bold]What lives now[/bold] [dim](an agent that nobody has spoken to has no process)[/dim]")
        self._console.print(table)


def _colour(agent: str) -> str:
    names = [concierge.name, billing.name, refunds.name, shipping.name]
    return COLOURS[names.index(agent)] if agent in names else ""


def drawn(agent: BaseAgent, tree: Tree | None = None) -> Tree:
    """The tree of agents, with their tools."""
    label = Text.assemble((agent.name, f"bold {_colour(agent.name)}"), f"  {agent.description}")
    if isinstance(agent, LlmAgent) and agent.tools:
        label.append(f"  [{', '.join(each.name for each in agent.tools)}]", "dim")
    branch = tree.add(label) if tree is not None else Tree(label)
    for child in agent.sub_agents:
        drawn(child, branch)
    return branch


def main() -> None:
    console = Console(highlight=False)
    console.print(drawn(concierge))
    console.print(f"\nmodel: {GEMINI if HAS_KEY else 'patterns, as no key for Gemini is in the environment'}")
    status = console.status("starting Ray …")
    status.start()
    try:
        with Runtime(concierge, app_name=APP) as rt:
            status.stop()
            before = rt.sessions.get(USER, SESSION)
            screen = Screen(console, rt, before)
            for message in sys.argv[1:] or (AFTERWARDS if before is not None else FIRST_TIME):
                screen.turn(message)
            screen.processes()
            status.update("stopping …")
            status.start()
    except RaygroveError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    finally:
        status.stop()
    python = Path(sys.executable)
    bin_ = python.parent.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python.parent
    console.print(f"\nThe conversation is kept in .raygrove/{APP}.db.")
    for what, command in {
        "go on": "make demo",
        "say something else": f'{bin_}/python {sys.argv[0]} "Where is my order 42?"',
        "see it in a browser": f"make serve, then http://127.0.0.1:8000/ui/?app={APP}&user={USER}&session={SESSION}",
        "read the log": f"{bin_}/raygrove sessions show {APP} {SESSION}",
        "begin anew": f"rm .raygrove/{APP}.db*",
    }.items():
        console.print(f"  {what:19} {command}", soft_wrap=True)


if __name__ == "__main__":
    main()
