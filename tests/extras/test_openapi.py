"""The OpenAPI document says what the server does: requests that it allows, and requests that it does not, are made of it.

The cases are the same in every run of the same code: hypothesis takes some values from the code's own constants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from runtime.driver.runtime import Runtime
from runtime.frontends.web.app import OPERATIONS
from runtime.frontends.web.operation import HttpOperation
from runtime.web import Principal, StaticTokens, app_for
from tests.support.agents.web_agents import SteppedModel, desk
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving

schemathesis: Any = pytest.importorskip("schemathesis", reason="it has an environment of its own: make test-extras")

OF_ADA, OF_OPERATORS = "a-token-of-ada-0123456789", "an-operators-token-0123456789"
TOKENS = {OF_ADA: Principal(user_id="ada"), OF_OPERATORS: Principal(is_admin=True)}
KNOWN = {"session": "s", "turn": "t", "name": "n"}
"""What is there; half of the requests that are allowed are about it."""

EXAMPLES = 40
"""Of each kind for each operation. Operations without parameters have few that differ, so that it is less than the product."""

CASES = 2_000

FREE = {"start_turn", "answer_calls", "create_schedule", "steer_run"}
"""Their bodies hold messages, answers and times, of which JSON Schema cannot say what fits the calls that wait, or each other."""

GOES_WITH = {"turn": "session"}
"""Parameters that need another one, which no description of parameters can say."""

TEXTS = {"list_agents"}
"""Any value of their parameters is a text that may be looked for."""


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """The Runtime that is served."""
    root = desk(SteppedModel(tmp_path_factory.mktemp("gates")))
    with Deploy("local", tmp_path_factory.mktemp("stores"))(root, app_name="desk") as rt:
        yield rt


@pytest.fixture(scope="module")
def schema(rt: Runtime) -> Iterator[Any]:
    """The description of the server, as its clients read it."""
    with serving(app_for(rt, auth=StaticTokens(TOKENS))) as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        # Each request has a right token; the check `ignored_auth` sends it again without, and with a wrong one.
        schema.config.generation.update(with_security_parameters=False)
        yield schema


@pytest.fixture(scope="module")
def sent() -> Counter[str]:
    """How many requests there were, by kind."""
    return Counter()


@pytest.mark.parametrize("mode", schemathesis.GenerationMode, ids=lambda mode: str(mode.value))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.method} {operation.path}")
def test_no_answer_is_outside_of_its_schema(
    schema: Any, rt: Runtime, sent: Counter[str], operation: HttpOperation, mode: Any
) -> None:
    is_allowed = mode is schemathesis.GenerationMode.POSITIVE
    if not rt.sessions.list("ada"):
        rt.run(user_id="ada", session_id="s", message="ask", invocation_id="t").result()
    excluded = [schemathesis.checks.positive_data_acceptance] if operation.handle.__name__ in FREE else []
    excluded += [schemathesis.checks.negative_data_rejection] if operation.handle.__name__ in TEXTS else []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=schema[operation.path][operation.method].as_strategy(generation_mode=mode), knows=st.booleans(), admin=st.booleans()
    )
    def answered(case: Any, knows: bool, admin: bool) -> None:
        if is_allowed:
            if knows:
                case.path_parameters.update({name: value for name, value in KNOWN.items() if name in case.path_parameters})
            # Only the server makes these.
            for cursor in ("before", "after"):
                case.query.pop(cursor, None)
            for name, other in GOES_WITH.items():
                if other not in case.query:
                    case.query.pop(name, None)
        names_user = "user" in case.query or "user" in case.path_parameters or operation.users == "none"
        token = OF_OPERATORS if admin and names_user else OF_ADA
        sent[mode.value] += 1
        sending: dict[str, Any] = {"headers": {"Authorization": f"Bearer {token}"}, "timeout": TIMEOUT_S}
        response = case.call(**sending)
        # A number of more than 64 bits somewhere in a state: the log cannot hold it, and no schema of JSON values can say that.
        has_no_wire_form = response.status_code == 400 and response.json()["type"] == "NotEncodableError"
        allowed = [schemathesis.checks.positive_data_acceptance] if has_no_wire_form else []
        case.validate_response(response, excluded_checks=excluded + allowed, transport_kwargs=sending)

    try:
        answered()
    except Unsatisfiable:
        # Nothing about it can be wrong.
        assert not is_allowed
        assert "{" not in operation.path
        assert operation.query is None


def test_there_were_many(sent: Counter[str]) -> None:
    assert sent.total() > CASES, sent
