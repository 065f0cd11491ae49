"""A program that uses a local Ray, and says where. Its arguments: a word that no other user may read, and a named pipe.

For each line of its standard input it runs a turn, which goes on until the pipe is written to. It ends with its input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ray

from actors.messages.content import Part
from runtime import Runtime, Settings
from tests.support.agents.busy_agent import busy_agent


def main(word: str, pipe: Path) -> None:
    """Have the word in every place that an app has."""
    root = busy_agent(word, pipe)
    with Runtime(root, app_name="private", engine="ray", settings=Settings(num_cpus=1, spare_hosts=0)) as rt:
        rt.artifacts.save("ada", "s1", "letter.txt", Part(text=word))
        text = rt.run(user_id="ada", session_id="s1", message=f"say {word}").result().text
        connections = rt.statistics().session.connections
        assert connections is not None
        print("ready", ray.get_runtime_context().gcs_address, connections.accepted, text, flush=True)
        for line in sys.stdin:
            print("worked", rt.run(user_id="ada", session_id="s2", message=line.strip()).result().text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
