"""Every error that this project raises.

    RaygroveError
    ├── DefinitionError              an agent, a tool, a flow or the tree is defined wrongly
    │   ├── AgentTreeError
    │   ├── GraphValidationError
    │   ├── WorkflowConfigurationError
    │   ├── NotCarriedOverError      what a program of google-adk asks for has no counterpart; raised while it runs
    │   └── UnknownModelError
    ├── RequestError                 the driver's request is refused, and nothing is stored
    │   ├── InvalidMessageError
    │   ├── InputSchemaError
    │   ├── InvalidIdError
    │   ├── SessionNotFoundError
    │   ├── RepeatMismatchError
    │   ├── SessionExistsError
    │   ├── SessionBusyError
    │   ├── TurnStateError           it does not go with the state that the turn has now
    │   ├── OverloadedError          as much waits as may: ask again after `retry_after_s`
    │   │   └── DrainingError        the deployment is to be stopped, and takes no new turns
    │   │       └── UpgradingError
    │   ├── UnknownFunctionCallError
    │   ├── UnknownAgentError
    │   ├── InvocationNotFoundError
    │   ├── FlowNotFoundError
    │   ├── NotEncodableError
    │   ├── TooLargeError
    │   ├── InvalidScheduleError
    │   ├── ScheduleExistsError
    │   ├── ScheduleNotFoundError
    │   ├── RunNotFoundError
    │   ├── TooManyRunsError
    │   ├── TooManySchedulesError
    │   ├── UpdateConflictError
    │   ├── UpdateRefusedError
    │   └── UpgradeRefusedError
    ├── TurnError                    a turn ran and failed, was cancelled or took too long
    │   ├── AgentFailedError
    │   ├── LlmCallsLimitExceededError
    │   ├── BudgetExceededError
    │   ├── NoPriceError
    │   ├── TransferLimitExceededError
    │   ├── TransferTargetError
    │   ├── TemplateError
    │   ├── OutputSchemaError
    │   ├── PluginFailedError
    │   ├── ToolAgentError
    │   ├── McpServerError
    │   ├── McpToolError
    │   ├── WorkflowDataError
    │   ├── DynamicNodeFailError
    │   ├── NodeTimeoutError
    │   ├── StateSchemaError
    │   ├── StarvedJoinError
    │   ├── SeveralOutputsError
    │   ├── FlowLimitExceededError
    │   ├── FlowStalledError
    │   ├── TaskFailedError
    │   ├── TurnCancelledError
    │   └── TurnTimeoutError
    ├── ModelError                   a model or its service failed
    │   ├── ModelConfigurationError
    │   ├── ModelResponseError
    │   ├── ModelServiceError
    │   └── ScriptExhaustedError
    ├── StoreError                   the session, artifact or memory store failed
    │   ├── StoreUnavailableError
    │   ├── StoreConflictError
    │   ├── StoreRevertedError
    │   ├── EventsLostError
    │   ├── StoreInUseError
    │   ├── UserElsewhereError
    │   ├── UserArrivingError
    │   ├── WriterReplacedError
    │   ├── SchemaVersionError
    │   ├── ArtifactError
    │   └── NoMemoryError
    └── ClusterError                 an actor, its machine or the deployment is not there
        ├── FencedError
        ├── ActorLostError
        │   ├── ActorRestartsError
        │   └── AgentLostError           the turn has failed by it, which makes it a TurnError as well
        ├── PlacementError
        ├── DeploymentExistsError
        ├── DeploymentNotFoundError
        ├── ProtocolMismatchError
        └── RuntimeClosedError
            └── ForkedProcessError

An error holds its facts as positional arguments, which are plain data, and makes its message from them. So it can be pickled, and
an actor can send it to another process by the name of its class and its arguments alone: see `tracebacks.rebuild`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast


class RaygroveError(Exception):
    """The root of the tree.

    Attributes:
        sentence: the message, as a format string over the positional arguments.
        remote_traceback: where users' code failed, when that was in another process or behind an actor; "" when it was not users'
            code. The error has it as a note, too, which Python prints with it.
    """

    sentence: ClassVar[str] = "{0}"
    remote_traceback: str = ""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)

    def __str__(self) -> str:
        try:
            return self.sentence.format(*self.args)
        except IndexError:
            # Made with too few arguments. Raising here would hide what went wrong.
            return super().__str__() or type(self).__name__


class DefinitionError(RaygroveError, ValueError):
    """An agent, a tool, a flow or the tree is defined wrongly. Arguments: the message."""


class AgentTreeError(DefinitionError):
    """The agents form no tree, or do not fit together in it. Arguments: what is wrong."""

    sentence = "failed to create agent tree: {0}"


class GraphValidationError(DefinitionError):
    """The nodes and edges of a graph form none that can run. Arguments: the message."""


class WorkflowConfigurationError(DefinitionError):
    """A node or an edge of a graph is written wrongly. Arguments: the message."""


class NotCarriedOverError(DefinitionError):
    """A program written for google-adk has asked for something that has no counterpart here. Arguments: the message."""


class UnknownModelError(DefinitionError):
    """A model's name is not known. Arguments: agent, model, which names are."""

    sentence = "agent {0!r}: no model is known by the name {1!r}. {2}"


