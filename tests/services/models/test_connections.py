"""The connections of models' clients to their services: how many there are, and by which way they go."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from actors.errors import ModelServiceError
from runtime.models.fallback import FallbackModel
from runtime.models.registry import ModelPool
from runtime.models.service import ServiceModel
from tests.support.models.model_calls import streamed, whole
from tests.support.servers.certificates import Authority
from tests.support.servers.model_service import MODELS, ModelService

Make = Callable[..., ServiceModel[Any]]

pytestmark = pytest.mark.parametrize("sdk", MODELS)

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
async def make(sdk: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    made: list[ServiceModel[Any]] = []

    def build(url: str, **settings: Any) -> ServiceModel[Any]:
        model = MODELS[sdk](url, api_key="key-of-the-test", **{"retries": 0, **settings})
        assert isinstance(model, ServiceModel)
        made.append(model)
        return model

    yield build
    for model in made:
        await model.aclose()


@pytest.mark.parametrize("at_once", [110, pytest.param(1_500, marks=[pytest.mark.full, pytest.mark.sampled(full=3)])])
async def test_each_call_has_a_connection_at_once_and_they_are_kept_for_the_next_ones(make: Make, at_once: int) -> None:
    with ModelService(together=at_once, pieces=1) as service:
        model = make(service.url)
        for _ in range(2):
            await asyncio.gather(*(whole(model) for _ in range(at_once)))
        # The next may come before a connection has been given back.
        assert (service.calls, service.connections) == (2 * at_once, at_once)
        assert service.most == at_once
        assert model.waiting == 0


async def test_streamed_answers_share_connections_too(make: Make) -> None:
    with ModelService() as service:
        model = make(service.url)
        for _ in range(4):
            partials, last = await streamed(model)
            assert len(partials) == 16
            assert last.content is not None
            assert last.content.text == "word " * 16
        assert service.calls == 4
        # OpenAI's client takes a new one when the end of a stream is not there within 0.1 s of its last event.
        assert service.connections < 4


async def test_requests_take_the_proxy_of_the_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelService() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.replace("//", "//ada:secret@"))
        await whole(make("http://service.invalid"))
        assert proxy.path.startswith("http://service.invalid/")
        assert proxy.headers["Proxy-Authorization"] == "Basic YWRhOnNlY3JldA=="
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        await whole(make(proxy.url))
        assert proxy.path.startswith("/")


async def test_the_service_shows_a_certificate_that_the_environment_trusts(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = Authority(tmp_path / "authority").issue()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)
    with ModelService(tls=tls) as service:
        with pytest.raises(ModelServiceError, match=r"(?i)certificate"):
            await whole(make(service.url))
        assert service.calls == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
        await whole(make(service.url))
        assert service.calls == 1


async def test_a_call_without_a_connection_is_counted_until_it_ends(make: Make) -> None:
    """The other side accepts, and does not go on to speak TLS."""
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    model, pool = make(f"https://{host}:{port}"), ModelPool()
    pool.resolve("clerk", FallbackModel([model, "ollama/llama"]))
    call = asyncio.create_task(whole(model))
    writer = await accepted.get()
    assert pool.waiting() == 1
    call.cancel()
    await asyncio.wait([call])
    assert pool.waiting() == 0
    writer.close()
    await writer.wait_closed()
    server.close()


@pytest.mark.parametrize("status", [429, pytest.param(503, marks=pytest.mark.full)])
async def test_calls_that_are_refused_at_once_all_come_back_when_the_service_said_so(make: Make, status: int) -> None:
    at_once, rest_s = 40, 0.2

    def refuse(number: int) -> tuple[int, dict[str, str]] | None:
        return (status, {"Retry-After": str(rest_s)}) if number <= at_once else None

    with ModelService(refuse=refuse, together=at_once, pieces=1) as service:
        model = make(service.url, retries=1, retry_initial_delay_s=0.1)
        await asyncio.gather(*(whole(model) for _ in range(at_once)))
        assert service.calls == 2 * at_once
        again_s = service.begun_s[at_once:]
        assert min(again_s) >= service.begun_s[0] + rest_s
        # They were refused in the same moment, and do not all come back in one.
        assert len(set(again_s)) > 1


async def test_a_call_does_not_ask_a_service_that_has_told_another_one_to_wait(make: Make) -> None:
    with ModelService(refuse=lambda number: (429, {"Retry-After": "0.3"}) if number == 1 else None) as service:
        model = make(service.url, retries=1, retry_initial_delay_s=0.0)
        with pytest.raises(ModelServiceError):
            await whole(model.once())
        await whole(model)
        assert service.begun_s[1] >= service.begun_s[0] + 0.3
