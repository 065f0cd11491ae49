"""The token that a request brings along."""

from __future__ import annotations

from starlette.requests import Request

from runtime.frontends.web.problems import NotAuthenticatedError


def bearer_token(request: Request) -> str:
    """The token of the header `Authorization: Bearer …`. Raises NotAuthenticatedError when there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise NotAuthenticatedError("send a token: Authorization: Bearer <token>")
    return token.strip()
