"""Artifacts: files beside the conversation, with versions. The log keeps their names, and the model sees what it asks for."""

import tempfile

from raygrove import LlmAgent, Part, Runtime, ToolContext, load_artifacts, tool
from raygrove.testing import PatternModel


@tool
async def add_to_list(item: str, context: ToolContext) -> str:
    """Write something on the shopping list.

    Args:
        item: what to buy.
    """
    old = await context.load_artifact("user:shopping.txt")
    lines = [*(old.text or "" if old else "").splitlines(), item]
    version = await context.save_artifact("user:shopping.txt", Part(text="\n".join(lines)))
    return f"version {version}"


# The first pattern that is found counts: what load_artifacts shows comes as a text of the user's, behind the tool's answer.
model = PatternModel(
    [
        ('Artifact "user:shopping.txt":\\s*tea\\s*milk', "You need tea and milk."),
        ("tea", {"call": "add_to_list", "args": {"item": "tea"}}),
        ("milk", {"call": "add_to_list", "args": {"item": "milk"}}),
        ("need", {"call": "load_artifacts", "args": {"artifact_names": ["user:shopping.txt"]}}),
        ("tool:add_to_list", "It is on your list."),
    ]
)
shopper = LlmAgent(name="shopper", model=model, instruction="Keep the list.", tools=[add_to_list, load_artifacts])


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Runtime(shopper, app_name="artifacts", session_store="sqlite://", artifact_store=folder) as rt,
    ):
        # A name that begins with `user:` is seen in all sessions of the user.
        for session_id, message in (("s1", "Add tea"), ("s1", "Add milk"), ("s2", "What do I need?")):
            for event in rt.run(user_id="ada", session_id=session_id, message=message):
                for name, version in event.actions.artifact_delta.items():
                    print(f"saved {name}, version {version}")
                if event.text:
                    print(f"{event.author}: {event.text}")
        print(rt.artifacts.list_keys("ada", "s2"), rt.artifacts.list_versions("ada", "s2", "user:shopping.txt"))
        first = rt.artifacts.load("ada", "s2", "user:shopping.txt", version=0)
        print(f"at first: {first.text if first else None}")


if __name__ == "__main__":
    main()
