"""Who may what: on whose behalf a request comes, by its token or because it comes from this machine, and what that allows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

import msgspec
from starlette.requests import Request

from actors.errors import DefinitionError
from actors.messages import codec
from actors.messages.json_types import JsonMapping, JsonValue
from actors.rules.checks.questions import CONFIRMED, SUFFIX, scope_of, unwrapped
from runtime.frontends.web.problems import NotAllowedError, NotAuthenticatedError

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


def bearer_token(request: Request) -> str:
    """The token of the header `Authorization: Bearer …`. Raises NotAuthenticatedError when there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticatedError("send a token: Authorization: Bearer <token>")
    return token.strip()


LEAST_CHARACTERS = 16
"""Shorter tokens could be guessed."""


class StaticTokens:
    """Knows a principal for each token.

    Args:
        tokens: by token, what it allows.

    Raises:
        DefinitionError: there is none, or one is shorter than 16 characters.
    """

    def __init__(self, tokens: Mapping[str, Principal]) -> None:
        if not tokens:
            raise DefinitionError("StaticTokens needs a token at least")
        short = next((token for token in tokens if len(token) < LEAST_CHARACTERS), None)
        if short is not None:
            raise DefinitionError(f"a token has only {len(short)} characters: use {LEAST_CHARACTERS} random ones at least")
        # Looked up by their hashes: how long that takes says nothing about how much of a token was right.
        self._principals = {_hash(token): principal for token, principal in tokens.items()}

    @classmethod
    def from_file(cls, path: str | Path) -> StaticTokens:
        """The tokens of a JSON file, such as `{"<token>": {"user_id": "ada"}, "<another>": {"is_admin": true}}`.

        Raises:
            DefinitionError: the file cannot be read, or says something else.
        """
        try:
            tokens = codec.decode_json(Path(path).read_bytes(), dict[str, _Allowed])
        except OSError as error:
            raise DefinitionError(f"the file of tokens {str(path)!r} cannot be read: {error.strerror}") from error
        except msgspec.DecodeError as error:
            right = '{"<token>": {"user_id": "ada"}}'
            raise DefinitionError(f"the file of tokens {str(path)!r} is wrong: {error}. It has to be like {right}") from None
        return cls({token: Principal(user_id=each.user_id, is_admin=each.is_admin) for token, each in tokens.items()})

    async def __call__(self, request: Request) -> Principal:
        """The principal of the request's token. Raises NotAuthenticatedError."""
        principal = self._principals.get(_hash(bearer_token(request)))
        if principal is None:
            raise NotAuthenticatedError("the token is not known")
        return principal


class _Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user_id: str | None = None
    is_admin: bool = False


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""The names in a `Host` header under which programs of the same machine reach it."""

_EVERYTHING = Principal(is_admin=True)


class LoopbackOnly:
    """Lets requests from the same machine do everything, and refuses all others."""

    async def __call__(self, request: Request) -> Principal:
        """The principal, which may do everything. Raises NotAllowedError when the request comes from another machine."""
        # A Unix socket has no client.
        if request.client is not None and not is_loopback(request.client.host):
            raise NotAllowedError("this server has no credentials to check, so it serves only the machine that it runs on")
        return _EVERYTHING


def is_loopback(host: str) -> bool:
    """True for an address, or a name, that only the same machine can reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
