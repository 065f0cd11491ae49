"""On whose behalf a request comes, and what that allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import msgspec
from starlette.requests import Request

from actors.messages.json_types import JsonMapping, JsonValue
from actors.rules.checks.budget_question import scope_of
from actors.rules.checks.confirmation import CONFIRMED, SUFFIX, unwrapped
from runtime.frontends.web.problems import NotAllowedError

APP_STATE = "app:"
"""How the keys of the state begin that all users share."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf a request comes.

    Attributes:
        user_id: the only user whose data it may reach; None: those of any user, as a back end needs that has users of its own.
        is_admin: it may see statistics, live actors, and where users' code failed.
    """

    user_id: str | None = None
    is_admin: bool = False

    def check_user(self, user_id: str) -> str:
        """The id of a user, if this principal may reach that user's data. Raises NotAllowedError."""
        if self.user_id is not None and user_id != self.user_id:
            raise NotAllowedError(f"these credentials are for user {self.user_id!r}, and for no other user")
        return user_id

    def check_admin(self) -> None:
        """Raises NotAllowedError when the principal is no administrator."""
        if not self.is_admin:
            raise NotAllowedError("this is for administrators")

    def check_state(self, state: JsonMapping | None) -> None:
        """Check changes of state. Raises NotAllowedError when they reach other users."""
        if self.user_id is None or self.is_admin or not state:
            return
        shared = next((key for key in state if str(key).startswith(APP_STATE)), None)
        if shared is not None:
            raise NotAllowedError(f"the state {shared!r} is shared by all users: only credentials for any user may set it")

    def check_answer(self, call_id: object, answer: JsonValue) -> None:
        """Check the answer to a call. Raises NotAllowedError when it gives more of a budget, and the principal is the user."""
        asks = isinstance(call_id, str) and scope_of(call_id.removesuffix(SUFFIX))
        if self.user_id is None or self.is_admin or not asks:
            return
        is_no = answer is False or (isinstance(answer, dict) and unwrapped(answer).get(CONFIRMED) is False)
        if not is_no:
            raise NotAllowedError("only credentials for any user may give more of a budget; these may say no")

    def check_message(self, message: JsonValue) -> None:
        """Check the answers in a message. Raises as `check_answer`."""
        for response in responses_in(message):
            self.check_answer(response.get("id"), response.get("response"))


def responses_in(message: JsonValue) -> Iterator[JsonMapping]:
    """The answers in a message, in either spelling."""
    parts = message.get("parts") if isinstance(message, dict) else None
    for part in parts if isinstance(parts, list) else ():
        for key in ("functionResponse", "function_response"):
            response = part.get(key) if isinstance(part, dict) else None
            if isinstance(response, dict):
                yield response


class Auth(Protocol):
    """Says on whose behalf each request comes. Any object with this method will do."""

    async def __call__(self, request: Request) -> Principal:
        """The principal of a request.

        Raises:
            NotAuthenticatedError: the request has no credentials, or wrong ones.
        """
        ...
