"""The classes of which a case is built: this project's, or google-adk's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from actors import Content, Event, EventActions, FunctionNode, RequestInput, RetryConfig


class Kit:
    """This project's classes, as the words of the notation use them."""

    def content(self, text: str) -> Any:
        """A text that is shown."""
        return Content.of_text(text, role="model")

    def event(
        self,
        *,
        author: str = "",
        branch: str | None = None,
        text: str | None = None,
        output: Any = None,
        partial: bool = False,
        route: Any = None,
        state: Mapping[str, Any] | None = None,
        escalate: bool | None = None,
        skip: bool | None = None,
    ) -> Any:
        """An event that a node yields."""
        actions = EventActions(route=route, state_delta=dict(state or {}), escalate=escalate, skip_summarization=skip)
        content = self.content(text) if text is not None else None
        return Event(author=author, branch=branch, content=content, output=output, partial=partial, actions=actions)

    def request_input(self, **fields: Any) -> Any:
        """A question."""
        return RequestInput(**fields)

    def retry_config(self, **fields: Any) -> Any:
        """How often a node is tried."""
        return RetryConfig(**fields)

    def function_node(self, function: Callable[..., Any], **options: Any) -> Any:
        """A node that calls a function."""
        return FunctionNode(function, **options)
