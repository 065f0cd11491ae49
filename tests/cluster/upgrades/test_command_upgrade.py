"""`raygrove upgrade`, on a deployment that other programs have joined and that has turns under way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from actors import LlmAgent
from actors.errors import (
    ClusterError,
    DeploymentNotFoundError,
    OverloadedError,
    ProtocolMismatchError,
    RequestError,
    StoreError,
    UpgradeRefusedError,
    UpgradingError,
)
from actors.messages.event import now_s
from actors.messages.protocol.base import PROTOCOL
from actors.testing import PatternModel
from runtime.cluster.notices import DeploymentNotice, Notices, Release, UpgradeNotice, this_release
from runtime.driver.runtime import Runtime
from runtime.settings import Settings
from tests.cluster.deployments import test_command_deployments
from tests.cluster.deployments.test_command_deployments import invoke
from tests.support.app_folders import fresh_imports, write
from tests.support.polling import until
from tests.support.servers.web_server import TIMEOUT_S, serving_process

pytestmark = pytest.mark.sampled(2, of="module")

NAME = "grown"
OTHER = Release("9", "f00")

AGENTS = """
    import asyncio
    from pathlib import Path

    from actors import LlmAgent, tool
    from actors.testing import PatternModel


    @tool
    async def wait() -> str:
        \"\"\"Wait until the file is there.\"\"\"
        while not Path(GO_ON).exists():
            await asyncio.sleep(0.05)
        return "went on"


    @tool(long_running=True)
    def ask_manager() -> None:
        \"\"\"Ask the manager.\"\"\"


    model = PatternModel(
        [("tool:", "Done by WORD."), ("wait", {"call": "wait"}), ("ask", {"call": "ask_manager"})], default="Hi from WORD."
    )
    root_agent = LlmAgent(name="desk", model=model, tools=[wait, ask_manager])
"""


@pytest.fixture
def folder(local_ray: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the code of the deployment is, and the file for which its turns wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", local_ray)
    monkeypatch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "1")
    yield tmp_path
    notices().forget_upgrade()
    invoke("stop", NAME)


def notices() -> Notices:
    return Notices(Settings().namespace, NAME)


def code(folder: Path, word: str = "first") -> str:
    """Write the app's code. Returns its path."""
    write(folder / "code" / NAME, {"agent.py": AGENTS.replace("GO_ON", repr(str(folder / "go on"))).replace("WORD", word)})
    return f"code/{NAME}"


def raygrove(*arguments: str) -> str:
    """What the command prints, which has imported nothing yet. Raises its error."""
    with fresh_imports():
        return test_command_deployments.raygrove(*arguments)


def upgrade(*options: str) -> dict[str, object]:
    (line,) = raygrove("upgrade", NAME, "--within", "1s", "--json", *options).splitlines()
    told: dict[str, object] = json.loads(line)
    return told


def refused(*options: str) -> str:
    with pytest.raises(UpgradeRefusedError) as error:
        raygrove("upgrade", NAME, *options)
    return str(error.value)


def said(rt: Runtime, message: str, session: str) -> str:
    return rt.run(user_id="ada", session_id=session, message=message).result().text


def test_turns_that_run_are_paused_or_begin_meanwhile_go_on_and_programs_stay(folder: Path) -> None:
    raygrove("start", code(folder))
    with Runtime.connect(NAME) as rt:
        rt.run(user_id="ada", session_id="paused", message="ask").result()
        (call,) = rt.pending(user_id="ada")
        first = rt.versions()[0].id
        raygrove("update", NAME, code(folder, "second"))
        hanging = rt.run(user_id="ada", session_id="hangs", message="wait", on_leave="continue")
        next(event for event in hanging for _ in event.function_calls())
        report = upgrade()
        assert (report["releaseBefore"], report["releaseAfter"]) == (str(this_release()), str(this_release()))
        assert (report["left"], report["paused"], report["kept"]) == (1, 1, [first])
        (version,) = [each.id for each in rt.versions() if each.state == "current"]
        assert (version, [each.state for each in rt.versions()]) == (report["versionAfter"], ["current", "previous"])
        assert said(rt, "hi", "s1") == "Hi from second."
        # The program has followed its turn from one deployment to the next.
        (folder / "go on").touch()
        result = hanging.result()
        assert result.text == "Done by second."
        # What had come before it stays.
        assert [call.name for event in result.events for call in event.function_calls()] == ["wait"]
        # What is paused goes on by the tree that it began with.
        assert rt.answer(call, {"yes": True}).result().text == "Done by first."
        assert [rt.turns.list("ada", session)[0].version for session in ("paused", "hangs")] == [first, version]
        rt.rollback()
        assert said(rt, "hi", "s2") == "Hi from first."
    assert notices().upgrade() is None


