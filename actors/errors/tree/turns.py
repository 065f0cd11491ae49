"""Errors of turns: one ran and failed, was cancelled or took too long."""

from __future__ import annotations

from actors.errors.base import RaygroveError


class TurnError(RaygroveError):
    """A turn ran and failed, was cancelled or took too long; the log has its events. Arguments: the message."""


class AgentFailedError(TurnError):
    """An agent's own code, its model or a callback raised. Arguments: agent, class name of the exception, its message."""

    sentence = "agent {0!r} failed: {1}: {2}"


class LlmCallsLimitExceededError(TurnError):
    """The turn has used all its model calls. Arguments: agent, limit."""

    sentence = "agent {0!r} asked for a model call beyond the {1} that RunConfig.max_llm_calls allows in one turn"


class BudgetExceededError(TurnError):
    """What an agent was about to do would use more than a budget allows. Nothing of it was done.

    Arguments: agent, field of Budget, limit, how much is used, how much more is reserved and wanted, whose budget it is.
    """

    sentence = (
        "agent {0!r} would go beyond the budget of {5}, {1}={2}: {3} are used, and {4} more would be, with what is under way. "
        "Give a larger Budget in RunConfig, or in Settings(daily_budget=…) where it is that of the deployment"
    )


class NoPriceError(TurnError):
    """A budget of money cannot be kept, since a model has no price. Arguments: agent, model."""

    sentence = "agent {0!r} may not call model {1!r}, which has no price, on a budget of money: give it one in Settings(prices=…)"


class TransferLimitExceededError(TurnError):
    """The turn has used all its transfers. Arguments: agent, target, limit."""

    sentence = "agent {0!r} asked for a transfer to {1!r} beyond the {2} that RunConfig.max_transfers allows in one turn"


class TransferTargetError(TurnError):
    """A tool or callback set a transfer to an agent that cannot take over. Arguments: agent, target, reason."""

    sentence = "agent {0!r} cannot transfer to {1!r}: {2}"


class TemplateError(TurnError):
    """An instruction names a value that does not exist. Arguments: agent, name in the template, what is missing."""

    sentence = "agent {0!r}: the instruction needs {1!r}, but {2}. Write {{{1}?}} if it may be missing"


class OutputSchemaError(TurnError):
    """An agent's answer does not fit its output_schema. Arguments: agent, what does not fit."""

    sentence = "the answer of agent {0!r} does not fit its output_schema: {1}"


class PluginFailedError(TurnError):
    """A plugin's hook of a turn raised. Arguments: name of the hook, class name of the exception, its message."""

    sentence = "the plugin hook {0} failed: {1}: {2}"


class ToolAgentError(TurnError):
    """An agent that was asked as a tool gave no usable answer. Arguments: agent, reason."""

    sentence = "agent {0!r}, asked as a tool, gave no answer: {1}"


class McpServerError(TurnError):
    """An MCP server could not be reached, or has given no answer that can be used. Arguments: name of the server, reason."""

    sentence = "MCP server {0!r}: {1}"


class McpToolError(TurnError):
    """A tool of an MCP server has failed, by its own account. Arguments: name of the tool, what the server says."""

    sentence = "{0} has failed: {1}"


class WorkflowDataError(TurnError, ValueError):
    """A node of a graph cannot be given what its function takes. Arguments: path of the node's run, what does not fit."""

    sentence = "node {0} cannot run: {1}"


class DynamicNodeFailError(TurnError):
    """A node that a function has run with `run_node` has failed. Arguments: path of that run, the message of its error."""

    sentence = "node {0} has failed: {1}"


class NodeTimeoutError(TurnError, TimeoutError):
    """A node of a graph took longer than it may. Arguments: node, its timeout in seconds."""

    sentence = "Node {0!r} timed out after {1} seconds."


class StateSchemaError(TurnError, ValueError):
    """A function of a graph reads or writes what the graph's state_schema does not have. Arguments: who, the key, the reason."""

    sentence = "{0} may not use the state's key {1!r}: {2}"


class StarvedJoinError(TurnError):
    """A join of a graph waits for nodes that will not run any more. Arguments: graph, join, names of these nodes."""

    sentence = (
        "join {1!r} of graph {0!r} can never run: it waits for {2}, and no more node runs. Lead every route to it, or give the "
        "nodes after a route a way of their own"
    )


class SeveralOutputsError(TurnError, ValueError):
    """Several terminal nodes of a graph with one_output gave an output. Arguments: graph, names of these nodes."""

    sentence = (
        "graph {0!r} has one_output, and multiple terminal nodes gave an output: {1}. Join them, or lead them to a node "
        "that makes one output of theirs"
    )


class FlowLimitExceededError(TurnError):
    """A flow has reached a limit and is not done. Arguments: flow, field of the limit, limit, tasks that are left."""

    sentence = "flow {0!r} is not done after what {1}={2} allows; left to do: {3}"


class FlowStalledError(TurnError):
    """Tasks of a flow are left to do, but none is ready. Arguments: flow, names of the tasks."""

    sentence = "flow {0!r} cannot go on: none of the tasks that are left to do is ready: {1}"


class TaskFailedError(TurnError):
    """The task of `run_task` has no result. Arguments: task, its status, reason."""

    sentence = "task {0!r} has no result: it is {1}: {2}"


class TurnCancelledError(TurnError):
    """The turn was cancelled. Arguments: id of the turn."""

    sentence = "turn {0!r} was cancelled"


class TurnTimeoutError(TurnError, TimeoutError):
    """The turn took longer than RunConfig.timeout. Arguments: id of the turn, timeout in seconds."""

    sentence = "turn {0!r} was cancelled: it took longer than its timeout of {1} s"
