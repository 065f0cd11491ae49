"""A driver of the storm: joins the deployment and sends its turns. It may be killed at any time and started again.

Arguments: the address of the Ray cluster, the folder of the storm, the driver's name. The work is in `<name>.work.json`: a list
of (session id, invocation id, text). Every turn that has ended gets a line in `<name>.ended.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

from actors.errors import RaygroveError, TurnError
from runtime import Runtime

APP = "storm"
USER_ID = "ada"
SESSIONS_AT_ONCE = 8


async def main(address: str, folder: Path, name: str) -> None:
    """Send what has not ended yet, one turn after the other in each session."""
    ended = folder / f"{name}.ended.jsonl"
    done = {json.loads(line)["invocation_id"] for line in ended.read_text().splitlines()} if ended.exists() else set()
    by_session: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for session_id, invocation_id, text in json.loads((folder / f"{name}.work.json").read_text()):
        if invocation_id not in done:
            by_session[session_id].append((invocation_id, text))
    places = asyncio.Semaphore(SESSIONS_AT_ONCE)
    async with Runtime.connect(APP, address=address) as rt:
        with ended.open("a") as file:

            async def drive(session_id: str) -> None:
                for invocation_id, text in by_session[session_id]:
                    async with places:
                        line = await _turn(rt, session_id, invocation_id, text)
                    file.write(json.dumps(line) + "\n")
                    file.flush()

            await asyncio.gather(*map(drive, by_session))


async def _turn(rt: Runtime, session_id: str, invocation_id: str, text: str) -> dict[str, object]:
    """Follow a turn to its end. A turn that could not start is sent again, under the same id."""
    began_s = time.time()
    refused: list[str] = []
    while True:
        turn = rt.run(user_id=USER_ID, session_id=session_id, message=text, invocation_id=invocation_id)
        told: list[str] = []
        failure = ""
        try:
            async for event in turn:
                told.append(event.id)
        except TurnError as error:
            failure = f"{type(error).__name__}: {error}"
        except RaygroveError as error:
            failure = f"{type(error).__name__}: {error}"
            if not told:
                refused.append(failure)
                await asyncio.sleep(0.5)
                continue
        return {
            "session_id": session_id,
            "invocation_id": invocation_id,
            "text": text,
            "told": told,
            "failure": failure,
            "refused": refused,
            "began_s": began_s,
            "ended_s": time.time(),
        }


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
