"""A Ray Data pipeline asks agents: its actors join a deployment by name. It needs the extra `data`: pyarrow and pandas."""

from __future__ import annotations

import logging

import ray

from raygrove import LlmAgent, Runtime, RunTurns, Settings
from raygrove.testing import PatternModel

TICKETS = ["It crashes at night.", "How do I log in?", "I love it!", "It is broken."]
MODEL = PatternModel([("crash|broken", "bug"), ("how|where", "question")], default="praise")


def main() -> None:
    ray.init(namespace=Settings().namespace, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    triage = LlmAgent(name="triage", model=MODEL, instruction="Is it a bug, a question or praise?")
    with Runtime(triage, app_name="tickets", session_store="sqlite://", memory_store=None):
        ds = ray.data.from_items([{"number": number, "ticket": ticket} for number, ticket in enumerate(TICKETS)])
        answers = ds.map_batches(
            RunTurns,
            fn_constructor_args=("tickets",),
            fn_constructor_kwargs={"message": "ticket", "id_column": "number", "name": "june", "settings": Settings()},
            compute=ray.data.ActorPoolStrategy(size=1),
            num_cpus=0.5,
        )
        for row in answers.sort("number").take_all():
            print(f"{row['ticket']} -> {row['text']}")
    ray.shutdown()


if __name__ == "__main__":
    main()
