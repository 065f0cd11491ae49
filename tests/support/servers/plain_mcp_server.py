"""An MCP server of the revision 2025-06-18, without the library, so that it starts at once. It asks users in open calls."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_lock = threading.Lock()
_asked: dict[str, tuple[threading.Event, list[Any]]] = {}


def send(**message: Any) -> None:
    with _lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(message: str, **fields: Any) -> Any:
    """Ask the user; the result of the request."""
    number = f"ask-{len(_asked)}"
    schema = {"type": "object", "properties": fields or {"day": {"type": "string"}}, "required": list(fields or ["day"])}
    answered = _asked[number] = (threading.Event(), [])
    send(id=number, method="elicitation/create", params={"message": message, "requestedSchema": schema})
    answered[0].wait()
    return answered[1][0].get("result") or {"action": "error"}


def add(meta: Any, a: int, b: int) -> str:
    if not isinstance(a, int):
        raise ValueError("a is no number")
    return str(a + b)


def process_id(meta: Any) -> str:
    return str(os.getpid())


def wait(meta: Any, file: str) -> str:
    """Wait for ever when called first; the file has a line for each call."""
    with _lock, Path(file).open("a") as lines:
        lines.write(f"{os.getpid()} {meta.get('raygrove/function_call_id')}\n")
    if Path(file).read_text().count("\n") == 1:
        threading.Event().wait()
    return "waited"


def book(meta: Any, place: str) -> str:
    first = ask(f"Which day in {place}?")
    second = ask("And to come back?") if first["action"] == "accept" else first
    days = [each["content"]["day"] if each["action"] == "accept" else each["action"] for each in (first, second)]
    return f"{place}: {days[0]} to {days[1]}"


def order(meta: Any) -> str:
    fields = {"wine": {"type": "string", "default": "red"}, "glasses": {"type": "integer", "default": 2}}
    return json.dumps(ask("Which wine?", **fields).get("content"))


def grow(meta: Any) -> str:
    """Have a hundred more tools."""
    TOOLS.update({f"tool_{number}": (add, f"Add numbers of the kind {number}.") for number in range(100)})
    send(method="notifications/tools/list_changed")
    return "grown"


def fall_over(meta: Any) -> str:
    """End the process in the middle of every call."""
    os._exit(1)


class Refusal(Exception):
    """An error of JSON-RPC with a code."""


def refuse(meta: Any, file: str, code: int) -> str:
    """Answer with an error; the file has a line for each call."""
    with Path(file).open("a") as lines:
        lines.write("called\n")
    raise Refusal(code)


TOOLS: dict[str, tuple[Callable[..., str], str]] = {
    "add": (add, "Add two numbers."),
    "maths/add.two:numbers": (add, "Add two numbers, under a name that no service takes."),
    "process_id": (process_id, "The process of the server."),
    "wait": (wait, "Wait for ever when called first."),
    "book": (book, "Book a table."),
    "order": (order, "Order wine."),
    "grow": (grow, "Have more tools."),
    "fall_over": (fall_over, "End."),
    "refuse": (refuse, "Answer with an error."),
}


def call(message: Any) -> None:
    parameters = message["params"]
    try:
        text = TOOLS[parameters["name"]][0](parameters.get("_meta", {}), **parameters.get("arguments", {}))
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    except Refusal as refusal:
        send(id=message["id"], error={"code": refusal.args[0], "message": "I refuse"})
        return
    except (KeyError, TypeError, ValueError) as error:
        result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    send(id=message["id"], result=result)


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            event, replies = _asked[message["id"]]
            replies.append(message)
            event.set()
        elif message["method"] == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "plain", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
            send(id=message["id"], result=result)
        elif message["method"] == "tools/list":
            schema = {"type": "object", "properties": {"a": {}, "b": {}}}
            tools = [{"name": name, "description": text, "inputSchema": schema} for name, (_, text) in TOOLS.items()]
            malformed = json.loads(os.environ.get("MALFORMED_SCHEMAS", "{}"))
            tools += [{"name": name, "inputSchema": wrong} for name, wrong in malformed.items()]
            send(id=message["id"], result={"tools": tools})
        elif message["method"] == "tools/call":
            threading.Thread(target=call, args=(message,), daemon=True).start()
        elif "id" in message:
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})


def refuses_to_start() -> bool:
    """True for all but the first of so many starts; the file has a line for each."""
    file, starts = os.environ.get("STARTS_FILE"), int(os.environ.get("FAILING_STARTS", "0"))
    if not file:
        return False
    with Path(file).open("a") as lines:
        lines.write("started\n")
    return 1 < Path(file).read_text().count("\n") <= 1 + starts


if __name__ == "__main__":
    if refuses_to_start():
        sys.exit(1)
    serve()
