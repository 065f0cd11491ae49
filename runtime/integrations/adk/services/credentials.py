"""Credentials that tools and toolsets of google-adk ask users for: the question, and what is done with the answer.

ADK's own code makes the question and takes the answer: it checks the state of OAuth, keeps its secrets out of what users see, and
exchanges what a user gives for a token.
"""

from __future__ import annotations

from typing import Any

from actors.messages.json_types import JsonMapping, JsonObject

ASKS_CREDENTIAL = "authConfig"
"""The key of a question that asks for a credential: ADK's AuthConfig."""


def question_of(config: Any, asking: str) -> JsonObject:
    """The question for a credential.

    Args:
        config: the AuthConfig that ADK has made for it.
        asking: names the tool or the toolset.
    """
    return {
        "message": f"{asking} asks for a credential",
        ASKS_CREDENTIAL: config.model_dump(mode="json", exclude_none=True, by_alias=True),
    }


async def credential_state(asked: JsonMapping, answer: JsonObject, call_id: str) -> JsonObject:
    """The changes of state in which ADK's code finds the credential that a user has given; none for one that it does not take.

    Args:
        asked: the question.
        answer: an AuthConfig or an AuthCredential; or one value, such as a key, under a key of its own.
        call_id: of the call that asks.
    """
    # It brings fastapi and clients of OAuth: a quarter of what the adapter takes to import.
    from google.adk.auth._auth_resume import store_auth_response
    from google.adk.auth.auth_tool import AuthConfig

    config = AuthConfig.model_validate(asked[ASKS_CREDENTIAL])
    found: dict[str, Any] = {}
    given: Any = answer
    if len(answer) == 1 and (key := next(iter(answer))) in ("result", "response"):
        given = answer[key]
    await store_auth_response(requested=config, response=given, state=found, interrupt_id=call_id)
    return {key: _plain(value) for key, value in found.items() if value is not None}


def stored_credential(value: Any) -> Any:
    """A credential that ADK's own code writes into the state, as plain data; any other value as it is."""
    return _plain(value) if type(value).__module__ == "google.adk.auth.auth_credential" else value


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value
