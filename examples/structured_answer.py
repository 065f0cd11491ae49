"""An answer as an object: of a type that the question names, or of the agent's output_schema."""

from __future__ import annotations

from pydantic import BaseModel

from raygrove import LlmAgent, Runtime
from raygrove.testing import ScriptedModel


class Invoice(BaseModel):
    number: int
    customer: str
    euros: float


WRONG = {"call": "succeed_answer", "args": {"result": {"number": "seven", "customer": "Acme"}}}
RIGHT = {"call": "succeed_answer", "args": {"result": {"number": 7, "customer": "Acme", "euros": 80}}}
LABEL = {"call": "succeed_answer", "args": {"result": 1}}


def main() -> None:
    # What does not fit goes back to the model, which corrects it.
    clerk = LlmAgent(name="clerk", model=ScriptedModel([WRONG, RIGHT, LABEL, "Acme owes 80 euros."]))
    with Runtime(clerk, app_name="structured_answer", session_store="sqlite://", memory_store=None) as rt:
        invoice = rt.ask("Invoice no. 7, to Acme: 80 euros", result_type=Invoice)
        print(f"{invoice.customer} owes {invoice.euros:.2f} euros")
        print(rt.ask("It is not paid yet.", result_type=["paid", "open"]))
        print(rt.ask("Who owes what?"))


if __name__ == "__main__":
    main()
