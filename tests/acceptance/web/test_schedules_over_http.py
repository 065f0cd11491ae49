"""Schedules over HTTP: they are created, listed, paused, run and deleted, each user's for the user alone."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from actors.messages.config import RunConfig
from runtime.driver.runtime import Runtime
from runtime.web import app_for
from tests.support.servers.web_server import TIMEOUT_S


def at(user: str, *parts: str, more: str = "") -> str:
    return "/".join(["/v1/apps/desk/schedules", *parts]) + f"?user={user}{more}"


async def test_a_schedule_from_its_creation_to_its_end(client: httpx2.AsyncClient, user: str, rt: Runtime) -> None:
    body = {"name": "a/b?c", "message": "hi", "cron": "30 8 * * *", "timezone": "Europe/Berlin", "missed": "skip"}
    made = await client.post(at(user), json={**body, "config": {"timeout": 30}})
    place = made.headers["location"]
    assert (made.status_code, place) == (201, at(user, "a%2Fb%3Fc"))
    told = made.json()
    assert {"runConfig", "error", "lastS"} & told.keys() == set()
    assert told == {
        **body,
        "userId": user,
        "sessionId": "a/b?c",
        "message": {"role": "user", "parts": [{"text": "hi"}]},
        "state": "active",
        "nextS": told["nextS"],
    }
    assert rt.schedules.get("a/b?c", user_id=user).run_config == RunConfig(timeout=30)
    assert (await client.get(place)).json() == told
    again = await client.post(at(user), json=body)
    assert (again.status_code, again.json()["type"]) == (409, "ScheduleExistsError")

    paused = (await client.patch(place, json={"paused": True})).json()
    assert (paused["state"], "nextS" in paused) == ("paused", False)
    begun = await client.post(at(user, "a%2Fb%3Fc", "run"))
    assert begun.status_code == 202
    turn = begun.headers["location"].partition("?")[0]
    result = (await client.get(f"{turn}/result?user={user}&wait=30")).json()
    assert (result["state"], result["invocationId"]) == ("finished", begun.json()["invocationId"])
    assert (await client.patch(place, json={"paused": False})).json() == told
    assert (await client.delete(place)).status_code == 204
    missing = await client.get(place)
    assert (missing.status_code, missing.json()["type"]) == (404, "ScheduleNotFoundError")
    assert (await client.post(at(user, "a%2Fb%3Fc", "run"))).status_code == 404


async def test_lists_come_in_pages(client: httpx2.AsyncClient, user: str) -> None:
    for number in range(3):
        await client.post(at(user), json={"name": f"n-{number}", "message": "hi", "everyS": 3_600})
    first = (await client.get(at(user, more="&limit=2"))).json()
    second = (await client.get(at(user, more=f"&limit=2&after={first['next']}"))).json()
    assert [each["name"] for page in (first, second) for each in page["schedules"]] == ["n-0", "n-1", "n-2"]
    assert "next" not in second
    wrong = await client.get(at(user, more="&after=%3F"))
    assert (wrong.status_code, wrong.json()["detail"]) == (400, "after must be the `next` of an earlier page")


@pytest.mark.parametrize(
    ("given", "status", "detail"),
    [
        ({"everyS": 3_600, "cron": "* * * * *"}, 400, "it has cron and every: give one"),
        ({}, 400, "it has no time"),
        ({"cron": "every day"}, 400, "it has 2 fields"),
        ({"cron": "0 8 * * *", "timezone": "Berlin"}, 400, "IANA"),
        ({"at": "2020-01-01T00:00"}, 400, "it has passed"),
        ({"at": 1e300}, 400, "at "),
        ({"everyS": 2**53 - 1}, 400, "a hundred years"),
        ({"everyS": 366 * 86_400 * 50}, 400, "max_schedule_ahead_days"),
        ({"everyS": 1}, 400, "min_schedule_interval_s"),
        ({"everyS": 60, "missed": "never"}, 400, "missed"),
        ({"everyS": 60, "every": 60}, 400, "every"),
        ({"everyS": 60, "message": {"parts": []}}, 400, "message has no parts"),
        ({"everyS": 60, "message": "x" * 70_000}, 413, "a schedule allows"),
    ],
)
async def test_what_is_wrong_is_refused(
    client: httpx2.AsyncClient, user: str, given: dict[str, Any], status: int, detail: str
) -> None:
    refused = await client.post(at(user), json={"name": "n", "message": "hi", **given})
    assert (refused.status_code, detail in refused.text) == (status, True), refused.text
    assert (await client.get(at(user))).json() == {"schedules": []}


async def test_users_may_not_raise_the_limits_of_the_server(rt: Runtime, user: str) -> None:
    from runtime.web import StaticTokens
    from tests.acceptance.web.test_who_may_what import ADA, TOKENS, as_, client_of

    app = app_for(rt, auth=StaticTokens(TOKENS), run_config=RunConfig(timeout=60))
    async with client_of(app) as web:
        body = {"name": user, "message": "hi", "everyS": 60, "config": {"timeout": 61}}
        refused = await web.post("/v1/apps/desk/schedules", json=body, **as_(ADA), timeout=TIMEOUT_S)
        assert (refused.status_code, refused.json()["type"]) == (403, "NotAllowedError")
