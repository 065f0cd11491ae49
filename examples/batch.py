"""Turns over many inputs, a few at once. A second run of the map finds the answers of the first one."""

from __future__ import annotations

from raygrove import LlmAgent, Runtime
from raygrove.testing import PatternModel

MODEL = PatternModel([("crash|broken", "bug"), ("how|where", "question"), ("%", ConnectionError("no line"))], default="praise")
TICKETS = ["It crashes at night.", "How do I log in?", "I love it!", "It is broken.", "%&$"]


def main() -> None:
    triage = LlmAgent(name="triage", model=MODEL, instruction="Is it a bug, a question or praise?")
    with Runtime(triage, app_name="batch", session_store="sqlite://", memory_store=None) as rt:
        for result in rt.map(TICKETS, name="june", concurrency=3, in_order=True, retries={"ConnectionError": 1}):
            print(f"{result.input} -> {result.text or result.error} ({result.attempts} attempts)")
        again = list(rt.map(reversed(TICKETS), name="june"))
        print("from before:", sum(result.is_repeated for result in again))


if __name__ == "__main__":
    main()
