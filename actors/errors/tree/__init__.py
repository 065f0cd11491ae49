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
an actor can send it to another process by name and arguments alone (`name_and_args`, `rebuild`).
"""
