"""A driver in a process of its own: runs one turn and prints its events as JSON.

Arguments: the address of the Ray cluster, the folder of the stores, the message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.agents.conversation_agents import support_tree_by_pattern
from tests.support.runtimes import Deploy, author_texts, run_turn

if __name__ == "__main__":
    address, folder, message = sys.argv[1:]
    with Deploy("ray", Path(folder))(support_tree_by_pattern(), address=address) as rt:
        print(json.dumps(author_texts(run_turn(rt, message))))