def test_it_has_the_code_of_the_tree_that_new_turns_get_also_after_a_rollback(folder: Path) -> None:
    raygrove("start", code(folder))
    newer = write(folder / "newer" / NAME, {"agent.py": AGENTS.replace("GO_ON", "''").replace("WORD", "second")})
    with Runtime.connect(NAME) as rt:
        first = rt.versions()[0].id
        raygrove("update", NAME, str(newer))
        raygrove("rollback", NAME)
        report = upgrade()
        assert (report["versionBefore"], report["versionAfter"]) == (first, first)
        assert said(rt, "hi", "s1") == "Hi from first."
        # What was told of the other versions goes on with it.
        raygrove("update", NAME, str(newer))
        raygrove("rollback", NAME)
        raygrove("rollback", NAME)
        assert said(rt, "hi", "s1") == "Hi from second."
        upgrade()
        assert said(rt, "hi", "s1") == "Hi from second."

        says = PatternModel([], default="Hi from a program.")
        rt.update(LlmAgent(name="desk", model=says))
        with pytest.raises(RequestError, match=r"no command has told where the code of version \w+ of 'grown' is: give PATH"):
            upgrade()
        assert said(rt, "hi", "s1") == "Hi from a program."
        rt.update(LlmAgent(name="desk", model=says), share=0.5)
        raygrove("update", NAME, str(newer), "--share", "0.5")
        with pytest.raises(RequestError, match="give PATH"):
            upgrade()


def test_calls_while_it_is_away_are_told_when_to_ask_again(folder: Path) -> None:
    raygrove("start", code(folder))
    with Runtime.connect(NAME) as rt:
        deployment = notices().deployment()
        assert deployment is not None
        notices().put(UpgradeNotice(deployment=deployment.deployment, until_s=now_s() + 60))
        hanging = rt.run(user_id="ada", session_id="hangs", message="wait", on_leave="continue")
        next(event for event in hanging for _ in event.function_calls())
        invoke("stop", NAME, "--drain", "--within", "1s")
        for call in (lambda: said(rt, "hi", "s1"), rt.sessions.list):
            with pytest.raises(OverloadedError) as error:
                call()
            assert isinstance(error.value, UpgradingError)
            assert error.value.retry_after_s == 1.0
        # Any start of the app is the one that is waited for.
        raygrove("start", code(folder), "--resume")
        (folder / "go on").touch()
        assert hanging.result().text == "Done by first."
        assert notices().upgrade() is None
        invoke("stop", NAME)
        with pytest.raises(DeploymentNotFoundError):
            said(rt, "hi", "s1")


@pytest.mark.full
def test_a_server_that_has_joined_stays_and_refuses_for_a_moment(folder: Path, local_ray: str) -> None:
    raygrove("start", code(folder))
    with serving_process(NAME, local_ray) as (_, server):
        url = f"{server}/v1/apps/{NAME}/sessions/s1/turns?user=ada"

        def asked() -> httpx2.Response:
            return httpx2.post(url, json={"message": "hi"}, timeout=TIMEOUT_S)

        assert asked().status_code == 200
        upgrade()
        until(lambda: asked().status_code == 200)
        assert httpx2.get(f"{server}/readyz", timeout=TIMEOUT_S).status_code == 200


def test_another_store_is_refused_and_nothing_changes(folder: Path) -> None:
    raygrove("start", code(folder))
    with Runtime.connect(NAME) as rt:
        assert said(rt, "hi", "s1") == "Hi from first."
        assert "runs on another store than session store" in refused("--store", f"sqlite:///{folder}/other.db")
        assert said(rt, "hi", "s1") == "Hi from first."


def test_a_deployment_of_another_protocol_is_refused_by_name(folder: Path) -> None:
    raygrove("start", code(folder))
    told = notices().deployment()
    assert told is not None
    notices().put(DeploymentNotice(deployment=told.deployment, release=OTHER, protocol=PROTOCOL + 1))
    with pytest.raises(ProtocolMismatchError, match="start this program with the other release"):
        Runtime.connect(NAME).start()
    assert "Drain it with that release" in refused(code(folder))
    notices().put(told)


def test_where_the_next_one_does_not_start_the_error_says_what_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raygrove("start", code(folder))
    with Runtime.connect(NAME) as rt:
        rt.run(user_id="ada", session_id="paused", message="ask").result()
        (call,) = rt.pending(user_id="ada")
        with monkeypatch.context() as patch:
            patch.setattr("runtime.driver.upgrade.RETRY_S", 0.0)
            patch.setattr("runtime.cluster.deployment.engine.RayEngine.wait_for_replies", _fail)
            with pytest.raises(
                ClusterError, match=r"has stopped, and raygrove .* did not start it: no room\. Nothing that is stored is lost"
            ):
                raygrove("upgrade", NAME)
        with pytest.raises(DeploymentNotFoundError):
            said(rt, "hi", "s1")
        first = raygrove("start", code(folder, "second"))
        assert first.startswith(f"{NAME} runs on the Ray at")
        # The trees that the upgrade has left are still there.
        assert rt.answer(call, {"yes": True}).result().text == "Done by first."


async def _fail(_: object) -> None:
    raise StoreError("no room")


def test_a_path_is_needed_where_none_was_told_and_a_successor_that_is_no_other(folder: Path) -> None:
    raygrove("start", code(folder))
    with Runtime.connect(NAME) as rt:
        with pytest.raises(RequestError, match="must be a Runtime with detached=True"):
            rt.upgrade(rt)
        told = notices().deployment()
        assert told is not None
        notices().forget_deployment(told.deployment)
        with pytest.raises(RequestError, match="give PATH"):
            raygrove("upgrade", NAME)
        assert upgrade(code(folder))["releaseBefore"] == ""
