"""`raygrove chat`, on a terminal of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.app_folders import desk, write
from tests.support.programs.terminal_program import CTRL_C, CTRL_D, TerminalProgram

pytestmark = pytest.mark.sampled(3, of="module")

SLOW = """
    import asyncio

    from actors import LlmAgent, tool
    from actors.testing import PatternModel


    @tool
    async def wait() -> None:
        \"\"\"Wait long.\"\"\"
        await asyncio.sleep(60)


    model = PatternModel([("go", {"call": "wait", "args": {}}), ("fail", ValueError("broken"))], default="Here.")
    root_agent = LlmAgent(name="slow", tools=[wait], model=model)
"""

TRIP = """
    from actors import START, Content, Graph, LlmAgent
    from actors.testing import PatternModel


    def book(node_input: dict[str, str]) -> Content:
        return Content.of_text(f"Off to {node_input['result']}.", role="model")


    finish = {"call": "finish_task", "args": {"result": "Rome"}}
    planner = LlmAgent(name="planner", model=PatternModel([("Rome", finish)], default="Where to?"), mode="task")
    root_agent = Graph(name="trip", edges=[(START, planner, book)])
"""

LIBRARY = """
    import time
    from pathlib import Path

    from actors import AgentTool, LlmAgent
    from actors.testing import PatternModel


    def search() -> str:
        \"\"\"Search the shelves.\"\"\"
        while not Path("found").exists():
            time.sleep(0.02)
        return "shelf 7"


    page = LlmAgent(name="page", tools=[search], model=PatternModel([], default={"call": "search"}))
    patterns = [("tool:page", "A page is looking."), ("is done", "It is there."), ("thanks", "A pleasure.")]
    model = PatternModel(patterns, default={"call": "page", "args": {"request": "look"}})
    root_agent = LlmAgent(name="desk", tools=[AgentTool(page, background=True)], model=model)
