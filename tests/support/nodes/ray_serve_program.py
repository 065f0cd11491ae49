"""A program: two replicas of Ray Serve serve one deployment. Run by test_ray_serve.py in a process of its own.

It follows a turn, and connects again after every few frames, to either replica.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import ray
from ray import serve

from runtime import Runtime
from runtime.settings import Settings
from tests.support.agents.web_agents import Counting
from tests.support.servers.web_server import TIMEOUT_S, frames

NUMBERS, LEFT = 200, 9
URL = "http://127.0.0.1:8123"
TOKEN = "a-token-0123456789"


def server() -> Any:
    """The application of one replica."""
    import os

    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    from runtime.web import Principal, StaticTokens, app_for

    rt = Runtime.connect("counting")
    rt.start()
    app = app_for(rt, auth=StaticTokens({TOKEN: Principal(user_id="ada")}))

    async def pid(_: object) -> PlainTextResponse:
        return PlainTextResponse(str(os.getpid()))

    return Starlette(routes=[Route("/pid", pid), Mount("/", app)])


async def follow() -> None:
    """Print what came of the stream, and from how many replicas."""
    got: list[tuple[int, str]] = []
    kinds: Counter[str] = Counter()
    pids: set[str] = set()
    turns = "/v1/apps/counting/sessions/s/turns"
    async with httpx2.AsyncClient(base_url=URL, timeout=TIMEOUT_S, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        begun = await client.post(turns, json={"message": "count"}, headers={"Prefer": "respond-async"})
        assert begun.status_code == 202, begun.text
        while not kinds["end"]:
            pids.add((await client.get("/pid")).text)
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(got[-1][0])} if got else {})}
            left = LEFT
            async with client.stream("GET", f"{begun.headers['location']}/events", headers=headers) as response:
                assert response.status_code == 200
                async for frame in frames(response):
                    kinds[frame.kind] += 1
                    if frame.id:
                        got.append((int(frame.id), frame.data["content"]["parts"][0]["text"]))
                    left -= 1
                    if not left:
                        break
    print("RESULT all", got == [(number + 1, f"number {number}") for number in range(1, NUMBERS + 1)])
    print("RESULT replicas", len(pids))


def main(folder: Path) -> None:
    ray.init("local", namespace=Settings().namespace, log_to_driver=False, logging_level=logging.ERROR, num_cpus=6)
    root = Counting(name="counting", upto=NUMBERS)
    with Runtime(root, app_name="counting", session_store=f"sqlite:///{folder}/sessions.db", memory_store=None):
        serve.start(http_options={"host": "127.0.0.1", "port": 8123})
        deployment: Any = serve.deployment(serve.ingress(server)(), num_replicas=2)
        serve.run(deployment.bind())
        asyncio.run(follow())
        serve.shutdown()  # type: ignore[no-untyped-call]
    ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
