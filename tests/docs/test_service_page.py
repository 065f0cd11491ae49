"""The commands of the page on HTTP do what it says, one after the other, with its own app."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import raygrove
import runtime.web
from runtime.driver.runtime import Runtime
from runtime.frontends.loading.app import load_app
from runtime.web import Principal, StaticTokens, app_for
from tests.docs.pages import ROOT, Page
from tests.support.app_folders import fresh_imports
from tests.support.runtimes import Deploy
from tests.support.servers.web_server import serving

PAGE = Page(ROOT / "docs" / "service.md")
SHOWN = "http://127.0.0.1:8000"
TOKEN = "a-token-0123456789"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.chdir(tmp_path)
    app = next(block for block in PAGE.blocks if block.info == "python")
    (tmp_path / "desk.py").write_text(app.code)
    with fresh_imports():
        loaded = load_app("desk.py")
        with Deploy("local", tmp_path)(loaded.root, app_name=loaded.name) as rt:  # type: ignore[arg-type]
            yield rt


def test_what_the_page_has_programs_call_can_be_imported() -> None:
    called = set(re.findall(r"\b(\w+)\(…", PAGE.path.read_text()))
    assert {"WebServer", "ConnectionLimits", "BodyLimits", "app_for"} <= called
    assert called - {*runtime.web.__all__, *dir(raygrove)} == set()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_command_of_the_page_does_what_it_says(desk: Runtime) -> None:
    commands = [
        line
        for block in PAGE.blocks
        if block.info == "sh"
        for line in block.code.replace("\\\n", " ").splitlines()
        if line.strip()
    ]
    printed: list[str] = []
    variables = {**os.environ, "TOKEN": TOKEN}
    guarded = app_for(desk, auth=StaticTokens({TOKEN: Principal(user_id="ada")}))
    with serving(app_for(desk)) as url, serving(guarded) as guarded_url:
        for command in commands:
            assert SHOWN in command
            where = guarded_url if "$TOKEN" in command else url
            done = subprocess.run(
                ["bash", "-c", command.replace(SHOWN, where)],
                env=variables,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), command
            printed.append(done.stdout)
            if "/pending" in command:
                variables["CALL_ID"] = json.loads(done.stdout)["calls"][0]["callId"]
    streamed, joined, accepted, paused, pending, answered, sessions = printed
    assert "Order 42 is on its way." in streamed
    for stream in (streamed, joined):
        assert stream.endswith('event: end\ndata: {"invocationId":"order-42","state":"finished"}\n\n')
        assert "id: 2\nevent: event\n" in stream
    assert json.loads(accepted) == {"invocationId": "refund-7"}
    assert json.loads(paused)["pending"] == json.loads(pending)["calls"]
    assert json.loads(answered)["text"] == "Done: 80 euros are yours."
    assert {session["id"] for session in json.loads(sessions)["sessions"]} == {"s1", "s2"}
