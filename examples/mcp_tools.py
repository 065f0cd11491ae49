"""Tools of an MCP server, which asks the user something in the middle of a call. The server is this file, run with `serve`."""

import sys
from typing import Annotated

from raygrove import LlmAgent, McpTools, Runtime
from raygrove.testing import PatternModel


def serve() -> None:
    """An MCP server, made with the library `mcp`."""
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.resolve import Elicit, Resolve
    from pydantic import BaseModel

    class Day(BaseModel):
        day: str

    def ask_for_day(place: str) -> Elicit[Day]:
        return Elicit(f"For which day at {place}?", Day)

    def find_places(town: str) -> list[str]:
        """Find places to eat in a town."""
        return [f"Trattoria {town}", f"Bistro {town}"]

    def book(place: str, when: Annotated[Day, Resolve(ask_for_day)]) -> str:
        """Book a table; asks for the day."""
        return f"a table at {place} on {when.day}"

    server = MCPServer("tables", log_level="WARNING")
    server.add_tool(find_places)
    server.add_tool(book)
    server.run()


tables = McpTools(name="tables", command=[sys.executable, __file__, "serve"], prefix="tables_")
model = PatternModel(
    [
        ("tool:tables_find_places", "There is Trattoria Rome."),
        ("tool:tables_book", "It is booked."),
        ("hungry", {"call": "tables_find_places", "args": {"town": "Rome"}}),
        ("Trattoria", {"call": "tables_book", "args": {"place": "Trattoria Rome"}}),
    ]
)
waiter = LlmAgent(name="waiter", model=model, tools=[tables])


def main() -> None:
    with Runtime(waiter, app_name="mcp_tools", session_store="sqlite://") as rt:
        print("waiter:", rt.run(user_id="ada", session_id="s1", message="I am hungry").result().text)
        rt.run(user_id="ada", session_id="s1", message="Trattoria, please").result()
        [call] = rt.pending(user_id="ada")
        assert call.question is not None
        print(f"{call.name} asks: {call.question['message']}")
        result = rt.answer(call, {"action": "accept", "content": {"day": "Monday"}}).result()
        for event in result.events:
            for response in event.function_responses():
                print("the server answers:", response.response["result"])
        print("waiter:", result.text)
        figures = rt.statistics().mcp["tables"].counts
        print(f"connections: {figures['connections']}")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