class RequestError(RaygroveError):
    """The driver's request is refused; nothing was stored. Arguments: the message."""


class InvalidMessageError(RequestError, ValueError):
    """The message of a turn cannot be used. Arguments: the error message."""


class InputSchemaError(RequestError, ValueError):
    """The message of a turn does not fit the input_schema of the root. Arguments: the root, what does not fit."""

    sentence = "the message does not fit the input_schema of {0!r}: {1}"


class InvalidIdError(RequestError, ValueError):
    """A name or id is not valid. Arguments: what it names, the value, the rule."""

    sentence = "{0} {1!r} is not valid: {2}"


class SessionNotFoundError(RequestError, LookupError):
    """The session does not exist. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} not found in app {0!r}: create it first, or leave auto_create_session on"


class RepeatMismatchError(RequestError):
    """The turn of that id began with another request. Arguments: invocation id, session."""

    sentence = "turn {0!r} of session {1!r} began with another request: give a new request an id of its own"


class SessionExistsError(RequestError):
    """A session with that id exists already. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} exists already in app {0!r}"


class SessionBusyError(RequestError):
    """A turn runs, and the next one has on_concurrent_turn="reject", or the session has to rest. Arguments: session, turn."""

    sentence = (
        "session {0!r} is busy with turn {1!r}: wait for it, or cancel it. "
        "A new turn waits in line with on_concurrent_turn='enqueue', and takes its place with 'interrupt'"
    )


class TurnStateError(RequestError):
    """What is asked for does not go with the state that the turn, or a call in it, has now. Arguments: the message."""


class OverloadedError(RequestError):
    """As much waits as may. Arguments: whose line is full, what waits in it, the setting that bounds it, seconds to wait."""

    sentence = "{0} has {1} waiting, and {2} allows no more: ask again in {3} s"

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the same is asked again."""
        return float(str(self.args[3]))


class DrainingError(OverloadedError):
    """The deployment is to be stopped and takes no new turns. Arguments: app, seconds to wait."""

    sentence = "app {0!r} is to be stopped and takes no new turns: ask again in {1} s, when its next deployment may run"

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the same is asked again."""
        return float(str(self.args[1]))


class UpgradingError(DrainingError):
    """The deployment was stopped for another version of raygrove, which starts just now. Arguments: app, seconds to wait."""

    sentence = "app {0!r} is being upgraded, and starts again just now: ask again in {1} s"


class UnknownFunctionCallError(RequestError, LookupError):
    """A function response answers a call that is not in the log. Arguments: id of the call, session."""

    sentence = "no function call with the id {0!r} was made in session {1!r}: a response needs the id of a call in its log"


class UnknownAgentError(RequestError, LookupError):
    """No agent in the tree has that name. Arguments: name, hint, which begins with a space."""

    sentence = "agent {0!r} is not in the tree.{1}"


class InvocationNotFoundError(RequestError, LookupError):
    """The session has no such turn. Arguments: id of the turn, session."""

    sentence = "invocation {0!r} not found in session {1!r}: rt.turns.list(user_id, session_id) has the turns that are there"


class FlowNotFoundError(RequestError, LookupError):
    """This deployment does not know the definition of a flow. Arguments: the name under which it was given."""

    sentence = (
        "the definition of flow {0!r} is not known here any more: give the flow again, with run_flow and the same invocation_id, "
        "or with the answer that its turn waits for"
    )


class NotEncodableError(RequestError, TypeError):
    """A value has no wire form. Arguments: type, reason."""

    sentence = "a {0} cannot be sent or stored: {1}"


