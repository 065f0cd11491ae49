"""Every error that this project raises.

    RaygroveError
    ├── DefinitionError              an agent, a tool, a flow or the tree is defined wrongly
    │   ├── AgentTreeError
    │   └── UnknownModelError
    ├── RequestError                 the driver's request is refused, and nothing is stored
    │   ├── InvalidMessageError
    │   ├── InvalidIdError
    │   ├── SessionNotFoundError
    │   ├── RepeatMismatchError
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
    │   ├── StoreRevertedError
    │   ├── EventsLostError
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

from actors.errors.tree.cluster import (
    ActorLostError,
    ActorRestartsError,
    AgentLostError,
    ClusterError,
    DeploymentExistsError,
    DeploymentNotFoundError,
    FencedError,
    ForkedProcessError,
    PlacementError,
    RuntimeClosedError,
)
from actors.errors.tree.definitions import AgentTreeError, DefinitionError, UnknownModelError
from actors.errors.tree.models import (
    ModelConfigurationError,
    ModelError,
    ModelResponseError,
    ModelServiceError,
    ScriptExhaustedError,
)
from actors.errors.tree.requests import (
    FlowNotFoundError,
    InvalidIdError,
    InvalidMessageError,
    InvocationNotFoundError,
    NotEncodableError,
    RepeatMismatchError,
    RequestError,
    SessionBusyError,
    SessionExistsError,
    SessionNotFoundError,
    TooLargeError,
    UnknownAgentError,
    UnknownFunctionCallError,
)
from actors.errors.tree.stores import (
    ArtifactError,
    EventsLostError,
    NoMemoryError,
    SchemaVersionError,
    StoreConflictError,
    StoreError,
    StoreInUseError,
    StoreRevertedError,
    StoreUnavailableError,
    WriterReplacedError,
)
from actors.errors.tree.turns import (
    AgentFailedError,
    FlowLimitExceededError,
    FlowStalledError,
    LlmCallsLimitExceededError,
    McpServerError,
    McpToolError,
    OutputSchemaError,
    PluginFailedError,
    TaskFailedError,
    TemplateError,
    ToolAgentError,
    TransferLimitExceededError,
    TransferTargetError,
    TurnCancelledError,
    TurnError,
    TurnTimeoutError,
)

__all__ = [
    "ActorLostError",
    "ActorRestartsError",
    "AgentFailedError",
    "AgentLostError",
    "AgentTreeError",
    "ArtifactError",
    "ClusterError",
    "DefinitionError",
    "DeploymentExistsError",
    "DeploymentNotFoundError",
    "EventsLostError",
    "FencedError",
    "FlowLimitExceededError",
    "FlowNotFoundError",
    "FlowStalledError",
    "ForkedProcessError",
    "InvalidIdError",
    "InvalidMessageError",
    "InvocationNotFoundError",
    "LlmCallsLimitExceededError",
    "McpServerError",
    "McpToolError",
    "ModelConfigurationError",
    "ModelError",
    "ModelResponseError",
    "ModelServiceError",
    "NoMemoryError",
    "NotEncodableError",
    "OutputSchemaError",
    "PlacementError",
    "PluginFailedError",
    "RepeatMismatchError",
    "RequestError",
    "RuntimeClosedError",
    "SchemaVersionError",
    "ScriptExhaustedError",
    "SessionBusyError",
    "SessionExistsError",
    "SessionNotFoundError",
    "StoreConflictError",
    "StoreError",
    "StoreInUseError",
    "StoreRevertedError",
    "StoreUnavailableError",
    "TaskFailedError",
    "TemplateError",
    "TooLargeError",
    "ToolAgentError",
    "TransferLimitExceededError",
    "TransferTargetError",
    "TurnCancelledError",
    "TurnError",
    "TurnTimeoutError",
    "UnknownAgentError",
    "UnknownFunctionCallError",
    "UnknownModelError",
    "WriterReplacedError",
]
