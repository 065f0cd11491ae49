"""A program that has turns of many kinds run until its input ends, by a Runtime that has joined or over HTTP, and tells of each.

Call: `python -m tests.support.releases.turns_program APP RATE [URL]`. It asks again when it is told to, sends a turn again, with
its id, when the deployment was gone, answers calls that wait, and goes on with streams that are cut. In the end it prints a line
of JSON: by turn its kind and what was heard of it, what stands in the log, and what was refused.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actors import Event, RunConfig
from actors.errors import DeploymentNotFoundError, OverloadedError
from runtime import Runtime

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

KINDS = ("go", "go", "go", "go", "loop", "graph", "go", "stream", "pause", "left", "go", "still", "loop", "graph", "go", "stream")
"""One after the other; each 25th turn is a slow one."""

SLOW_EVERY, AT_ONCE, TURNS_OF_SESSION, AGAIN_S, LATEST_AGAIN_S, MOST_PAUSED_S = 25, 64, 4, 0.5, 4.0, 8.0
USER, SCHEDULES = "ada", 4

EVERY_S = 5
"""Of each schedule. One that is more than 100 times behind leaves some out, as after 100 s at a turn a second."""


class RefusedError(Exception):
    """A request was refused with the time to ask again: the error's name, and seconds."""


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the errors of a request that is to be sent again into RefusedError."""
    try:
        yield
    except OverloadedError as error:
        raise RefusedError(type(error).__name__, error.retry_after_s) from error
    except DeploymentNotFoundError as error:
        raise RefusedError(type(error).__name__, AGAIN_S) from error


class Turns(Protocol):
    """How turns are had run."""

    async def result(self, turn: str, session: str, message: str) -> tuple[str, list[str]]:
        """Run a turn to its end or its pause. Returns its text, and the calls that wait."""
        ...

    async def stream(self, turn: str, session: str, message: str) -> str:
        """Run a turn and read along. Returns what it says."""
        ...

    async def leave(self, turn: str, session: str, message: str) -> None:
        """Begin a turn and leave it."""
        ...

    async def answer(self, turn: str, session: str, call: str) -> str:
        """Say yes. Returns the text of the turn."""
        ...


class Load:
    """Turns of all kinds at a rate.

    Args:
        turns: how they are had run.
        mark: begins the names of turns and sessions.
        cut: what is raised where a connection has broken.
    """

    def __init__(self, turns: Turns, mark: str, cut: type[Exception] = ConnectionError) -> None:
        self._cut = cut
        self._turns = turns
        self._mark = mark
        self._chance = random.Random(mark)
        self.refusals = Counter[str]()
        self.longest = (0.0, "", 0.0)

    async def run(self, rate: float) -> dict[str, tuple[str, str]]:
        """Begin turns until the input ends, and wait for their ends. Returns of each its kind and what was heard of it."""
        ended, running = asyncio.Event(), list[asyncio.Task[tuple[str, tuple[str, str]]]]()
        asyncio.get_running_loop().run_in_executor(None, sys.stdin.read).add_done_callback(lambda _: ended.set())
        began_s = time.monotonic()
        while not ended.is_set():
            while len(running) <= (time.monotonic() - began_s) * rate:
                running.append(asyncio.create_task(self._timed(len(running))))
            await asyncio.sleep(1 / rate)
        return dict(await asyncio.gather(*running))

    async def _timed(self, number: int) -> tuple[str, tuple[str, str]]:
        began_s = time.monotonic()
        told = await self._turn(number)
        if told[1][0] not in ("pause", "slow"):
            self.longest = max(self.longest, (time.monotonic() - began_s, told[0], time.time()))
        return told

    async def _turn(self, number: int) -> tuple[str, tuple[str, str]]:
        kind = "slow" if number % SLOW_EVERY == 0 else KINDS[number % len(KINDS)]
        block = number // (AT_ONCE * TURNS_OF_SESSION) * AT_ONCE
        turn, session = f"{self._mark}{number}", f"{self._mark}-{kind}{block + number % AT_ONCE}"
        turns = self._turns
        if kind == "stream":
            return turn, (kind, await self.sure(lambda: turns.stream(turn, session, kind)))
        if kind == "left":
            await self.sure(lambda: turns.leave(turn, session, kind))
            return turn, (kind, "")
        if kind == "pause":
            # Words for a session that waits would be for another turn.
            session = f"{session}-{number}"
        said, calls = await self.sure(lambda: turns.result(turn, session, kind))
        if kind == "pause":
            (call,) = calls
            await asyncio.sleep(self._chance.uniform(0, MOST_PAUSED_S))
            said = await self.sure(lambda: turns.answer(turn, session, call))
        return turn, (kind, said)

    async def sure(self, ask: Callable[[], Awaitable[T]]) -> T:
        """What a request gives, which is sent again when it is refused with a time, and later each time."""
        pause_s = AGAIN_S
        while True:
            try:
                return await ask()
            except RefusedError as error:
                refusal, again_s = error.args
                self.refusals[refusal] += 1
                await asyncio.sleep(max(again_s, pause_s))
            except self._cut as error:
                self.refusals[type(error).__name__] += 1
                await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LATEST_AGAIN_S)


class JoinedTurns:
    """Turns of a program that has joined."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    async def result(self, turn: str, session: str, message: str) -> tuple[str, list[str]]:
        with refusals():
            result = await self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn)
            waiting = await self._rt.aio.turns.pending(user_id=USER, session_id=session) if not result.text else ()
            return result.text, [call.call_id for call in waiting]

    async def stream(self, turn: str, session: str, message: str) -> str:
        said, config = list[str](), RunConfig(streaming="sse")
        with refusals():
            begun = self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn, run_config=config)
            async for event in begun:
                if not event.partial:
                    said.append(event.text)
        return "".join(said)

    async def leave(self, turn: str, session: str, message: str) -> None:
        with refusals():
            begun = self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn, on_leave="continue")
            await begun.aio.started()
            begun.detach()

    async def answer(self, turn: str, session: str, call: str) -> str:
        with refusals():
            # An answer may have been taken by a deployment that has ended before it said so.
            waiting = await self._rt.aio.turns.pending(user_id=USER, session_id=session)
            if any(each.call_id == call for each in waiting):
                return (await self._rt.answer({call: True}, user_id=USER, session_id=session)).text
            return (await self._rt.attach(user_id=USER, session_id=session, invocation_id=turn)).text


