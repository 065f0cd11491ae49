"""Tools and toolsets ask users for credentials: the turn pauses, and the answer reaches ADK's own code."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes, OAuth2Auth
from google.adk.tools import AgentTool, FunctionTool
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.workflow import START, Workflow, node

from actors.errors import NotCarriedOverError
from tests.adk import programs
from tests.support.runtimes import Deploy, run_turn, stored, stored_state

schemes = pytest.importorskip("fastapi.openapi.models")

# What ADK does in its own AuthConfig.
pytestmark = pytest.mark.filterwarnings("ignore:This method is deprecated:DeprecationWarning")


def api_key() -> AuthConfig:
    return AuthConfig(
        auth_scheme=schemes.APIKey(**{"name": "key", "in": schemes.APIKeyIn.header}),
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="unknown"),
    )


def oauth() -> AuthConfig:
    code = schemes.OAuthFlowAuthorizationCode(
        authorizationUrl="https://example.com/authorize", tokenUrl="https://example.com/token", scopes={"read": "Read."}
    )
    return AuthConfig(
        auth_scheme=schemes.OAuth2(flows=schemes.OAuthFlows(authorizationCode=code)),
        raw_auth_credential=AuthCredential(
            auth_type=AuthCredentialTypes.OAUTH2,
            oauth2=OAuth2Auth(client_id="ours", client_secret="secret of the client", redirect_uri="https://example.com/back"),
        ),
    )


def by_key(tool_context: Any) -> dict[str, Any]:
    """Read by a key."""
    given = tool_context.get_auth_response(api_key())
    if given is None:
        tool_context.request_credential(api_key())
        return {"pending": True}
    return {"read with": given.api_key}


def by_token(tool_context: Any) -> dict[str, Any]:
    """Read by a token."""
    given = tool_context.get_auth_response(oauth())
    if given is None:
        tool_context.request_credential(oauth())
        return {"pending": True}
    return {"read with": given.oauth2.access_token}


async def authenticated(credential: Any) -> str:
    """Read by what ADK gives."""
    return f"read with {credential.api_key}"


class Vault(BaseToolset):  # type: ignore[misc]
    """Has tools for those who have a key."""

    def __init__(self) -> None:
        super().__init__()
        self._config = api_key()
        self._config.raw_auth_credential = None

    def get_auth_config(self) -> Any:
        return self._config

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(read)]


def read(tool_context: Any) -> str:
    """Read by the toolset's credential."""
    [credential] = tool_context._invocation_context.credential_by_key.values()
    return f"read with {credential.api_key}"


def note_begin(callback_context: Any) -> None:
    callback_context.state["begun"] = callback_context.state.get("begun", 0) + 1


def open_door(ctx: Any) -> str:
    return str(ctx.get_auth_response(api_key()).api_key)


def go_in(node_input: str, ctx: Any) -> str:
    return f"{node_input} and {ctx.get_auth_response(api_key()).api_key}"


def guarded() -> Workflow:
    nodes = [node(function, auth_config=api_key(), rerun_on_resume=True) for function in (open_door, go_in)]
    return Workflow(name="wf", edges=[(START, *nodes)])


def given_key(key: str) -> dict[str, Any]:
    config = api_key()
    config.exchanged_auth_credential = AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key=key)
    answer: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    return answer


def responses(log: Any) -> list[Any]:
    return [response.response for event in log if event.author != "user" for response in event.function_responses()]


ANSWERS: list[Any] = [given_key, str, lambda key: {"auth_type": "apiKey", "api_key": key}]


@pytest.mark.parametrize("answer", ANSWERS, ids=["config", "text", "credential"])
def test_a_tool_asks_for_a_key_and_is_run_again_with_it(answer: Any, deploy: Deploy) -> None:
    root = programs.agent("root", ("by_key", {}), "show:last", tools=[by_key])
    with deploy(root) as rt:
        run_turn(rt, "read")
        [pending] = rt.pending()
        assert pending.question is not None
        assert pending.question["authConfig"]["credentialKey"] == api_key().credential_key
        assert responses(stored(rt)) == []
        assert rt.answer(pending, answer("k1")).result().text == "{'read with': 'k1'}"
        log = stored(rt)
    assert responses(log) == [{"read with": "k1"}]