class TooLargeError(RequestError, ValueError):
    """Something has more bytes than a limit allows. Arguments: what, its size, the setting, the setting's value, advice."""

    sentence = "{0} has {1} bytes, and {2} allows {3}: {4}"


class InvalidScheduleError(RequestError, ValueError):
    """A schedule cannot be as it was asked for. Arguments: what of it, why not."""

    sentence = "{0} cannot be used: {1}"


class ScheduleExistsError(RequestError):
    """The user has a schedule of that name already. Arguments: name, user."""

    sentence = "user {1!r} has a schedule {0!r} already: delete it first, or choose another name"


class ScheduleNotFoundError(RequestError, LookupError):
    """The user has no schedule of that name. Arguments: name, user, hint, which begins with a space."""

    sentence = "user {1!r} has no schedule {0!r}.{2}"


class RunNotFoundError(RequestError, LookupError):
    """The session has started no such background run. Arguments: run, session, hint, which begins with a space."""

    sentence = "session {1!r} has no background run {0!r}.{2}"


class TooManyRunsError(RequestError):
    """As many background runs are under way as may. Arguments: session, how many, the option that bounds them."""

    sentence = "session {0!r} {1}, and Background({2}) allows no more"


class TooManySchedulesError(RequestError):
    """The user has as many schedules as may be. Arguments: user, how many, the setting that bounds them."""

    sentence = "user {0!r} has {1} schedules, and {2} allows no more: delete one first"


class UpdateConflictError(RequestError):
    """Another program has updated the deployment meanwhile. Arguments: app."""

    sentence = "app {0!r} was updated by another program at the same time: look at its tree, and update it again"


class UpdateRefusedError(RequestError):
    """The deployment cannot be given another tree. Arguments: app, reason, what to do."""

    sentence = "app {0!r} cannot be updated: {1}. {2}"


class UpgradeRefusedError(RequestError):
    """Another version of raygrove cannot go on with the deployment. Arguments: app, reason, what to do."""

    sentence = "app {0!r} cannot be upgraded: {1}. {2}"


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


class ModelError(RaygroveError):
    """A model or its service failed. Arguments: the message."""


class ModelConfigurationError(ModelError):
    """A model is not configured. Arguments: model, what is missing and how to provide it."""

    sentence = "model {0!r} cannot be used: {1}"


class ModelResponseError(ModelError):
    """A model's response cannot be used: it was cut off, or has another form than agreed. Arguments: model, what came."""

    sentence = "model {0!r} gave no usable answer: {1}"


class ModelServiceError(ModelError):
    """The model's service refused a call or could not be reached, also after retries.

    Arguments: model, HTTP status or None, the service's message; and, if the service has sent one, its Retry-After in seconds.

    Attributes:
        code: the HTTP status; None when there was no answer.
        retry_after_s: seconds that the service asks to wait; None when it has not said.
    """

    sentence = "model {0!r}: the service failed with status {1}: {2}"

    @property
    def code(self) -> int | None:
        """The HTTP status; None when there was no answer."""
        return cast("int | None", self.args[1])

    @property
    def retry_after_s(self) -> float | None:
        """Seconds that the service asks to wait; None when it has not said."""
        return cast("float | None", self.args[3]) if len(self.args) > 3 else None

    def __str__(self) -> str:
        if self.args[1:2] != (None,):
            return super().__str__()
        return f"model {self.args[0]!r}: the service could not be reached: {self.args[2]}"


class ScriptExhaustedError(ModelError):
    """A ScriptedModel was called more often than it has replies. Arguments: number of replies, agent."""

    sentence = "the script has only {0} replies and agent {1!r} asked for one more"


class StoreError(RaygroveError):
    """A store did not do what was asked. Arguments: the message."""


class StoreUnavailableError(StoreError):
    """The store is away, locked or full, and may be usable later. Arguments: store, the store's message."""

    sentence = "{0} is not available: {1}"


class StoreConflictError(StoreError):
    """Another deployment wrote to the session. Arguments: session, reason."""

    sentence = "session {0!r} was changed in the store by somebody else ({1}): only one deployment may serve it"


class StoreRevertedError(StoreError):
    """The store has gone back to an older copy of itself, and has not what a writer had committed. Arguments: the writer."""

    sentence = (
        "the store has gone back to an older copy of itself, as after a fail-over to a replica that lags: what {0!r} has stored "
        "last is gone"
    )


class EventsLostError(StoreError):
    """What was stored of a session is gone, with an older copy of the store in place. Arguments: session, what is gone."""

    sentence = (
        "session {0!r} has lost {1}: the store has gone back to an older copy of itself, as after a fail-over to a replica that "
        "lags. The session goes on from what the store has: send again what is missing"
    )


