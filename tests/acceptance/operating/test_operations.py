"""An operation is declared once: a script, an HTTP client and a command do it, and the OpenAPI document has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated

import httpx2
import msgspec
import pytest
from typer.main import get_command

from actors import LlmAgent
from actors.errors import RequestError
from actors.testing import PatternModel
from runtime.driver.operation import AppOperation, Command, Id, Option, Table, table
from runtime.driver.runtime import Runtime
from runtime.driver.services import deployment, limits, services
from runtime.driver.services.sessions import SessionsService
from runtime.driver.waits import Awaited
from runtime.frontends.console import cli, operations
from runtime.frontends.web import app
from runtime.frontends.web.operation import http_operation
from runtime.web import Principal, StaticTokens, app_for
from tests.support.console import have_joined, invoke
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import TIMEOUT_S, serving

ADA, BOSS = "ada-token-0123456789", "boss-token-0123456789"


class Tidying(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Sessions to delete; `keep`: how many stay."""

    keep: Annotated[int, Option("How many stay.", metavar="N", read=int)] = 0
    dry_run: Annotated[bool, Option("Only show them.", is_flag=True)] = False
    prefix: Annotated[Id | None, Option("Only those whose ids begin so.")] = None


class Tidied(msgspec.Struct, frozen=True):
    """The ids of sessions that were deleted."""

    sessions: Sequence[str]


async def tidy_user(sessions: SessionsService[Awaited], given: Tidying, user_id: str) -> Tidied:
    """Delete the sessions of a user. For administrators.

    The ones that were written last stay.
    """
    if given.keep < 0:
        raise RequestError("keep must not be below 0")
    found = [each.id for each in await sessions.list(user_id) if each.id.startswith(given.prefix or "")][given.keep :]
    for session_id in found:
        if not given.dry_run:
            await sessions.delete(user_id, session_id)
    return Tidied(found)


def shown(done: Tidied, given: Tidying) -> Table:
    return table(done.sessions, ("session", "done"), lambda each: [each, "no" if given.dry_run else "yes"])


TIDY = AppOperation(
    "POST /v1/apps/{app}/users/{user}/tidying", tidy_user, refused=404, command=Command(name="users tidy", show=shown)
)
"""All that it takes to have an operation."""


@pytest.fixture
def rt(local: Deploy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setattr(services, "OPERATIONS", [*services.OPERATIONS, TIDY])
    monkeypatch.setattr(app, "OPERATIONS", [*app.OPERATIONS, http_operation(TIDY)])
    operations.commands_in.cache_clear()
    with local(LlmAgent(name="root", model=PatternModel([], default="ok")), app_name="desk") as made:
        for number in range(4):
            made.sessions.create("ada", f"s{number}")
        yield made
    operations.commands_in.cache_clear()


def left(rt: Runtime) -> list[str]:
    return sorted(each.id for each in rt.sessions.list("ada"))


def test_it_is_a_route_that_the_document_describes(rt: Runtime) -> None:
    with serving(app_for(rt, auth=StaticTokens({ADA: Principal(user_id="ada"), BOSS: Principal(is_admin=True)}))) as url:

        def post(token: str = BOSS, **body: object) -> httpx2.Response:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx2.post(f"{url}/v1/apps/desk/users/ada/tidying", json=body, headers=headers, timeout=TIMEOUT_S)

        assert post(ADA).status_code == 403
        assert post(keep=3, dryRun=True).json() == {"sessions": ["s0"]}
        assert [post(keep="3").status_code, post(keeep=3).status_code, post(keep=-1).status_code] == [400, 400, 404]
        assert left(rt) == ["s0", "s1", "s2", "s3"]
        assert post(keep=3).json() == {"sessions": ["s0"]}
        document = httpx2.get(f"{url}/openapi.json").json()
    assert left(rt) == ["s1", "s2", "s3"]
    assert [TIDY.users, deployment.OPERATIONS[0].users, limits.OPERATIONS[0].users] == ["one", "any", "none"]
    told = document["paths"]["/v1/apps/{app}/users/{user}/tidying"]["post"]
    assert (told["operationId"], told["summary"]) == ("tidy_user", "Delete the sessions of a user. For administrators")
    assert [each["name"] for each in told["parameters"]] == ["app", "user"]
    assert set(document["components"]["schemas"]["Tidying"]["properties"]) == {"keep", "dryRun", "prefix"}


def test_it_is_a_command_with_an_option_for_each_field(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    have_joined(monkeypatch, rt)

    def tidy(*arguments: str) -> str:
        return invoke("users", "tidy", *arguments).output

    assert tidy("desk", "ada", "--keep", "3", "--dry-run") == "session\tdone\ns0\tno\n"
    assert [json.loads(line) for line in tidy("desk", "ada", "--prefix", "s1", "--json").splitlines()] == ["s1"]
    assert left(rt) == ["s0", "s2", "s3"]
    assert "Invalid value for --keep" in tidy("desk", "ada", "--keep", "many")
    described = tidy("--help")
    assert all(said in described for said in ("Delete the sessions of a user", "NAME", "USER", "--keep", "How many stay."))
    assert "tidy" in invoke("users", "--help").output


class Counted(msgspec.Struct, frozen=True):
    """How many sessions there are."""

    of_user: int


async def count(sessions: SessionsService[Awaited], user_id: str) -> Counted | None:
    """Count the sessions of a user."""
    return Counted(len(found)) if (found := await sessions.list(user_id)) else None


def test_the_fields_of_a_result_are_shown_by_default(rt: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    have_joined(monkeypatch, rt)
    counting = AppOperation("GET /v1/apps/{app}/users/{user}/count", count, command=Command(name="users count"))
    monkeypatch.setattr(services, "OPERATIONS", [counting])
    operations.commands_in.cache_clear()

    def counted(*arguments: str) -> str:
        return invoke("users", "count", "desk", *arguments).output

    assert (counted("ada"), counted("ada", "--json"), counted("bob")) == ("of user\n4\n", '{"of_user":4}\n', "")


def test_every_command_is_in_a_group_that_there_is() -> None:
    groups = {name for name, each in get_command(cli.app).commands.items() if isinstance(each, operations.WithOperations)}  # type: ignore[attr-defined]
    assert {each.command.name.rpartition(" ")[0] for each in services.OPERATIONS if each.command is not None} <= {"", *groups}