@pytest.mark.parametrize("answer", ANSWERS, ids=["config", "text", "credential"])
def test_a_node_asks_for_a_key_and_the_nodes_after_it_have_it(answer: Any, local: Deploy) -> None:
    with local(guarded()) as rt:
        run_turn(rt, "read")
        [pending] = rt.pending()
        assert (pending.name, pending.args["authConfig"]["credentialKey"]) == ("adk_request_credential", api_key().credential_key)
        assert rt.answer(pending, answer("k1")).result().events[-1].output == "k1 and k1"
        assert rt.pending() == []
        assert not any(key.startswith("temp:") for key in stored_state(rt))


def test_a_tool_asks_for_a_token_and_no_secret_of_the_client_is_shown(local: Deploy) -> None:
    root = programs.agent("root", ("by_token", {}), "show:last", tools=[by_token])
    with local(root) as rt:
        run_turn(rt, "read")
        [pending] = rt.pending()
        assert pending.question is not None
        config = pending.question["authConfig"]
        assert "https://example.com/authorize?" in config["exchangedAuthCredential"]["oauth2"]["authUri"]
        assert "secret of the client" not in str([event.to_json() for event in stored(rt)])
        given = AuthConfig.model_validate(config)
        given.exchanged_auth_credential.oauth2.access_token = "t1"
        answer = given.model_dump(mode="json", exclude_none=True)
        assert rt.answer(pending, answer).result().text == "{'read with': 't1'}"


def test_an_answer_that_is_no_credential_is_asked_for_again(local: Deploy) -> None:
    with local(programs.agent("root", ("by_token", {}), "show:last", tools=[by_token])) as rt:
        run_turn(rt, "read")
        rt.answer(rt.pending()[0], {"no": "credential"}).result()
        assert [call.name for call in rt.pending()] == ["by_token"]


def test_an_authenticated_function_gets_the_credential(deploy: Deploy) -> None:
    tool = AuthenticatedFunctionTool(func=authenticated, auth_config=api_key())
    tool._credentials_manager._auth_config.raw_auth_credential = None
    root = programs.agent("root", ("authenticated", {}), "show:last", tools=[tool])
    with deploy(root) as rt:
        run_turn(rt, "read")
        assert rt.answer(rt.pending()[0], given_key("k1")).result().text


def test_a_toolset_asks_before_anything_else_and_no_model_sees_it(deploy: Deploy) -> None:
    root = programs.agent("root", ("read", {}), "show:last", tools=[Vault()], before_agent_callback=note_begin)
    with deploy(root) as rt:
        run_turn(rt, "go")
        [pending] = rt.pending()
        assert (pending.name, pending.args["functionCallId"]) == ("adk_request_credential", "_adk_toolset_auth_Vault")
        assert rt.answer(pending, given_key("k1")).result().text == "{'result': 'read with k1'}"
        # The next turn asks again: a credential is kept for its turn.
        run_turn(rt, "go", session_id="s2", user_id="bob")
        [other] = rt.pending()
        assert rt.answer(other, given_key("k2")).result().text == "{'result': 'read with k2'}"
        assert stored_state(rt)["begun"] == 1
    root = programs.agent("root", "show:texts", tools=[])
    with deploy(root) as rt:
        assert "credential" not in run_turn(rt, "more")[-1].text


def test_in_an_agent_that_is_a_tool_a_toolset_cannot_ask(local: Deploy) -> None:
    helper = programs.agent("helper", "no", tools=[Vault()], description="Helps.")
    root = programs.agent("root", ("helper", {"request": "help"}), "show:last", tools=[AgentTool(helper)])
    with local(root) as rt, pytest.raises(NotCarriedOverError, match="asks the user for a credential"):
        run_turn(rt, "go")
