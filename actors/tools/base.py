"""The seam that every tool fills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from actors.messages.model import FunctionDeclaration
from actors.tools.context import ToolContext


class Tool(ABC):
    """Something that a model can call.

    Attributes:
        name: unique among the tools of an agent.
        description: what it does, for the model.
        is_long_running: its answer may come in a later turn.
        require_confirmation: it is run only when the user has said yes.
    """

    name: str = ""
    description: str = ""
    is_long_running: bool = False
    require_confirmation: bool = False

    @abstractmethod
    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""

    @abstractmethod
    async def run(self, args: dict[str, Any], context: ToolContext) -> Any:
        """Do it.

        Args:
            args: what the model gave, a JSON object.
            context: the session's state and the actions that the call may take.

        Returns:
            A JSON object, or any JSON value, which is wrapped as `{"result": value}`. None from a long-running tool:
            there is no answer yet.

        Raises:
            Exception: told to the model, which goes on.
        """
