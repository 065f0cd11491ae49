"""Many and long sessions: agents see all that they should, in memory that does not grow with the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from actors import (
    Content,
    Event,
    FunctionResponse,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    Part,
    SequentialAgent,
)
from actors.interfaces.transport import EarlyReply
from actors.layers.rewinds import RewindRequest
from actors.messages import protocol as p
from actors.messages.codec import encode
from actors.messages.config import KIB, MIB
from actors.messages.event import USER
from actors.rules.prompt import history as contents
from actors.testing import ScriptedModel
from runtime.driver.runtime import Runtime
from runtime.engine.local import LocalLink
from runtime.settings import Settings
from tests.benchmarks.workloads import APP, ROOT, SENTENCE, write_history
from tests.support.any_message import decode_message
from tests.support.fixtures.log_events import shown
from tests.support.runtimes import Deploy, run_turn

pytestmark = pytest.mark.sampled(2, of="module")

LONG = 5_000


class CountingModel:
    """A model that answers with the number of contents in its request, and the first of them."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        told = f"{len(request.contents)}: {request.contents[0].text}"
        yield LlmResponse(content=Content.of_text(told, role="model"))


def counts_of(rt: Runtime, agent: str) -> Mapping[str, int]:
    return rt.statistics().agents[agent].counts


def test_views_of_sessions_that_are_not_used_go_and_are_made_again_when_they_are(tmp_path: Path) -> None:
    settings = Settings(max_cache_bytes=128 * KIB)
    with Deploy("local", tmp_path)(LlmAgent(name="root", model=CountingModel()), settings=settings) as rt:
        for number in range(60):
            assert run_turn(rt, "x" * 10_000, f"s{number}")[0].text[:4] == "1: x"
        counts = counts_of(rt, "root")
        assert counts["views"] < 12
        assert counts["bytes_of_views"] <= settings.max_cache_bytes
        for number in (0, 59):
            assert run_turn(rt, "again", f"s{number}")[0].text[:4] == "3: x"


def test_agents_of_one_process_share_the_memory_for_what_they_know_of_sessions(tmp_path: Path) -> None:
    # Room for what all four know of one session: by the last of them it has five events, and that one may know its own as well.
    room = 168 * KIB
    # Half of it is for the Session actor.
    settings = Settings(max_cache_bytes=2 * room)
    children = [LlmAgent(name=f"a{number}", model=CountingModel()) for number in range(4)]
    root = SequentialAgent(name="root", sub_agents=children)
    with Deploy("local", tmp_path)(root, settings=settings) as rt:
        for number in range(20):
            run_turn(rt, "x" * 10_000, f"s{number}")
        seen = rt.statistics().agents
        sizes = [seen[child.name].counts["bytes_of_views"] for child in children]
        assert sum(sizes) <= room
        assert min(sizes) > 0
        (said,) = (event.text for event in run_turn(rt, "again", "s0") if event.author == "a0")
        assert said[:4] == "6: x"


@pytest.mark.parametrize("include", ["default", "none"])
def test_a_long_session_is_served_page_by_page(tmp_path: Path, include: Literal["default", "none"]) -> None:
    write_history(tmp_path, {"s1": LONG, "s2": LONG})
    root = LlmAgent(name=ROOT, model=CountingModel(), include_contents=include)
    sees_all = include == "default"
    with Deploy("local", tmp_path)(root, app_name=APP, settings=Settings(max_cache_bytes=MIB)) as rt:
        for turn in range(2):
            said = run_turn(rt, f"{turn}", "s1", USER)[0].text
            assert said == (f"{LONG + 2 * turn + 1}: {SENTENCE}" if sees_all else f"1: {turn}")
            assert rt.statistics().session.counts["bytes_in_memory"] < 200 * KIB
            # The cache never evicts the only session in it, however long.
            assert counts_of(rt, ROOT)["views"] == 1
        size = counts_of(rt, ROOT)["bytes_of_views"]
        assert size > LONG * 500 if sees_all else size < 8 * KIB
        run_turn(rt, "hello", "s2", USER)
        assert counts_of(rt, ROOT)["views"] == (1 if sees_all else 2)


def test_an_answer_to_a_question_that_was_asked_long_ago_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "WAITED_FOR", 0)

    def ask() -> None:
        """Ask an agent."""

    model = ScriptedModel([{"call": "ask", "id": "c1"}, "one", "two", "so it is"])
    root = LlmAgent(name="root", model=model, include_contents="none", tools=[LongRunningFunctionTool(ask)])
    with Deploy("local", tmp_path)(root) as rt:
        run_turn(rt, "May I?")
        run_turn(rt, "Meanwhile")
        run_turn(rt, "And now?")
        assert counts_of(rt, "root")["bytes_of_views"] < 7 * KIB
        run_turn(rt, Content(parts=[Part(function_response=FunctionResponse(id="c1", name="ask", response={"result": "yes"}))]))
        answered = [("model", ["<call ask c1>"]), ("user", ["<resp ask c1 yes>"])]
        whole = [("user", ["May I?"]), ("user", ["Meanwhile"]), ("model", ["one"]), ("user", ["And now?"]), ("model", ["two"])]
        assert shown(list(model.requests[-1].contents)) == [*whole, *answered]
        # It is evicted again once it is no longer needed.
        assert counts_of(rt, "root")["views"] == 1


def test_a_long_session_is_read_in_messages_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_history(tmp_path, {"s1": LONG})
    replies: list[int] = []
    send = LocalLink.send

    async def measured(link: LocalLink, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
        reply = await send(link, raw, once=once, early=early)
        replies.append(len(reply))
        return reply

    with Deploy("local", tmp_path)(LlmAgent(name=ROOT, model=CountingModel()), app_name=APP) as rt:
        monkeypatch.setattr(LocalLink, "send", measured)
        session = rt.sessions.get(USER, "s1")
        assert session is not None
        assert [event.seq for event in session.events] == list(range(1, LONG + 1))
        assert max(replies) < sum(replies) / 4
        late = session.events[LONG // 2].timestamp
        since = rt.sessions.get(USER, "s1", after_timestamp=late)
        assert since is not None
        assert [event.seq for event in since.events] == [event.seq for event in session.events if event.timestamp >= late]
        newest = rt.sessions.get(USER, "s1", num_recent_events=3)
        assert newest is not None
        assert newest.events == session.events[-3:]
        assert newest.state == session.state


async def test_a_session_that_is_rewound_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send = LocalLink.send
    async with Deploy("local", tmp_path)(LlmAgent(name=ROOT, model=CountingModel()), app_name=APP) as rt:
        first = (await rt.run(user_id=USER, session_id="s1", message="hi")).invocation_id
        for _ in range(40):
            await rt.aio.sessions.append_event(USER, "s1", Event(author=USER, content=Content.of_text("x" * 200_000)))
        rewound = False

        async def rewinding(link: LocalLink, raw: bytes, *, once: bool = False, early: EarlyReply | None = None) -> bytes:
            nonlocal rewound
            reply = await send(link, raw, once=once, early=early)
            message = decode_message(raw)
            if isinstance(message, p.GetSessionRequest) and not rewound:
                rewound = True
                await send(link, encode(RewindRequest(key=message.key, invocation_id=first)))
            return reply

        monkeypatch.setattr(LocalLink, "send", rewinding)
        after = await rt.aio.sessions.get(USER, "s1")
        assert after is not None
        assert [event.actions.rewind_before_invocation_id for event in after.events] == [first]
