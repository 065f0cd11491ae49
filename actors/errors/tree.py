"""Every error this project raises.

    RaygroveError
    ├── DefinitionError              the tree, an agent or a tool is defined wrongly
    │   ├── AgentTreeError
    │   └── UnknownModelError
    ├── RequestError                 the driver asked for something that cannot be
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
    ├── TurnError                    a turn was started and did not end well
    │   ├── AgentFailedError
    │   ├── LlmCallsLimitExceededError
    │   ├── TransferLimitExceededError
    │   ├── TransferTargetError
    │   ├── TemplateError
    │   ├── OutputSchemaError
    │   ├── PluginFailedError
    │   ├── ToolAgentError
    │   ├── FlowLimitExceededError
    │   ├── FlowStalledError
    │   ├── TaskFailedError
    │   ├── TurnCancelledError
    │   └── TurnTimeoutError
    ├── ModelError                   the model or its service
    │   ├── ModelConfigurationError
    │   ├── ModelResponseError
    │   ├── ModelServiceError
    │   └── ScriptExhaustedError
    ├── StoreError                   the session, artifact or memory store
    │   ├── StoreUnavailableError
    │   ├── StoreConflictError
    │   ├── SchemaVersionError
    │   ├── ArtifactError
    │   └── NoMemoryError
    └── ClusterError                 actors and the machines they live on
        ├── FencedError
        ├── ActorLostError
        │   └── ActorRestartsError
        ├── PlacementError
        ├── DeploymentExistsError
        ├── DeploymentNotFoundError
        └── RuntimeClosedError

An error holds its facts as positional arguments, which are plain data, and makes its sentence from them: so it survives
pickling, and an actor can send it to another process by name and arguments alone (`name_and_args`, `rebuild`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast


class RaygroveError(Exception):
    """The root of the tree. `sentence` is a format string over the positional arguments."""

    sentence: ClassVar[str] = "{0}"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)

    def __str__(self) -> str:
        try:
            return self.sentence.format(*self.args)
        except IndexError:
            # Made with too few facts; an error that cannot be told would hide what went wrong.
            return super().__str__() or type(self).__name__


class DefinitionError(RaygroveError, ValueError):
    """An agent or a tool is defined wrongly. Arguments: the whole sentence."""


class AgentTreeError(DefinitionError):
    """The agents do not form a tree. Arguments: what is wrong."""

    sentence = "failed to create agent tree: {0}"


class UnknownModelError(DefinitionError):
    """No model is known by that name. Arguments: agent, model, what would be right."""

    sentence = "agent {0!r}: no model is known by the name {1!r}. {2}"


class RequestError(RaygroveError):
    """The driver asked for something that cannot be; nothing was stored. Arguments: the whole sentence."""


class InvalidMessageError(RequestError, ValueError):
    """The message of a turn cannot be used. Arguments: the whole sentence."""


class InvalidIdError(RequestError, ValueError):
    """A name or id breaks the rules for it. Arguments: what it names, the value, the rule."""

    sentence = "{0} {1!r} is not valid: {2}"


class SessionNotFoundError(RequestError, LookupError):
    """There is no such session. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} not found in app {0!r}: create it first, or leave auto_create_session on"


