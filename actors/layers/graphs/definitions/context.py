"""What a function is given that is a node of a graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.graph import Route
from actors.messages.json_types import JsonMapping, JsonValue

RunNode = Callable[..., Awaitable[JsonValue]]

_NOTHING = object()


class NodeContext(CallbackContext):
    """The run of a node that is a function. State, route and output that it writes go with the next event of the node.

    Attributes:
        node_path: the runs from the outermost graph to the node, such as `wf@1/a@2`.
        run_id: the number of this run of the node, as text.
        attempt_count: of the run, from 1.
        resume_inputs: the user's answers to the questions of this run, by their ids; empty before the first.
        route: the route or routes that the graph takes from the node; None: only edges without a route, or DEFAULT_ROUTE.
    """

    def __init__(
        self,
        *,
        node_path: str,
        run_id: str,
        attempt_count: int,
        resume_inputs: JsonMapping,
        run_node: RunNode,
        tool_context: Callable[[], ToolContext],
        **where: Any,
    ) -> None:
        super().__init__(**where)
        self.node_path = node_path
        self.run_id = run_id
        self.attempt_count = attempt_count
        self.resume_inputs = resume_inputs
        self._run_node = run_node
        self._tool_context = tool_context
        self.route: Route | list[Route] | None = None
        self._output: object = _NOTHING

    async def run_node(
        self,
        node: Any,
        node_input: Any = None,
        *,
        use_as_output: bool = False,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
    ) -> JsonValue:
        """Run a node below this one, and return its output.

        The function has to be a node with `rerun_on_resume`: after an answer or a loss it runs again from its start, and a run
        that was over gives what it gave. So what comes before has to ask for the same runs again.

        Args:
            node: a function, a FunctionNode; or an agent of the graph, itself or by its name: one that stands in its edges, or in
                its sub_agents.
            node_input: the input: plain data, or a Content.
            use_as_output: its output is that of this node, too.
            run_id: names the run in place of its number: asked for again, it is not run again.
            use_sub_branch: its events are on a branch of their own.
            override_branch: the branch of its events.

        Raises:
            DynamicNodeFailError: the run has failed.
            ValueError: this node has no `rerun_on_resume`, `run_id` is a number, or `use_as_output` is given twice.
            UnknownAgentError: the graph has no such agent.
        """
        return await self._run_node(
            node,
            node_input,
            use_as_output=use_as_output,
            run_id=run_id,
            use_sub_branch=use_sub_branch,
            override_branch=override_branch,
        )

    def tool_context(self) -> ToolContext:
        """The context of a tool that is the node: what it writes is the node's."""
        return self._tool_context()

    @property
    def output(self) -> JsonValue:
        """The value for the nodes after it; None so far. It is set once."""
        return None if self._output is _NOTHING else self._output

    @output.setter
    def output(self, value: JsonValue) -> None:
        if self._output is not _NOTHING:
            raise ValueError(f"the output of {self.node_path} is set already: a run of a node gives one output")
        self._output = value

    @property
    def has_output(self) -> bool:
        """True once the output was set, also to None."""
        return self._output is not _NOTHING
