"""A deployment that a real older commit has started goes on with this one: its store is migrated, and no turn is lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from runtime.stores.sql import schema
from runtime.stores.transfer.state import session_store_state
from tests.cluster.upgrades.test_command_upgrade import AGENTS
from tests.support.app_folders import write
from tests.support.polling import until
from tests.support.programs.other_release import OLDER, Release, plain_ray
from tests.support.servers.web_server import TIMEOUT_S

pytestmark = [pytest.mark.full, pytest.mark.timeout(400)]

NAME, OLDER_TABLES = "older", 12


def asked(server: str, session: str, **body: Any) -> httpx2.Response:
    url = f"{server}/v1/apps/{NAME}/sessions/{session}/turns?user=ada"
    return httpx2.post(url, json=body, timeout=4 * TIMEOUT_S)


def states(release: Release, state: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in release.run("turns", NAME, "--state", state, "--json").splitlines()]


def test_turns_of_an_older_commit_go_on_and_its_programs_stay(tmp_path: Path) -> None:
    with plain_ray() as environment:
        environment |= {"RAYGROVE_DATA_DIR": str(tmp_path / "data"), "RAYGROVE_MAX_LIVE_AGENTS": "1"}
        older = Release.of_commit(tmp_path / "older release", OLDER, environment)
        if older is None:
            pytest.skip("git does not have that commit here")
        go_on = tmp_path / "go on"
        write(tmp_path / NAME, {"agent.py": AGENTS.replace("GO_ON", repr(str(go_on))).replace("WORD", NAME)})
        play(older, Release.of_this(tmp_path / "new release", "new", environment), tmp_path, go_on)


def play(older: Release, new: Release, folder: Path, go_on: Path) -> None:
    path, store = str(folder / NAME), f"sqlite:///{folder}/data/{NAME}.db"
    older.run("start", path)
    with older.serving(NAME) as old_server, new.serving(NAME) as new_server, ThreadPoolExecutor() as threads:
        assert "Hi from older." in asked(old_server, "s1", message="hi").text
        assert asked(old_server, "paused", message="ask").status_code == 200
        hanging = threads.submit(asked, new_server, "hangs", message="wait")
        until(lambda: len(states(new, "running")) == 1)
        assert session_store_state(store, NAME).version == OLDER_TABLES

        told = new.run("upgrade", NAME, path, "--dry-run")
        assert f"tables of version {OLDER_TABLES}, then {schema.VERSION}, which the release before refuses" in told
        assert "1 running, 0 waiting in line, 1 paused" in told
        assert session_store_state(store, NAME).version == OLDER_TABLES

        told = new.run("upgrade", NAME, path, "--within", "1s")
        assert "went from an older raygrove, which does not say its release, to raygrove" in told
        assert "1 open turn goes on" in told
        assert session_store_state(store, NAME).version == schema.VERSION

        # The program of this commit has followed its turn; the server of the older one goes on with the next request.
        go_on.touch()
        assert "Done by older." in hanging.result().text
        until(lambda: asked(old_server, "s1", message="hi").status_code == 200)
        (paused,) = states(new, "paused")
        (call,) = paused["pending"]
        answered = new.run("answer", NAME, "paused", call["callId"], '{"yes": true}')
        assert "Done by older." in answered
        assert not states(new, "running")
        assert "nothing was changed" in new.run("upgrade", NAME, "--dry-run")
    new.run("stop", NAME)
