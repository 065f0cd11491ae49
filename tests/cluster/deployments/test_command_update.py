"""`raygrove update`, `rollback` and `history`, on a deployment that other programs have joined."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.errors import UpdateRefusedError
from runtime.driver.runtime import Runtime
from tests.cluster.deployments.test_command_deployments import raygrove
from tests.support.app_folders import fresh_imports, write

pytestmark = pytest.mark.sampled(2, of="module")

NAME = "shop"
AGENTS = """
    from actors import LlmAgent, tool
    from actors.testing import PatternModel

    SUFFIX = "WORD"


    def suffix():
        return SUFFIX


    @tool
    def sell(what: str) -> str:
        \"\"\"Sell something.\"\"\"
        return f"{what} {suffix()}"


    @tool(long_running=True)
    def ask_manager() -> None:
        \"\"\"Ask the manager.\"\"\"


    def model(*steps):
        return PatternModel([*steps, ("tool:sell.*SOLD", "it is sold, SOLD"), ("tool:sell", "it is sold, WORD")], default="hello")


    seller = LlmAgent(
        name="seller", description="Sells.", tools=[sell],
        model=model(("sell", {"call": "sell", "args": {"what": "a chair"}})),
    )
    OTHERS
    root_agent = LlmAgent(
        name="clerk", sub_agents=[seller, *others], tools=[ask_manager],
        model=PatternModel([("sell", {"transfer": "seller"}), ("ask", {"call": "ask_manager"})], default="welcome"),
    )
"""
NO_OTHERS = "others = []"
BOOKKEEPER = 'others = [LlmAgent(name="keeper", description="Keeps books.", model=PatternModel([], default="kept"))]'


def code(folder: Path, word: str, others: str = NO_OTHERS) -> str:
    """Write the app's code. Returns its path."""
    write(folder / NAME, {"agent.py": AGENTS.replace("WORD", word).replace("OTHERS", others)})
    return str(folder / NAME)


@pytest.fixture(scope="module")
def folder(local_ray: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the code is, with which the deployment was started."""
    folder = tmp_path_factory.mktemp("updates")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        patch.setenv("RAY_ADDRESS", local_ray)
        patch.setenv("RAYGROVE_MAX_LIVE_AGENTS", "2")
        with fresh_imports():
            raygrove("start", code(folder, "first"))
        yield folder
        raygrove("stop", NAME)


def update(path: str, *options: str) -> dict[str, object]:
    with fresh_imports():
        (line,) = raygrove("update", NAME, path, "--json", *options).splitlines()
    found: dict[str, object] = json.loads(line)
    return found


def said(rt: Runtime, message: str, session: str) -> str:
    return rt.run(user_id="ada", session_id=session, message=message).result().text


def test_new_code_is_used_by_the_next_turn_and_told_before(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        assert said(rt, "sell", "s1") == "it is sold, first"
        pids = {name: each.pid for name, each in rt.statistics().agents.items()}
        second = code(folder, "second", BOOKKEEPER)
        with fresh_imports():
            told = raygrove("update", NAME, second, "--dry-run")
        assert "would go from version" in told
        assert told.splitlines()[1:] == [
            "  added: keeper",
            "  changed: seller",
            "  defined as before, with others around them: clerk",
        ]
        assert said(rt, "sell", "s2") == "it is sold, first"
        report = update(second)
        assert report["difference"] == {"added": ["keeper"], "changed": ["seller"], "removed": [], "touched": ["clerk"]}
        # The program that has joined before stays up, and so does the process of what has not changed.
        assert said(rt, "sell", "s3") == "it is sold, second"
        assert [agent.name for agent in rt.tree()] == ["clerk", "seller", "keeper"]
        after = {name: each.pid for name, each in rt.statistics().agents.items() if "@" in name}
        assert {name.partition("@")[0] for name in after} == {"clerk", "seller"}
        assert not set(after.values()) & set(pids.values())
        assert f"{NAME} has this tree already" in _again(second)
        assert raygrove("history", NAME).splitlines()[1].split()[1] == "current"


def _again(path: str) -> str:
    with fresh_imports():
        return raygrove("update", NAME, path)


def bring_to_second(folder: Path) -> None:
    """Give the deployment the tree that the first test leaves: the tests may run in processes with deployments of their own."""
    update(code(folder, "second", BOOKKEEPER))


def test_versions_outlive_a_runner_and_a_session_actor_that_are_killed(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        bring_to_second(folder)
        rt.run(user_id="ada", session_id="waits", message="ask", invocation_id="waits").result()
        (call,) = rt.pending(user_id="ada")
        before = rt.versions()[0].id
        report = update(code(folder, "third", BOOKKEEPER))
        seen = rt.statistics()
        for lost in (seen.runner, seen.session):
            os.kill(lost.pid, signal.SIGKILL)
        assert said(rt, "sell", "s4") == "it is sold, third"
        assert rt.turns.list("ada", "s4")[0].version == report["version"]
        turn = rt.answer(call, {"yes": True})
        turn.result()
        assert rt.turns.get("ada", "waits", "waits").version == before
        seen = rt.statistics()
        for lost in (seen.session, seen.runner):
            os.kill(lost.pid, signal.SIGKILL)
        assert rt.rollback().version == before
        assert said(rt, "sell", "s5") == "it is sold, second"


def test_turns_and_usage_are_told_apart_by_version(folder: Path) -> None:
    with Runtime.connect(NAME) as rt:
        bring_to_second(folder)
        said(rt, "sell", "s3")
        report = update(code(folder, "fourth"), "--share", "0.5")
        sessions = [f"share-{number}" for number in range(16)]
        texts = {session: said(rt, "sell", session) for session in sessions}
        assert set(texts.values()) == {"it is sold, second", "it is sold, fourth"}
        version = str(report["version"])
        found = {turn.session_id for turn in rt.turns.list("ada", version=version)}
        assert found == {session for session, text in texts.items() if text.endswith("fourth")}
        lines = raygrove("turns", NAME, "--state", "all", "--version", version, "--json").splitlines()
        assert {json.loads(line)["sessionId"] for line in lines} == found
        used = rt.usage(by="version").groups
        assert used[version].llm_calls == 3 * len(found)
        assert "fourth" not in said(rt, "sell", "s3")
        assert raygrove("rollback", NAME).startswith(f"{NAME} is back at version {report['before']}")


def test_a_call_of_an_agent_that_is_removed_is_answered_only_by_force(folder: Path) -> None:
    renamed = code(folder, "fifth").replace(NAME, NAME)
    text = (folder / NAME / "agent.py").read_text().replace('name="clerk"', 'name="greeter"')
    (folder / NAME / "agent.py").write_text(text)
    with Runtime.connect(NAME) as rt:
        rt.run(user_id="ada", session_id="asks", message="ask").result()
        with pytest.raises(UpdateRefusedError, match="of ask_manager of agent 'clerk'"):
            update(renamed)
        report = update(renamed, "--force")
        assert len(report["answered"]) == 1  # type: ignore[arg-type]
        assert not rt.pending(user_id="ada", session_id="asks")
        assert said(rt, "sell", "s6") == "it is sold, fifth"
