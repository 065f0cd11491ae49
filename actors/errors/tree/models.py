"""Errors of models and their services."""

from __future__ import annotations

from typing import cast

from actors.errors.base import RaygroveError


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