class HttpTurns:
    """Turns of a client of a server."""

    def __init__(self, client: httpx2.AsyncClient, url: str) -> None:
        self._client = client
        self._url = url
        self.cuts = Counter[str]()

    async def result(self, turn: str, session: str, message: str) -> tuple[str, list[str]]:
        answer = await self._post(turn, session, message)
        return answer.get("text", ""), [call["callId"] for call in answer.get("pending", ())]

    async def leave(self, turn: str, session: str, message: str) -> None:
        await self._post(turn, session, message, {"Prefer": "respond-async"})

    async def answer(self, turn: str, session: str, call: str) -> str:
        path = f"{self._url}/sessions/{session}/turns/{turn}"
        body, headers = {"answers": {call: True}}, {"Prefer": "respond-async"}
        response = await self._client.post(f"{path}/answers", params={"user": USER}, json=body, headers=headers)
        if response.status_code >= 500:
            # Another error says that it was answered before, to a deployment that has ended before it said so.
            self._taken(response)
        answered = self._taken(await self._client.get(f"{path}/result", params={"user": USER, "wait": "60"}))
        if answered["state"] in ("running", "paused"):
            raise RefusedError(f"is {answered['state']} still", AGAIN_S)
        return str(answered["text"])

    async def stream(self, turn: str, session: str, message: str) -> str:
        path, last, said = f"{self._url}/sessions/{session}/turns", 0, list[str]()
        body, headers = {"message": message, "config": {"streaming": "sse"}}, {"Idempotency-Key": turn}
        request: dict[str, Any] = {"method": "POST", "url": path, "json": body, "headers": headers}
        while True:
            request["headers"]["Accept"] = "text/event-stream"
            async with self._client.stream(**request, params={"user": USER}) as response:
                if response.status_code == 404 and request["method"] == "GET":
                    # The turn had not begun when its deployment ended.
                    request = {"method": "POST", "url": path, "json": body, "headers": headers}
                    continue
                if response.status_code != 200:
                    await response.aread()
                    self._taken(response)
                async for kind, number, data in _frames(response.aiter_lines()):
                    last = number or last
                    if kind == "event":
                        said += [part["text"] for part in data.get("content", {}).get("parts", ()) if "text" in part]
                    elif kind == "end":
                        assert data["state"] == "finished", data
                        return "".join(said)
                    elif kind in ("error", "bye"):
                        self.cuts[data.get("type", kind)] += 1
            self.cuts["streams"] += 1
            await asyncio.sleep(AGAIN_S)
            request = {"method": "GET", "url": f"{path}/{turn}/events", "headers": {"Last-Event-ID": str(last)}}

    async def _post(self, turn: str, session: str, message: str, headers: dict[str, str] | None = None) -> dict[str, Any]:
        path = f"{self._url}/sessions/{session}/turns"
        headers = {"Idempotency-Key": turn, **(headers or {})}
        return self._taken(await self._client.post(path, params={"user": USER}, json={"message": message}, headers=headers))

    def _taken(self, response: httpx2.Response) -> dict[str, Any]:
        if response.status_code in (429, 503):
            raise RefusedError(response.json()["type"], float(response.headers.get("retry-after", AGAIN_S)))
        if response.is_error:
            raise AssertionError(f"{response.status_code}: {response.text}")
        taken: dict[str, Any] = response.json()
        return taken


