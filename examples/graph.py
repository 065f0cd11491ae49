"""Agents and functions along edges: a list side by side, where what fails costs the rest nothing, and a question in between."""

from raygrove import (
    DEFAULT_ROUTE,
    START,
    Content,
    FunctionNode,
    FunctionResponse,
    Graph,
    LlmAgent,
    NodeContext,
    Part,
    PartialResults,
    RequestInput,
    RetryConfig,
    Runtime,
    node,
)
from raygrove.testing import PatternModel

STOCK = {"pears": 4, "plums": 9}


def read(node_input: str) -> list[str]:
    return [each.strip() for each in node_input.split(",")]


def look_up(ctx: NodeContext, node_input: str) -> str:
    if ctx.attempt_count == 1 or node_input not in STOCK:
        raise LookupError(f"no shelf answers for {node_input}")
    return f"{STOCK[node_input]} {node_input}"


def judge(ctx: NodeContext, node_input: PartialResults) -> str:
    ctx.route = "ask" if node_input.errors else "order"
    return ", ".join(each for each in node_input.results if each)


def ask() -> RequestInput:
    return RequestInput(interrupt_id="without", message="Not all is there. Order the rest?", response_schema=bool)


def decide(ctx: NodeContext, node_input: bool) -> str:
    return "order what there is" if node_input else "order nothing"


# Each item is looked up twice at most; what is not found then is an entry of `errors`.
shelf = FunctionNode(look_up, retry_config=RetryConfig(max_attempts=2, initial_delay=0.05))
shelves = node(shelf, parallel_worker=True, partial_results=True)
clerk = LlmAgent(name="clerk", model=PatternModel([("nothing", "Another time, then."), ("", "It is on its way.")]))
root = Graph(
    name="orders",
    edges=[(START, read, shelves, judge, {"ask": ask, DEFAULT_ROUTE: clerk}), (ask, decide, clerk)],
)


def main() -> None:
    with Runtime(root, app_name="graph", session_store="sqlite://") as rt:
        for event in rt.run(user_id="ada", session_id="s1", message="pears, figs, plums"):
            if event.error_code:
                print(f"failed: {event.error_message}")
            elif event.output is not None:
                print(f"{event.node_info.path if event.node_info else ''}: {event.output}")
            for call in event.function_calls():
                print(f"the user is asked: {(call.args or {})['message']}")
        answer = FunctionResponse(id="without", name="adk_request_input", response={"result": True})
        for event in rt.run(user_id="ada", session_id="s1", message=Content(parts=[Part(function_response=answer)])):
            if event.text:
                print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    main()
