"""Every error that this project raises.

    RaygroveError
    ├── DefinitionError              an agent, a tool, a flow or the tree is defined wrongly
    │   ├── AgentTreeError
    │   └── UnknownModelError
    ├── RequestError                 the driver's request is refused, and nothing is stored
    │   ├── InvalidMessageError
    │   ├── InvalidIdError
    │   ├── SessionNotFoundError
    │   ├── SessionExistsError
    │   ├── SessionBusyError
    │   ├── UnknownFunctionCallError
    │   ├── UnknownAgentError
    │   ├── InvocationNotFoundError
    │   ├── FlowNotFoundError
    │   ├── NotEncodableError
    │   └── TooLargeError
    ├── TurnError                    a turn ran and failed, was cancelled or took too long
    │   ├── AgentFailedError
    │   ├── LlmCallsLimitExceededError
    │   ├── TransferLimitExceededError
    │   ├── TransferTargetError
    │   ├── TemplateError
    │   ├── OutputSchemaError
    │   ├── PluginFailedError
    │   ├── ToolAgentError
    │   ├── McpServerError
    │   ├── McpToolError
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
    │   ├── StoreInUseError
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
        └── RuntimeClosedError
            └── ForkedProcessError

An error holds its facts as positional arguments, which are plain data, and makes its message from them. So it can be pickled, and
an actor can send it to another process by name and arguments alone (`name_and_args`, `rebuild`).
"""

from __future__ import annotations

from typing import cast

from actors.errors.base import RaygroveError


class DefinitionError(RaygroveError, ValueError):
    """An agent, a tool, a flow or the tree is defined wrongly. Arguments: the message."""


class AgentTreeError(DefinitionError):
    """The agents form no tree, or do not fit together in it. Arguments: what is wrong."""

    sentence = "failed to create agent tree: {0}"


class UnknownModelError(DefinitionError):
    """A model's name is not known. Arguments: agent, model, which names are."""

    sentence = "agent {0!r}: no model is known by the name {1!r}. {2}"


class RequestError(RaygroveError):
    """The driver's request is refused; nothing was stored. Arguments: the message."""


class InvalidMessageError(RequestError, ValueError):
    """The message of a turn cannot be used. Arguments: the error message."""


class InvalidIdError(RequestError, ValueError):
    """A name or id is not valid. Arguments: what it names, the value, the rule."""

    sentence = "{0} {1!r} is not valid: {2}"


class SessionNotFoundError(RequestError, LookupError):
    """The session does not exist. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} not found in app {0!r}: create it first, or leave auto_create_session on"


class SessionExistsError(RequestError):
    """A session with that id exists already. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} exists already in app {0!r}"


class SessionBusyError(RequestError):
    """Another turn is running, and this one has on_concurrent_turn="reject". Arguments: session, id of the running turn."""

    sentence = "session {0!r} is busy with turn {1!r}: wait for it, or use on_concurrent_turn='enqueue' or 'interrupt'"


class UnknownFunctionCallError(RequestError, LookupError):
    """A function response answers a call that is not in the log. Arguments: id of the call, session."""

    sentence = "no function call with the id {0!r} was made in session {1!r}: a response needs the id of a call in its log"


class UnknownAgentError(RequestError, LookupError):
    """No agent in the tree has that name. Arguments: name, hint, which begins with a space."""

    sentence = "agent {0!r} is not in the tree.{1}"


class InvocationNotFoundError(RequestError, LookupError):
    """The session has no such turn. Arguments: id of the turn, session."""

    sentence = "invocation {0!r} not found in session {1!r}"


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


class TurnError(RaygroveError):
    """A turn ran and failed, was cancelled or took too long; the log has its events. Arguments: the message."""


class AgentFailedError(TurnError):
    """An agent's own code, its model or a callback raised. Arguments: agent, class name of the exception, its message."""

    sentence = "agent {0!r} failed: {1}: {2}"


class LlmCallsLimitExceededError(TurnError):
    """The turn has used all its model calls. Arguments: agent, limit."""

    sentence = "agent {0!r} asked for a model call beyond the {1} that RunConfig.max_llm_calls allows in one turn"


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


class StoreInUseError(StoreError):
    """A deployment of the app that lives owns the store. Arguments: app, store, where the deployment is, what to do."""

    sentence = "app {0!r} runs already {2}, and owns {1}: {3}"


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


class RuntimeClosedError(ClusterError):
    """The runtime was not started, or is closed. Arguments: app, which of both: "was not started" or "is closed"."""

    sentence = "the runtime of app {0!r} {1}: use it inside its 'with' block"


class ForkedProcessError(RuntimeClosedError):
    """A forked process has used the Runtime of the process that it was forked from. Arguments: app, process id of that one."""

    sentence = (
        "the runtime of app {0!r} belongs to process {1}, of which this one is a fork: "
        "start processes with 'spawn' instead, and join the app there with Runtime.connect"
    )
