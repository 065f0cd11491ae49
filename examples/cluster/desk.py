"""An app that stays on a Ray cluster: `python desk.py start`, `python desk.py ask "Where is order 42?"`, `python desk.py stop`.

DATABASE_URL names the PostgreSQL database and ARTIFACTS_URL the folder of artifacts. RAY_ADDRESS names the cluster, if it is not
the one that this machine is a node of.
"""

import os
import sys

from raygrove import BaseAgent, LlmAgent, Runtime, tool
from raygrove.errors import DeploymentExistsError
from raygrove.testing import PatternModel

APP = "desk"
GEMINI = "gemini-2.5-flash"
USES_VERTEX = os.environ.get("GOOGLE_GENAI_USE_VERTEXAI", "").lower() in ("true", "1")
HAS_KEY = USES_VERTEX or any(map(os.environ.get, ("GOOGLE_API_KEY", "GEMINI_API_KEY")))
ADDRESS = os.environ.get("RAY_ADDRESS", "auto")


@tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look up where an order is."""
    return {"order_id": order_id, "status": "on its way"}


def desk() -> BaseAgent:
    """The tree: its agents ask Gemini if there is a key, and else answer by patterns."""
    orders = LlmAgent(
        name="orders",
        description="Where orders are.",
        instruction="Look orders up.",
        model=GEMINI if HAS_KEY else PatternModel([(r"(?:order )?(\d+)", "It is on its way.")]),
        tools=[lookup_order],
    )
    model = GEMINI if HAS_KEY else PatternModel([("order", {"transfer": "orders"})], default="What can I do for you?")
    return LlmAgent(name="concierge", model=model, instruction="Help the customer.", sub_agents=[orders])


def start() -> None:
    """Leave the app on the cluster. Where it is already, nothing is started, so that a Job may run this again."""
    database, artifacts = os.environ["DATABASE_URL"], os.environ["ARTIFACTS_URL"]
    try:
        with Runtime(desk(), app_name=APP, address=ADDRESS, session_store=database, artifact_store=artifacts, detached=True):
            print(f"{APP} runs")
    except DeploymentExistsError:
        print(f"{APP} runs already")


def ask(message: str) -> None:
    """Say something to it, as any program on the cluster may."""
    with Runtime.connect(APP, address=ADDRESS) as rt:
        for event in rt.run(user_id="ada", session_id="s1", message=message):
            if event.text:
                print(f"{event.author}: {event.text}")


def stop() -> None:
    """Stop it for good. Sessions stay in the database, and the next start goes on with them."""
    with Runtime.connect(APP, address=ADDRESS) as rt:
        rt.shutdown()
        print(f"{APP} is stopped")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["start"]:
            start()
        case ["ask", message]:
            ask(message)
        case ["stop"]:
            stop()
        case _:
            sys.exit(__doc__)