async def _frames(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, int, dict[str, Any]]]:
    fields = dict[str, str]()
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield fields["event"], int(fields.get("id", 0)), json.loads(fields.get("data", "") or "{}")
            fields = {}


async def joined(app: str, rate: float) -> dict[str, object]:
    """Turns of a program that has joined, and of schedules. It tells of all turns, also those of other programs."""
    async with Runtime.connect(app) as rt:
        load = Load(JoinedTurns(rt), "joined")
        for number in range(SCHEDULES):
            await rt.aio.schedules.create(f"due{number}", user_id=USER, message="go", every=EVERY_S, missed="all")
        asked = await load.run(rate)
        for number in range(SCHEDULES):
            await load.sure(partial(_paused, rt, f"due{number}"))
        await _all_ended(rt)
        turns, due, steps = await _logged(rt)
        return {"asked": asked, "refusals": load.refusals, "longest": load.longest, "turns": turns, "steps": steps, "due": due}


async def _paused(rt: Runtime, name: str) -> None:
    with refusals():
        await rt.aio.schedules.pause(name, user_id=USER)


async def _all_ended(rt: Runtime) -> None:
    for state in ("waiting", "running"):
        # Nothing tells a program of the last one.
        while await rt.aio.turns.list(USER, state=state, limit=1):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)


async def _logged(rt: Runtime) -> tuple[dict[str, Any], dict[str, list[int]], dict[str, list[tuple[float, str]]]]:
    """By turn its state, version, how often it says which tree, messages and error; due times by schedule; authors by turn."""
    infos = await rt.aio.turns.list(USER, limit=1_000_000)
    words, messages, due = defaultdict[str, Counter[str]](Counter), Counter[str](), defaultdict[str, list[int]](list)
    steps = defaultdict[str, list[tuple[float, str]]](list)
    for session in sorted({info.session_id for info in infos}):
        found = await rt.aio.sessions.get(USER, session)
        assert found is not None
        for event in found.events:
            steps[event.invocation_id].append((event.timestamp, event.author))
            if event.author == "user":
                messages[event.invocation_id] += not any(event.function_responses())
            words[event.invocation_id].update(_words(event))
            made = event.custom_metadata or {}
            if "schedule" in made:
                due[str(made["schedule"])].append(int(datetime.fromisoformat(str(made["due"])).timestamp()))
    turns = {
        info.invocation_id: (info.state, info.version, words[info.invocation_id], messages[info.invocation_id], info.error)
        for info in infos
    }
    return turns, due, steps


def _words(event: Event) -> Iterator[str]:
    said = [event.text, event.output, *(response.response for response in event.function_responses())]
    for each in said:
        text = each.get("result") if isinstance(each, dict) else each
        if isinstance(text, str) and text.startswith("tree "):
            yield text


async def over_http(app: str, rate: float, url: str) -> dict[str, object]:
    """Turns of a client of a server."""
    import httpx2

    async with httpx2.AsyncClient(timeout=120.0, limits=httpx2.Limits(max_connections=500)) as client:
        turns = HttpTurns(client, f"{url}/v1/apps/{app}")
        # A server may close a connection that a request is on its way to. The same request again joins the turn.
        load = Load(turns, "http", httpx2.TransportError)
        return {"asked": await load.run(rate), "refusals": load.refusals, "longest": load.longest, "cuts": turns.cuts}


if __name__ == "__main__":
    name, per_s, *urls = sys.argv[1:]
    done = over_http(name, float(per_s), *urls) if urls else joined(name, float(per_s))
    print(json.dumps(asyncio.run(done)))
