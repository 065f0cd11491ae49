"""A program that uses a local Ray, and says where. Its arguments: a word that no other user may read.

It ends when its standard input does.
"""

from __future__ import annotations

import os
import sys

import ray

from actors import LlmAgent, tool
from actors.messages.content import Part
from actors.testing import PatternModel
from runtime import Runtime, Settings


@tool
def where(word: str) -> str:
    """Say something in a log.

    Args:
        word: what to say.
    """
    print(word)
    return f"{word} is said by {os.getpid()}"


def main(word: str) -> None:
    """Have the word in every place that an app has."""
    root = LlmAgent(
        name="root",
        model=PatternModel([("^say", {"call": "where", "args": {"word": word}})], default="said"),
        tools=[where],
    )
    with Runtime(root, app_name="private", engine="ray", settings=Settings(num_cpus=1, spare_hosts=0)) as rt:
        rt.artifacts.save("ada", "s1", "letter.txt", Part(text=word))
        text = rt.run(user_id="ada", session_id="s1", message=f"say {word}").result().text
        connections = rt.statistics().session.connections
        assert connections is not None
        print("ready", ray.get_runtime_context().gcs_address, connections.accepted, text, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
