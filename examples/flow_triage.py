"""Labels: a task whose result is one of a list. The model chooses by number, the program gets the label itself."""

from raygrove import LlmAgent, Runtime, Task
from raygrove.errors import TaskFailedError
from raygrove.testing import PatternModel

LABELS = ["bug", "question", "praise"]


def label(index: int) -> dict[str, object]:
    return {"call": "succeed_triage", "args": {"result": index}}


model = PatternModel(
    [
        ("crash", label(0)),
        ("how do i", label(1)),
        ("love", label(2)),
        # No such label: the model is told, and tries again.
        ("broken", label(7)),
        ("tool:succeed_triage .*0 to 2", label(0)),
    ],
    default={"call": "fail_triage", "args": {"reason": "I cannot read this."}},
)
clerk = LlmAgent(name="clerk", model=model, instruction="You read the mail.")

triage = Task("Decide what kind of mail this is.", name="triage", result_type=LABELS)

MAILS = ["It crashes at night.", "How do I log in?", "I love it!", "It is broken.", "%&$"]


def main() -> None:
    with Runtime(clerk, app_name="flow_triage", session_store="sqlite://") as rt:
        for mail in MAILS:
            try:
                print(f"{mail} -> {rt.run_task(triage, message=mail)}")
            except TaskFailedError as error:
                print(f"{mail} -> {error}")


if __name__ == "__main__":
    main()
