"""JSON Web Tokens that another service has signed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import jwt
from starlette.requests import Request

from actors.errors import DefinitionError
from runtime.frontends.web.auth import Principal, bearer_token
from runtime.frontends.web.problems import HttpError, NotAuthenticatedError

LEEWAY_S = 30
"""How far the clock of the service that signs may be off."""


class JwtAuth:
    """Takes JSON Web Tokens of one issuer for one audience.

    Args:
        issuer: the `iss` of the tokens.
        audience: the `aud` of the tokens: a name of this service.
        key: the issuer's public key in PEM, or the secret that it shares with this service.
        jwks_url: where the issuer publishes its keys, in place of `key`.
        algorithms: with which tokens may be signed.
        user_claim: the claim with the user's id. A `sub` that is the token's `client_id` or `azp` is no user (RFC 9068): such a
            token is a program's.
        any_user_scope: a token with this scope, and without a user, may reach the data of any user. With a user it is that
            user's, whatever it says.
        admin_scope: a token with this scope is an administrator's.

    Raises:
        DefinitionError: there is neither a key nor an URL, or both; or the algorithms do not fit the key.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        key: str | None = None,
        jwks_url: str | None = None,
        algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA"),
        user_claim: str = "sub",
        any_user_scope: str = "raygrove:any_user",
        admin_scope: str = "raygrove:admin",
    ) -> None:
        if (key is None) == (jwks_url is None):
            raise DefinitionError("JwtAuth needs either key=…, the issuer's key, or jwks_url=…, where it publishes its keys")
        if not algorithms or "none" in {each.lower() for each in algorithms}:
            raise DefinitionError("JwtAuth takes signed tokens only: name algorithms such as RS256, without 'none'")
        is_secret = {each.startswith("HS") for each in algorithms}
        if len(is_secret) > 1 or (is_secret == {True} and jwks_url is not None):
            # With both kinds allowed, a public key could be used as if it were a shared secret.
            raise DefinitionError("JwtAuth takes either algorithms of a shared secret (HS256 …) or those of a public key")
        self._issuer = issuer
        self._audience = audience
        self._key = key
        self._keys = jwt.PyJWKClient(jwks_url) if jwks_url is not None else None
        self._algorithms = list(algorithms)
        self._user_claim = user_claim
        self._any_user_scope = any_user_scope
        self._admin_scope = admin_scope

    async def __call__(self, request: Request) -> Principal:
        """The principal of the request's token. Raises NotAuthenticatedError."""
        token = bearer_token(request)
        try:
            claims = jwt.decode(
                token,
                await self._key_of(token),
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWKClientConnectionError as error:
            raise HttpError(503, "the issuer's keys cannot be read at present") from error
        except jwt.PyJWTError as error:
            raise NotAuthenticatedError(f"the token is not valid: {error}") from None
        scopes = _scopes(claims.get("scope", ()))
        is_admin = self._admin_scope in scopes
        user_id = claims.get(self._user_claim)
        is_program = self._user_claim == "sub" and user_id in (claims.get("client_id"), claims.get("azp"))
        if (user_id is None or is_program) and self._any_user_scope in scopes:
            return Principal(is_admin=is_admin)
        if not isinstance(user_id, str) or not user_id:
            raise NotAuthenticatedError(f"the token has no claim {self._user_claim!r} with a user's id")
        return Principal(user_id=user_id, is_admin=is_admin)

    async def _key_of(self, token: str) -> str | jwt.PyJWK:
        if self._keys is not None:
            # It asks the issuer when it does not know the key, and blocks meanwhile.
            return await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
        assert self._key is not None
        return self._key


def _scopes(given: object) -> frozenset[str]:
    """The scopes of a token, which are one text with blanks between them, or a list."""
    if isinstance(given, str):
        return frozenset(given.split())
    return frozenset(each for each in given if isinstance(each, str)) if isinstance(given, list | tuple) else frozenset()
