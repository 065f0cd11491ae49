"""`raygrove serve`: an app from its code, over HTTP."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from actors import LlmAgent
from actors.errors import DefinitionError, RaygroveError, RequestError
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.engine.process.collector import THRESHOLDS, WITHOUT_GARBAGE
from runtime.frontends.web.serving import WebServer
from runtime.settings import Settings
from runtime.web import app_for
from tests.support.app_folders import HELLO, write
from tests.support.console import invoke

pytestmark = pytest.mark.sampled(2, of="module")

TOKEN = "a-token-0123456789"


@pytest.fixture
def app(folder: Path) -> str:
    return str(write(folder / "hello_web", {"agent.py": HELLO}).relative_to(folder))


@contextmanager
def served(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the URL that it prints."""
    command = [str(Path(sys.executable).with_name("raygrove")), "serve", *arguments, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip().partition(" at ")[2]
        finally:
            process.kill()


def test_an_app_is_served_until_it_is_told_to_stop_and_streams_are_told(app: str, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps({TOKEN: {"user_id": "ada"}}))
    with served(app, "--tokens", str(tokens)) as (process, url):
        with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
            done = client.post("/v1/apps/hello_web/sessions/s/turns", json={"message": "hi"})
            assert done.json()["text"] == "Hello, my friend!"
            assert client.get("/v1/apps", headers={"Authorization": "Bearer wrong"}).status_code == 401
            sse = {"Accept": "text/event-stream"}
            with client.stream("GET", "/v1/apps/hello_web/sessions/s/events", headers=sse) as response:
                lines = response.iter_lines()
                assert next(line for line in lines if line.startswith("id:")) == "id: 1"
                process.send_signal(signal.SIGTERM)
                assert "event: bye" in list(lines)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_the_page_of_adk_is_served_from_a_folder_and_the_inspector_unless_it_is_not_wanted(app: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the page")
    with served(app, "--adk-ui", str(tmp_path), "--no-ui") as (_, url):
        assert httpx2.get(url, follow_redirects=True, timeout=30).text == "the page"
        assert httpx2.get(f"{url}/ui/", timeout=30).status_code == 404
    with served(app) as (_, url):
        assert "inspector.js" in httpx2.get(url, headers={"Accept": "text/html"}, follow_redirects=True, timeout=30).text


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["--host", "0.0.0.0"], DefinitionError, "needs credentials"),
        (["--token", "short"], DefinitionError, "16 random ones"),
        (["--tokens", "missing.json"], DefinitionError, "cannot be read"),
        (["--token", TOKEN, "--tokens", "t.json"], RequestError, "give one of"),
        (["--issuer", "i"], RequestError, "go together"),
        (["other", "--app-name", "x"], RequestError, "several paths"),
        (["--join", "--ray"], RequestError, "--join takes names"),
        (["--adk-web"], DefinitionError, "google-adk is not installed"),
        (["--adk-ui", "."], DefinitionError, "there is no page of ADK in '.'"),
        (["--adk-web", "--token", TOKEN], DefinitionError, "sends no credentials"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    app: str, arguments: list[str], error: type[RaygroveError], says: str
) -> None:
    with pytest.raises(error, match=says):
        invoke("serve", app, *arguments)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use_is_told_with_ways_out_before_anything_starts(app: str, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DefinitionError, match=f"port {port} of {host} is in use.* --port {port + 1}, .* --port 0"):
            invoke("serve", app, "--host", host, "--port", str(port))
    assert not Path(".raygrove").exists()


def test_while_it_serves_python_looks_for_garbage_rarely(app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, was_frozen, callbacks = gc.get_threshold(), gc.get_freeze_count() > 0, list(gc.callbacks)
    serving: list[tuple[int, int, int]] = []

    def serve(_: WebServer) -> None:
        serving.append(gc.get_threshold())
        gc.collect(0)
        serving.append(gc.get_threshold())

    monkeypatch.setattr(WebServer, "run", serve)
    try:
        assert invoke("serve", app, "--port", "0").exit_code == 0
    finally:
        gc.set_threshold(*before)
        gc.callbacks[:] = callbacks
        if not was_frozen:
            gc.unfreeze()
    assert serving == [THRESHOLDS, WITHOUT_GARBAGE]


def test_a_server_whose_port_is_taken_while_its_apps_start_says_so(tmp_path: Path) -> None:
    root = LlmAgent(name="root", model=PatternModel([("", "hello")]))
    rt = Runtime(root, app_name="desk", engine="local", settings=Settings(data_dir=tmp_path))
    with rt, socket.create_server(("127.0.0.1", 0)) as other:
        server = WebServer(app_for(rt), "127.0.0.1", other.getsockname()[1])
        with pytest.raises(DefinitionError, match="is in use by another program"):
            server.run()
