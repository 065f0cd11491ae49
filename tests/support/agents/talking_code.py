"""Code of users that logs and prints."""

from __future__ import annotations

import logging
import threading

from actors import CallbackContext, LlmAgent, tool
from actors.testing import PatternModel

logger = logging.getLogger("shop.code")


@tool
def talk(text: str) -> str:
    """Say something in a thread."""
    logger.info("%s quietly", text, extra={"order": 42})
    logging.getLogger("shop.library").warning("%s too much", text)
    print(f"{text} aloud")
    return f"{text} was said"


@tool(num_cpus=0.01)
def talk_in_task(text: str) -> str:
    """Say something in a task."""
    return str(talk(text))


@tool
async def talk_in_thread(text: str) -> str:
    """Say something in a thread that raygrove does not know."""
    thread = threading.Thread(target=print, args=(f"{text} somewhere",))
    thread.start()
    thread.join()
    return "said"


def note(context: CallbackContext) -> None:
    """Log on the event loop."""
    logger.info("begin")


def talking_tree() -> LlmAgent:
    """An agent that has each of these tools do what the message says."""
    tools = (talk_in_task, talk_in_thread, talk)
    model = PatternModel([(each.name, {"call": each.name, "args": {"text": each.name}}) for each in tools], default="hm")
    return LlmAgent(name="desk", model=model, tools=tools, before_agent_callback=note)
