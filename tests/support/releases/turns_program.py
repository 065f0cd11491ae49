"""A program that has joined a deployment, has turns of many kinds run until its input ends, and tells of each.

Call: `python -m tests.support.releases.turns_program APP RATE`. It asks again when it is told to, sends a turn again, with its
id, when the deployment was gone, and answers calls that wait. In the end it prints a line of JSON: by turn its kind and what was
heard of it, what stands in the log, and what was refused.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from actors import Event, RunConfig
from actors.errors import DeploymentNotFoundError, OverloadedError
from runtime import Runtime

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
    except (DeploymentNotFoundError, ConnectionError) as error:
        raise RefusedError(type(error).__name__, AGAIN_S) from error


class Load:
    """Turns of all kinds at a rate."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._chance = random.Random("joined")
        self.refusals = Counter[str]()

    async def run(self, rate: float) -> dict[str, tuple[str, str]]:
        """Begin turns until the input ends, and wait for their ends. Returns of each its kind and what was heard of it."""
        ended, running = asyncio.Event(), list[asyncio.Task[tuple[str, tuple[str, str]]]]()
        asyncio.get_running_loop().run_in_executor(None, sys.stdin.read).add_done_callback(lambda _: ended.set())
        began_s = time.monotonic()
        while not ended.is_set():
            while len(running) <= (time.monotonic() - began_s) * rate:
                running.append(asyncio.create_task(self._turn(len(running))))
            await asyncio.sleep(1 / rate)
        return dict(await asyncio.gather(*running))

    async def _turn(self, number: int) -> tuple[str, tuple[str, str]]:
        kind = "slow" if number % SLOW_EVERY == 0 else KINDS[number % len(KINDS)]
        block = number // (AT_ONCE * TURNS_OF_SESSION) * AT_ONCE
        turn, session = f"joined{number}", f"joined-{kind}{block + number % AT_ONCE}"
        if kind == "stream":
            return turn, (kind, await self.sure(lambda: self.stream(turn, session, kind)))
        if kind == "left":
            await self.sure(lambda: self.leave(turn, session, kind))
            return turn, (kind, "")
        if kind == "pause":
            # Words for a session that waits would be for another turn.
            session = f"{session}-{number}"
        said, calls = await self.sure(lambda: self.result(turn, session, kind))
        if kind == "pause":
            (call,) = calls
            await asyncio.sleep(self._chance.uniform(0, MOST_PAUSED_S))
            said = await self.sure(lambda: self.answer(turn, session, call))
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
            pause_s = min(2 * pause_s, LATEST_AGAIN_S)

    async def result(self, turn: str, session: str, message: str) -> tuple[str, list[str]]:
        """Run a turn to its end or its pause. Returns its text, and the calls that wait."""
        with refusals():
            result = await self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn)
            waiting = await self._rt.aio.turns.pending(user_id=USER, session_id=session) if not result.text else ()
            return result.text, [call.call_id for call in waiting]

    async def stream(self, turn: str, session: str, message: str) -> str:
        """Run a turn and read along. Returns what it says."""
        said, config = list[str](), RunConfig(streaming="sse")
        with refusals():
            begun = self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn, run_config=config)
            async for event in begun:
                if not event.partial:
                    said.append(event.text)
        return "".join(said)

    async def leave(self, turn: str, session: str, message: str) -> None:
        """Begin a turn and leave it."""
        with refusals():
            begun = self._rt.run(user_id=USER, session_id=session, message=message, invocation_id=turn, on_leave="continue")
            await begun.aio.started()
            begun.detach()

    async def answer(self, turn: str, session: str, call: str) -> str:
        """Say yes. Returns the text of the turn."""
        with refusals():
            # An answer may have been taken by a deployment that has ended before it said so.
            waiting = await self._rt.aio.turns.pending(user_id=USER, session_id=session)
            if any(each.call_id == call for each in waiting):
                return (await self._rt.answer({call: True}, user_id=USER, session_id=session)).text
            return (await self._rt.attach(user_id=USER, session_id=session, invocation_id=turn)).text


async def joined(app: str, rate: float) -> dict[str, object]:
    """Turns of a program that has joined, and of schedules."""
    async with Runtime.connect(app) as rt:
        load = Load(rt)
        for number in range(SCHEDULES):
            await rt.aio.schedules.create(f"due{number}", user_id=USER, message="go", every=EVERY_S, missed="all")
        asked = await load.run(rate)
        for number in range(SCHEDULES):
            await load.sure(partial(_paused, rt, f"due{number}"))
        await _all_ended(rt)
        turns, due = await _logged(rt)
        return {"asked": asked, "refusals": load.refusals, "turns": turns, "due": due}


async def _paused(rt: Runtime, name: str) -> None:
    with refusals():
        await rt.aio.schedules.pause(name, user_id=USER)


async def _all_ended(rt: Runtime) -> None:
    for state in ("waiting", "running"):
        # Nothing tells a program of the last one.
        while await rt.aio.turns.list(USER, state=state, limit=1):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)


async def _logged(rt: Runtime) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """By turn its state, version, how often it says which tree, messages and error; due times by schedule."""
    infos = await rt.aio.turns.list(USER, limit=1_000_000)
    words, messages, due = defaultdict[str, Counter[str]](Counter), Counter[str](), defaultdict[str, list[int]](list)
    for session in sorted({info.session_id for info in infos}):
        found = await rt.aio.sessions.get(USER, session)
        assert found is not None
        for event in found.events:
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
    return turns, due


def _words(event: Event) -> Iterator[str]:
    said = [event.text, event.output, *(response.response for response in event.function_responses())]
    for each in said:
        text = each.get("result") if isinstance(each, dict) else each
        if isinstance(text, str) and text.startswith("tree "):
            yield text


if __name__ == "__main__":
    print(json.dumps(asyncio.run(joined(sys.argv[1], float(sys.argv[2])))))
