"""An agent calls an API that an OpenAPI document describes, and works with the answer in Python of its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from raygrove import ApiKeyAuth, LlmAgent, OpenApiTools, Runtime, python_tool
from raygrove.testing import ScriptedModel

SHOP = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}},
    "paths": {
        "/sales/{month}": {
            "parameters": [{"name": "month", "in": "path", "schema": {"type": "string"}}],
            "get": {"operationId": "get_sales", "summary": "What was sold on each day of a month."},
            "delete": {"operationId": "delete_sales", "summary": "Forget a month."},
        }
    },
}

CODE = """
import csv, statistics
sales = [3, 9, 6]
with open("sales.csv", "w", newline="") as file:
    csv.writer(file).writerows(enumerate(sales, 1))
statistics.mean(sales)
"""


class Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        data = json.dumps([3, 9, 6] if self.headers["X-Api-Key"] == "k1" else "who are you?").encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


@contextmanager
def shop() -> Iterator[str]:
    """The URL of the shop's API."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def analyst(url: str) -> LlmAgent:
    steps: list[Any] = [
        {"call": "get_sales", "args": {"month": "2026-11"}},
        {"call": "run_python", "args": {"code": CODE}},
        "Six a day; the days are in sales.csv.",
    ]
    tools = [OpenApiTools(SHOP, server=url, auth=ApiKeyAuth("k1"), require_confirmation="unsafe"), python_tool()]
    return LlmAgent(name="analyst", model=ScriptedModel(steps), tools=tools)


def main() -> None:
    with shop() as url, Runtime(analyst(url), app_name="api_and_code", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="How many did we sell each day?"):
            for response in event.function_responses():
                print(f"{response.name}: {response.response}")
            if event.text:
                print(f"{event.author}: {event.text}")
        print(rt.artifacts.list_keys("ada", "s1"))


if __name__ == "__main__":
    main()
