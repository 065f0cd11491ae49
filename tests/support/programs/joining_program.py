"""Programs that start and join a detached app as README says. Arguments: what to do, and addresses.

`start` deploys the app, `join` runs a turn and stops the app, `try` prints for each address why it cannot be joined, `lose` runs
turns until the control service of Ray is away for too long.
"""

from __future__ import annotations

import itertools
import sys
import time

from starlette.testclient import TestClient

from actors import LlmAgent
from actors.errors import RaygroveError
from actors.testing import PatternModel
from runtime import Runtime, Settings
from runtime.web import app_for

APP = "joinable"

SOON_S = 15.0
"""How soon a program has to say that it cannot join, on a busy machine. Ray alone waits for half a minute and more."""


def start(address: str) -> None:
    """Deploy the app."""
    root = LlmAgent(name="root", model=PatternModel([], default="hello"))
    with Runtime(root, app_name=APP, address=address, detached=True, settings=Settings(spare_hosts=0)) as rt:
        print(rt.address)


def join(address: str) -> None:
    """Run a turn, and stop the app."""
    with Runtime.connect(APP, address=address) as rt:
        print(rt.run(user_id="ada", session_id="s1", message="hi").result().text, rt.address == address)
        try:
            Runtime.connect("another", address=address).start()
        except RaygroveError as error:
            print(address in str(error))
        rt.shutdown()


def refused(address: str) -> None:
    """Print why the app cannot be joined."""
    began_s = time.monotonic()
    try:
        Runtime.connect(APP, address=address).start()
    except RaygroveError as error:
        took_s = time.monotonic() - began_s
        print(error if took_s < SOON_S else f"{took_s:.1f} s: {error}")


def lose(address: str) -> None:
    """Run turns, also while the control service of Ray is away. Print what is told of it, until it is given up."""
    with Runtime.connect(APP, address=address) as rt:
        client = TestClient(app_for(rt), base_url="http://127.0.0.1")
        # Its agent lives from then on: no process can be started while the control service is away.
        rt.run(user_id="ada", session_id="s", message="hi").result()
        print("joined", client.get("/readyz").status_code, flush=True)
        told: list[object] = []
        try:
            for number in itertools.count():
                said = rt.run(user_id="ada", session_id=f"s{number}", message="hi").result().text
                ready = client.get("/readyz")
                if rt.statistics().control_service_away_s and "control service" in ready.text and not told:
                    told = [said, ready.status_code, ready.text]
        except RaygroveError as error:
            print(*told, type(error).__name__, error, sep=" | ", flush=True)


if __name__ == "__main__":
    what, *addresses = sys.argv[1:]
    for each in addresses:
        {"start": start, "join": join, "try": refused, "lose": lose}[what](each)