class SessionExistsError(RequestError):
    """A session of that id is there already. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} exists already in app {0!r}"


class SessionBusyError(RequestError):
    """A turn is running and the new one asked to be refused then. Arguments: session, running invocation id."""

    sentence = "session {0!r} is busy with turn {1!r}: wait for it, or use on_concurrent_turn='enqueue' or 'interrupt'"


class UnknownFunctionCallError(RequestError, LookupError):
    """A function response answers a call that is not in the log. Arguments: id, session."""

    sentence = "no function call with the id {0!r} was made in session {1!r}: a response needs the id of a call in its log"


class UnknownAgentError(RequestError, LookupError):
    """No agent of that name is in the tree. Arguments: name, hint."""

    sentence = "agent {0!r} is not in the tree.{1}"


class InvocationNotFoundError(RequestError, LookupError):
    """The session has no such turn. Arguments: invocation id, session."""

    sentence = "invocation {0!r} not found in session {1!r}"


class FlowNotFoundError(RequestError, LookupError):
    """The definition of a flow is not known where it is to be run. Arguments: the name under which it was given."""

    sentence = "the definition of flow {0!r} is not known here any more: give the flow again, with run_flow"


class NotEncodableError(RequestError, TypeError):
    """A value has no wire form. Arguments: type, reason."""

    sentence = "a {0} cannot be sent or stored: {1}"


class TooLargeError(RequestError, ValueError):
    """Something has more bytes than a limit allows. Arguments: what, its bytes, the setting, its value, what to do instead."""

    sentence = "{0} has {1} bytes, and {2} allows {3}: {4}"


class TurnError(RaygroveError):
    """A turn was started and did not end well; its log tells. Arguments: the whole sentence."""


class AgentFailedError(TurnError):
    """An agent's own code or its model raised. Arguments: agent, class name of the exception, its message."""

    sentence = "agent {0!r} failed: {1}: {2}"


class LlmCallsLimitExceededError(TurnError):
    """The turn has used its model calls. Arguments: agent, limit."""

    sentence = "agent {0!r} asked for a model call beyond the {1} that RunConfig.max_llm_calls allows in one turn"


class TransferLimitExceededError(TurnError):
    """The turn has used its transfers. Arguments: agent, target, limit."""

    sentence = "agent {0!r} asked for a transfer to {1!r} beyond the {2} that RunConfig.max_transfers allows in one turn"


class TransferTargetError(TurnError):
    """A tool set a transfer to an agent that cannot take over. Arguments: agent, target, reason."""

    sentence = "agent {0!r} cannot transfer to {1!r}: {2}"


class TemplateError(TurnError):
    """An instruction names something that is not there. Arguments: agent, variable, what is missing."""

    sentence = "agent {0!r}: the instruction needs {1!r}, but {2}. Write {{{1}?}} if it may be missing"


class OutputSchemaError(TurnError):
    """The answer does not fit output_schema. Arguments: agent, what does not fit."""

    sentence = "the answer of agent {0!r} does not fit its output_schema: {1}"


class PluginFailedError(TurnError):
    """A plugin's hook of a turn raised. Arguments: plugin's hook, class name of the exception, its message."""

    sentence = "the plugin hook {0} failed: {1}: {2}"


class ToolAgentError(TurnError):
    """An agent that is used as a tool gave no answer that can be used. Arguments: agent, reason."""

    sentence = "agent {0!r}, asked as a tool, gave no answer: {1}"


class FlowLimitExceededError(TurnError):
    """A flow has used what it was allowed and is not done. Arguments: flow, field of the limit, limit, what is left to do."""

    sentence = "flow {0!r} is not done after what {1}={2} allows; left to do: {3}"


class FlowStalledError(TurnError):
    """Tasks of a flow are left to do, and none of them can be worked on. Arguments: flow, their names."""

    sentence = "flow {0!r} cannot go on: none of the tasks that are left to do is ready: {1}"


class TaskFailedError(TurnError):
    """A task that was asked for has no result. Arguments: task, its status, why."""

    sentence = "task {0!r} has no result: it is {1}: {2}"


class TurnCancelledError(TurnError):
    """The turn was cancelled. Arguments: invocation id."""

    sentence = "turn {0!r} was cancelled"


class TurnTimeoutError(TurnError, TimeoutError):
    """The turn took longer than RunConfig.timeout. Arguments: invocation id, seconds."""

    sentence = "turn {0!r} was cancelled: it took longer than its timeout of {1} s"


class ModelError(RaygroveError):
    """The model or its service. Arguments: the whole sentence."""


class ModelConfigurationError(ModelError):
    """A model cannot be used as things are set up. Arguments: model, what is missing and how to give it."""

    sentence = "model {0!r} cannot be used: {1}"


class ModelResponseError(ModelError):
    """The service's answer is no answer: cut off, or not in the agreed form. Arguments: model, what came."""

    sentence = "model {0!r} gave no usable answer: {1}"