class StoreInUseError(StoreError):
    """A deployment of the app that lives owns the store. Arguments: app, store, where the deployment is, what to do."""

    sentence = "app {0!r} runs already {2}, and owns {1}: {3}"


class UserElsewhereError(StoreError):
    """A request came to a store in which the user is not; it goes to the other one by itself. Arguments: user, its number."""

    sentence = "user {0!r} is kept in store {1} of this deployment, counted from 0"

    @property
    def store(self) -> int:
        """The number of the store in which the user is, from 0."""
        return int(self.args[1])


class UserArrivingError(StoreError):
    """A request came to a store to which its user is being moved. Arguments: user, numbers of the store before and this one."""

    sentence = "user {0!r} is on the way from store {1} of this deployment to store {2}, counted from 0"

    @property
    def store(self) -> int:
        """The number of the store that keeps the parts, from 0."""
        return int(self.args[2])


class WriterReplacedError(StoreError):
    """A process wrote to the store although another one had taken its place. Arguments: the writer."""

    sentence = "another process has taken the place of {0!r} in the store: this one may not write any more"


class SchemaVersionError(StoreError):
    """The store's tables are too new. Arguments: schema version found, newest one known, the raygrove that made them."""

    sentence = "the store has version {0}, made by raygrove {2}, this program knows up to {1}: upgrade it, or use another store"


class ArtifactError(StoreError):
    """An artifact could not be saved or loaded. Arguments: filename, reason."""

    sentence = "artifact {0!r}: {1}"


class NoMemoryError(StoreError):
    """The app has no memory store. Arguments: app."""

    sentence = "app {0!r} has no memory: give Runtime a memory_store, or leave it out to have the default one"


class ClusterError(RaygroveError):
    """An actor, its machine or the deployment is not there. Arguments: the message."""


class FencedError(ClusterError):
    """A run wrote to a turn that was taken over or has ended, and must stop. Arguments: id of the turn, the run's epoch."""

    sentence = "turn {0!r} is no longer written with epoch {1}: it was taken over or has ended"


class ActorLostError(ClusterError):
    """An actor's process is gone. Arguments: actor, reason."""

    sentence = "{0} is gone: {1}"


class ActorRestartsError(ActorLostError):
    """An actor's process is gone, and Ray is starting it again. Arguments: actor, reason."""

    sentence = "{0} was lost and is being started again: {1}"


class AgentLostError(ActorLostError, TurnError):
    """The turn has failed, as an agent was lost too often; any other loss says nothing of it. Arguments: actor, reason."""


class PlacementError(ClusterError):
    """No node has room for an agent. Arguments: agent, its needs, what the nodes have instead."""

    sentence = "agent {0!r} cannot be placed: it asks for {1}, {2}"


class DeploymentExistsError(ClusterError):
    """The app is already deployed. Arguments: app."""

    sentence = "app {0!r} is already deployed here: join it with Runtime.connect({0!r}), stop it first, or use another app_name"


class DeploymentNotFoundError(ClusterError, LookupError):
    """The app is not deployed. Arguments: app, Ray namespace, the apps that are deployed there."""

    sentence = "app {0!r} is not deployed in Ray namespace {1!r}. {2}"


class ProtocolMismatchError(ClusterError):
    """The app runs on a release that speaks otherwise. Arguments: app, then release and protocol, its and ours."""

    sentence = (
        "app {0!r} runs on {1}, which speaks version {2} of the protocol, and this program has {3}, which speaks version {4}: "
        "start this program with the other release, or upgrade the app"
    )


class RuntimeClosedError(ClusterError):
    """The runtime was not started, or is closed. Arguments: app, which of both: "was not started" or "is closed"."""

    sentence = "the runtime of app {0!r} {1}: use it inside its 'with' block"


class ForkedProcessError(RuntimeClosedError):
    """A forked process has used the Runtime of the process that it was forked from. Arguments: app, process id of that one."""

    sentence = (
        "the runtime of app {0!r} belongs to process {1}, of which this one is a fork: "
        "start processes with 'spawn' instead, and join the app there with Runtime.connect"
    )


if not TYPE_CHECKING:
    # Type checkers read no names that are computed: to them all classes are public.
    __all__ = sorted(name for name, each in vars().items() if isinstance(each, type) and issubclass(each, RaygroveError))
