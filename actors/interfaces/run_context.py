"""What the contexts of user code and of behaviours have in common."""

from __future__ import annotations

from typing import Protocol

from actors.interfaces.access import ArtifactAccess, MemoryAccess
from actors.messages.config import RunConfig
from actors.messages.content import Content
from actors.messages.json_types import JsonMapping


class RunContext(Protocol):
    """What InvocationContext and Context have in common; its attributes are described at InvocationContext."""

    agent_name: str
    invocation_id: str
    user_id: str
    session_id: str
    branch: str | None
    run_config: RunConfig
    user_content: Content

    @property
    def artifacts(self) -> ArtifactAccess:
        """The session's artifacts."""
        ...

    @property
    def memory(self) -> MemoryAccess:
        """The user's memory."""
        ...

    @property
    def state(self) -> JsonMapping:
        """Session state by prefixed keys, as of the last event; to change it, yield an event with a state_delta."""
        ...
