"""The seam that every tool fills."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.messages.model import FunctionDeclaration, LlmRequest


class Tool(ABC):
    """Something that a model can call.

    Attributes:
        name: unique among the tools of an agent.
        description: what it does, for the model.
        is_long_running: its answer may come in a later turn.
        require_confirmation: it is run only when the user has said yes.
        only_decides: it sets actions of its event, always answers, and has no other effect: it may be run before its call is
            stored.
    """

    name: str = ""
    description: str = ""
    is_long_running: bool = False
    require_confirmation: bool = False
    only_decides: bool = False

    @abstractmethod
    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""

    async def process_request(self, request: LlmRequest, context: CallbackContext) -> None:  # noqa: B027 - few have a say
        """Have a say in a request of the agent before it goes to the model; by default nothing.

        Called for every request, in the order of the agent's tools, before any before_model callback.

        Args:
            request: may be changed; its `contents` by giving it another list.
            context: what is written into its state rides on the event of the model's answer.

        Raises:
            Exception: fails the agent's run.
        """

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