class ModelServiceError(ModelError):
    """The service refused or could not be reached, retries included.

    Arguments: model, HTTP status or None, what it said; and, if it has said so, how many seconds it wants to be left alone.
    """

    sentence = "model {0!r}: the service failed with status {1}: {2}"

    @property
    def code(self) -> int | None:
        """The HTTP status; None when no answer came at all."""
        return cast("int | None", self.args[1])

    @property
    def retry_after_s(self) -> float | None:
        """How many seconds the service wants to be left alone; None when it does not say."""
        return cast("float | None", self.args[3]) if len(self.args) > 3 else None

    def __str__(self) -> str:
        if self.args[1:2] != (None,):
            return super().__str__()
        return f"model {self.args[0]!r}: the service could not be reached: {self.args[2]}"


class ScriptExhaustedError(ModelError):
    """A ScriptedModel was asked more often than it has replies. Arguments: number of replies, agent."""

    sentence = "the script has only {0} replies and agent {1!r} asked for one more"


class StoreError(RaygroveError):
    """A store did not do what was asked. Arguments: the whole sentence."""


class StoreUnavailableError(StoreError):
    """The store cannot be used now, and may be later: away, locked or full. Arguments: store, what it says."""

    sentence = "{0} is not available: {1}"


class StoreConflictError(StoreError):
    """Somebody else wrote to the session. Arguments: session, reason."""

    sentence = "session {0!r} was changed in the store by somebody else ({1}): only one deployment may serve it"


class SchemaVersionError(StoreError):
    """The store's tables are newer than this program. Arguments: found, known, the version of raygrove that made them."""

    sentence = (
        "the store has schema version {0}, made by raygrove {2}, this program knows up to {1}: upgrade it, or use another store"
    )


class ArtifactError(StoreError):
    """An artifact could not be saved or loaded. Arguments: filename, reason."""

    sentence = "artifact {0!r}: {1}"


class NoMemoryError(StoreError):
    """The app remembers nothing: its memory store is None. Arguments: app."""

    sentence = "app {0!r} has no memory: give Runtime a memory_store, or leave it out to have the default one"


class ClusterError(RaygroveError):
    """Actors and the machines they live on. Arguments: the whole sentence."""


class FencedError(ClusterError):
    """A writer's turn has been taken over or has ended; it must stop. Arguments: invocation id, its epoch."""

    sentence = "turn {0!r} is no longer written with epoch {1}: it was taken over or has ended"


class ActorLostError(ClusterError):
    """An actor's process is gone. Arguments: actor, reason."""

    sentence = "{0} is gone: {1}"


class ActorRestartsError(ActorLostError):
    """An actor's process is gone and is being started again. Arguments: actor, reason."""

    sentence = "{0} was lost and is being started again: {1}"


class PlacementError(ClusterError):
    """No node has room for an agent. Arguments: agent, what it asks for, what there is instead."""

    sentence = "agent {0!r} cannot be placed: it asks for {1}, {2}"


class DeploymentExistsError(ClusterError):
    """The app runs already. Arguments: app."""

    sentence = (
        "app {0!r} is already deployed on this cluster: join it with Runtime.connect({0!r}), stop it first, "
        "or use another app_name"
    )


class DeploymentNotFoundError(ClusterError, LookupError):
    """The app does not run. Arguments: app, namespace, which apps are there."""

    sentence = "app {0!r} is not deployed in Ray namespace {1!r}. {2}"


class RuntimeClosedError(ClusterError):
    """The runtime is closed. Arguments: app."""

    sentence = "the runtime of app {0!r} is closed: use it inside its 'with' block"


def _all_classes(cls: type[RaygroveError]) -> dict[str, type[RaygroveError]]:
    found = {cls.__name__: cls}
    for child in cls.__subclasses__():
        found |= _all_classes(child)
    return found


def name_and_args(error: RaygroveError) -> tuple[str, list[Any]]:
    """The form in which an error travels between actors."""
    return type(error).__name__, list(error.args)


def rebuild(name: str, args: Sequence[Any]) -> RaygroveError:
    """The error that was sent as `name` and `args`."""
    return _all_classes(RaygroveError).get(name, RaygroveError)(*args)
