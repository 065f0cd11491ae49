"""Credentials for Gemini, and which of its two services is used. Reads an environment that is passed in; loads no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HOW_TO_GIVE = (
    "set GOOGLE_API_KEY (or GEMINI_API_KEY) where the agents run, or pass Gemini(model=…, api_key=…); for Vertex AI set "
    "GOOGLE_GENAI_USE_VERTEXAI=true with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION"
)
"""The end of every sentence about a missing key."""

_ON = {"true", "1"}


def uses_vertex(environ: Mapping[str, str]) -> bool:
    """True for Vertex AI, by the client's own rule: the newer name of the switch overrides the older one."""
    switch = environ.get("GOOGLE_GENAI_USE_ENTERPRISE", environ.get("GOOGLE_GENAI_USE_VERTEXAI", ""))
    return switch.lower() in _ON


def missing(model: str, api_key: str | None, environ: Mapping[str, str]) -> str | None:
    """The variables that the environment lacks to use the model, and how to give them; None if nothing.

    A Vertex project may also come from the machine's own credentials, so only the first call can find that it is missing.
    """
    if uses_vertex(environ):
        return None
    if model.startswith("projects/"):
        return "it is a resource of Vertex AI: set GOOGLE_GENAI_USE_VERTEXAI=true where the agents run"
    if api_key or environ.get("GOOGLE_API_KEY") or environ.get("GEMINI_API_KEY"):
        return None
    return f"there is no API key: {HOW_TO_GIVE}"


def client_arguments(api_key: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """The credentials as arguments of `google.genai.Client`.

    `vertexai` is passed although the client reads the same variables: it looks for a default endpoint before it reads them.
    With a custom endpoint it needs the project as an argument, too; else it sends requests to the bare endpoint.
    """
    if not uses_vertex(environ):
        return {"vertexai": False, "api_key": api_key}
    project = environ.get("GOOGLE_CLOUD_PROJECT")
    if api_key or not project:
        return {"vertexai": True, "api_key": api_key}
    return {"vertexai": True, "project": project, "location": environ.get("GOOGLE_CLOUD_LOCATION") or "global"}
