"""A tool that needs more than its agent's process has runs as a Ray task, where the cluster has the resources."""

import os
from typing import Any

from raygrove import LlmAgent, Runtime, tool
from raygrove.testing import PatternModel


@tool(num_cpus=1)
def count_primes(below: int) -> dict[str, Any]:
    """Count the primes below a number.

    Args:
        below: the first number that is not looked at.
    """
    sieve = bytearray([1]) * below
    sieve[:2] = bytes(min(2, below))
    for number in range(2, int(below**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, below, number)))
    return {"primes": sum(sieve), "pid": os.getpid()}


model = PatternModel([("primes", {"call": "count_primes", "args": {"below": 1_000_000}})])
mathematician = LlmAgent(name="mathematician", model=model, tools=[count_primes])


def main() -> None:
    with Runtime(mathematician, app_name="remote_tool", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="How many primes are there below a million?"):
            for response in event.function_responses():
                print(f"counted: {response.response['primes']}")
                agent = rt.statistics().agents["mathematician"]
                print("in the agent's process" if response.response["pid"] == agent.pid else "in a process of its own")


if __name__ == "__main__":
    main()