"""


@contextmanager
def chatting(folder: Path, *arguments: str) -> Iterator[TerminalProgram]:
    """The command, once it waits for what is typed."""
    with TerminalProgram(["chat", *arguments], folder) as chat:
        chat.until("> ")
        yield chat


def leave(chat: TerminalProgram) -> None:
    chat.type(CTRL_D)
    assert chat.exit_code() == 0


def test_what_agents_have_said_meanwhile_is_shown_before_the_next_turn(tmp_path: Path) -> None:
    write(tmp_path / "library_chat", {"agent.py": LIBRARY})
    with chatting(tmp_path, "library_chat", "--session", "s1") as chat:
        chat.type("where is Emma?\n")
        shown = chat.until("\n> ")
        assert "A page is looking." in shown
        assert "error" not in shown
        (tmp_path / "found").touch()
        shown = ""
        while "It is there." not in shown:
            chat.type("\n")
            shown = chat.until("> ")
        assert "desk: It is there.\n" in shown
        chat.type("thanks\n")
        shown = chat.until("\n> ")
        assert "A pleasure." in shown
        assert "It is there." not in shown


def test_a_conversation_with_transfers_confirmations_and_questions(tmp_path: Path) -> None:
    desk(tmp_path / "desk_chat")
    with TerminalProgram(["chat", "desk_chat", "--session", "s1", "--state", "plan=gold"], tmp_path) as chat:
        assert "session s1, /help lists the commands" in chat.until("> ")
        chat.type("hello\n")
        assert "concierge:\nHow can I help?\n" in chat.until("> ")
        chat.type("it is late\n")
        shown = chat.until("> ")
        assert "concierge → billing\n" in shown
        assert 'billing → lookup_order(order_id="42")\n' in shown
        assert "billing:\nIt is on its way.\n" in shown
        chat.type("refund\n")
        chat.until("billing asks: may refund(amount=80) run? (y/n) ")
        chat.type("perhaps\n")
        chat.until("y or n")
        chat.until("(y/n) ")
        chat.type("y\n")
        # The same agent speaks again, and is not named again.
        shown = chat.until("> ")
        assert "80 euros are yours.\n" in shown
        assert "billing:" not in shown
        chat.type("manager\n")
        chat.until('billing waits for the result of ask_manager(question="May I?"): ')
        chat.type("yes\n")
        assert "The manager agrees." in chat.until("> ")
        chat.type("/state\n")
        assert 'plan = "gold"' in chat.until("> ")
        leave(chat)


def test_an_earlier_conversation_goes_on_with_what_it_waits_for(tmp_path: Path) -> None:
    desk(tmp_path / "desk_again")
    with chatting(tmp_path, "desk_again", "--session", "s1") as chat:
        chat.type("refund\n")
        chat.until("(y/n) ")
        chat.type(CTRL_D)
        chat.until("the turn waits: go on with --session s1")
        assert chat.exit_code() == 0
    with TerminalProgram(["chat", "desk_again", "--session", "s1"], tmp_path) as chat:
        shown = chat.until("> ")
        assert "user: refund\n" in shown
        assert "waits for an answer: refund(amount=80). /answer gives it" in shown
        chat.type("/answer\n")
        chat.until("(y/n) ")
        chat.type("n\n")
        assert "Then not." in chat.until("> ")
        chat.type("/answer\n")
        assert "nothing waits for an answer" in chat.until("> ")
        chat.type("/quit\n")
        assert chat.exit_code() == 0


def test_what_is_typed_goes_to_an_agent_that_works_on_a_task(tmp_path: Path) -> None:
    write(tmp_path / "trip_chat", {"agent.py": TRIP})
    with chatting(tmp_path, "trip_chat", "--session", "s1") as chat:
        chat.type("hello\n")
        assert "Where to?" in chat.until("\n> ")
        leave(chat)
    with chatting(tmp_path, "trip_chat", "--session", "s1") as chat:
        chat.type("Rome\n")
        assert "Off to Rome." in chat.until("\n> ")


def test_commands_show_the_session_and_the_tree(tmp_path: Path) -> None:
    desk(tmp_path / "desk_cmds")
    with TerminalProgram(["chat", "desk_cmds"], tmp_path) as chat:
        first = chat.until("> ").partition("session ")[2].partition(",")[0]
        for typed, expected in (
            ("/help", "/events [N]"),
            ("/agents", "  billing (llm, PatternModel, lookup_order, refund, ask_manager): Orders."),
            ("/session", first),
            ("/state", "the session has no state"),
            ("/events", "the session has no events"),
            ("hello", "How can I help?"),
            ("/events 5", "concierge  text  How can I help?"),
            ("/events x", "error: /events x: give a number"),
            ("/stat", "Did you mean '/state'?"),
        ):
            chat.type(f"{typed}\n")
            assert expected in chat.until("\n> "), typed
        chat.type("/new\n")
        shown = chat.until("\n> ")
        assert "session chat-" in shown
        assert first not in shown
        chat.type(f"/session {first}\n")
        assert "concierge: How can I help?" in chat.until("\n> ")


def test_ctrl_c_cancels_the_turn_and_not_the_program(tmp_path: Path) -> None:
    write(tmp_path / "slow_chat", {"agent.py": SLOW})
    with chatting(tmp_path, "slow_chat") as chat:
        chat.type("go\n")
        chat.until("slow → wait()\n")
        chat.type(CTRL_C)
        assert "cancelled" in chat.until("> ")
        chat.type("hello\n")
        assert "Here.\n" in chat.until("> ")
        chat.type("half a line" + CTRL_C)
        assert "Ctrl-D leaves" in chat.until("\n> ")
        chat.type("fail\n")
        assert "broken" in chat.until("\n> ")
        leave(chat)


GUIDE = """
    import asyncio

    from actors import LlmAgent, tool
    from actors.testing import ScriptedModel


    @tool
    async def search(tool_context) -> str:
        \"\"\"Search until the person says something.\"\"\"
        return (await tool_context.next_message()).text


    @tool
    async def wait() -> None:
        \"\"\"Wait long.\"\"\"
        await asyncio.sleep(60)


    model = ScriptedModel([{"call": "search"}, "Without museums.", {"call": "wait"}])
    root_agent = LlmAgent(name="guide", tools=[search, wait], model=model)
"""


def test_a_line_that_is_typed_while_an_agent_works_steers_it_and_esc_cancels(tmp_path: Path) -> None:
    write(tmp_path / "guide_chat", {"agent.py": GUIDE})
    with chatting(tmp_path, "guide_chat", "--session", "s1") as chat:
        chat.type("Rome\n")
        chat.until("guide → search()")
        chat.type("no museumms\x7f\x7fs\n")
        shown = chat.until("> ")
        assert "no museums" in shown
        assert "Without museums." in shown
        chat.type("go\n")
        chat.until("guide → wait()")
        chat.type("\x1b")
        assert "error" in chat.until("> ")
        leave(chat)
