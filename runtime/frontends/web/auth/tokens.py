"""Tokens that are known beforehand, each with what it allows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec
from starlette.requests import Request

from actors.errors import DefinitionError
from actors.messages import typed
from runtime.frontends.web.auth.bearer import bearer_token
from runtime.frontends.web.auth.principal import Principal
from runtime.frontends.web.problems import NotAuthenticatedError

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
            tokens = typed.decode_json(Path(path).read_bytes(), dict[str, _Allowed])
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
