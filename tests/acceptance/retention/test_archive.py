"""Old events of long sessions are moved into an archive, from which everything is read as before."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors import Content, Event, LlmAgent, LlmRequest, LlmResponse
from actors.errors import RequestError
from actors.interfaces.stores import AddEvent, CreateSession, EventHead, EventRow, PutTurn, TurnRow, Write
from actors.messages.codec import encode
from actors.messages.event import USER
from actors.messages.protocol.runs import Finished
from actors.messages.session import SessionKey
from runtime.driver.runtime import Runtime
from runtime.engine.retention import ArchivedEvents
from runtime.frontends.console import cli
from runtime.stores.sql.sessions import SqlSessionStore
from runtime.stores.transfer.tables import WholeStore, copy_store
from tests.support.inside import KEPT
from tests.support.runtimes import Deploy, run_turn
from tests.support.sharded_runtimes import SHARDS, ShardedDeploy, one_session_per_shard, own_tables

TURNS = 200
OLD_EVENTS = 2 * TURNS - KEPT
DAY_S = 86_400


class CountingModel:
    """A model that answers with the number of contents in its request, and the first and the last of them."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        contents = request.contents
        told = f"{len(contents)}: {contents[0].text} … {contents[-1].text}"
        yield LlmResponse(content=Content.of_text(told, role="model"))


def counting() -> LlmAgent:
    return LlmAgent(name="root", model=CountingModel())


def write_old_session(url: str, session: str = "long", user: str = "ada") -> None:
    """A session of many turns that were 100 days ago. No Runtime may be using the store."""
    key, at_s = SessionKey("test", user, session), time.time() - 100 * DAY_S
    writes: list[Write] = [CreateSession(key, at_s)]
    for turn in range(TURNS):
        said = ((USER, f"question {turn} of {session}"), ("root", f"answer {turn}: {'so it is. ' * 20}"))
        for place, (author, text) in enumerate(said, 1):
            content = Content.of_text(text, role=USER if author == USER else "model")
            event = Event(id=f"{turn}-{author}", invocation_id=f"e-{turn}", author=author, timestamp=at_s + turn, content=content)
            head = EventHead(id=event.id, invocation_id=event.invocation_id, author=author, timestamp=event.timestamp)
            writes.append(AddEvent(key, EventRow(seq=2 * turn + place, head=head, raw=encode(event))))
        row = TurnRow(
            invocation_id=f"e-{turn}",
            status="finished",
            epoch=1,
            first_seq=2 * turn + 1,
            opened_seq=2 * turn + 1,
            agent="root",
            outcome=encode(Finished(agent="root")),
            last_seq=2 * turn + 2,
            begun_s=at_s + turn,
            ended_s=at_s + turn,
        )
        writes.append(PutTurn(key, row, at_s + turn))
    store = SqlSessionStore(url)
    store.open()
    store.commit(writes)
    store.close()


def seen(rt: Runtime, session: str = "long") -> Any:
    found = rt.sessions.get("ada", session)
    assert found is not None
    return (
        found.events,
        rt.sessions.get("ada", session, num_recent_events=KEPT + 10),
        rt.sessions.events("ada", session, after_seq=50, limit=200),
        rt.sessions.events("ada", session, before_seq=300, limit=250, newest_first=True),
        [rt.turns.get("ada", session, f"e-{turn}").state for turn in (0, 7, TURNS - 1)],
    )


def test_a_session_is_read_goes_on_and_is_rewound_as_before(deploy: Deploy, tmp_path: Path) -> None:
    write_old_session(f"sqlite:///{tmp_path}/sessions.db")
    with deploy(counting()) as rt:
        before = seen(rt)
        assert len(before[0]) == 2 * TURNS
        assert rt.sessions.archive(timedelta(days=101)) == ArchivedEvents(sessions=0, events=0)
        assert rt.sessions.archive(timedelta(days=90), user_id="bob") == ArchivedEvents(sessions=0, events=0)
        counted = ArchivedEvents(sessions=1, events=OLD_EVENTS)
        assert rt.sessions.archive(90 * DAY_S, dry_run=True) == counted
        assert rt.sessions.archive(90 * DAY_S) == counted
        assert seen(rt) == before
    with deploy(counting()) as rt:
        assert seen(rt) == before
        told = run_turn(rt, "and now?", "long")[0].text
        assert told == f"{2 * TURNS + 1}: question 0 of long … and now?"
        assert rt.sessions.archive(90 * DAY_S) == ArchivedEvents(sessions=1, events=2)
        # Asked for once more, an archived turn is joined and not repeated.
        again = rt.run(user_id="ada", session_id="long", message="question 7 of long", invocation_id="e-7").result()
        assert again.text.startswith("answer 7:")
        rt.sessions.rewind("ada", "long", "e-2")
        assert run_turn(rt, "and now?", "long")[0].text == "5: question 0 of long … and now?"
        rt.sessions.delete("ada", "long")
        assert rt.sessions.get("ada", "long") is None
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        assert connection.execute("SELECT count(*) FROM raygrove_archive").fetchall() == [(0,)]


async def test_others_talk_and_a_reader_reads_while_events_are_archived(local: Deploy, tmp_path: Path) -> None:
    for number in range(4):
        write_old_session(f"sqlite:///{tmp_path}/sessions.db", f"s{number}")
    async with local(counting()) as rt:
        archiving = asyncio.create_task(rt.aio.sessions.archive(timedelta(days=90)))
        while not archiving.done():
            answers = [rt.run(user_id="ada", session_id=f"s{number}", message="hi") for number in range(4)]
            for number, answer in enumerate(answers):
                assert (await answer).text.endswith(f"question 0 of s{number} … hi")
            found = await rt.aio.sessions.get("ada", "s0")
            assert found is not None
            assert [event.seq for event in found.events] == list(range(1, len(found.events) + 1))
        assert (await archiving).sessions == 4


def test_an_archive_goes_with_its_store_to_postgres_and_back(local: Deploy, server: str, tmp_path: Path) -> None:
    write_old_session(f"sqlite:///{tmp_path}/sessions.db")
    with local(counting()) as rt:
        before = seen(rt)
        rt.sessions.archive(timedelta(days=90))
    url = own_tables(server)
    copy_store(WholeStore(f"sqlite:///{tmp_path}/sessions.db"), WholeStore(url))
    with local(counting(), session_store=url) as rt:
        assert seen(rt) == before
    file = f"{tmp_path}/lines.jsonl"
    for step in (("export", file, "--store", url), ("import", file, "--store", f"sqlite:///{tmp_path}/back.db")):
        assert CliRunner().invoke(cli.app, ("store", *step)).exception is None
    with local(counting(), session_store=f"sqlite:///{tmp_path}/back.db") as rt:
        assert seen(rt) == before
    saved = CliRunner().invoke(cli.app, ("store", "backup", f"{tmp_path}/saved.db", "--store", f"sqlite:///{tmp_path}/back.db"))
    assert saved.exception is None
    with local(counting(), session_store=f"sqlite:///{tmp_path}/saved.db") as rt:
        assert seen(rt) == before


def test_all_session_actors_archive_their_own(server: str, tmp_path: Path) -> None:
    deploy = ShardedDeploy("local", tmp_path, server)
    with deploy(counting()):
        pass
    sessions = one_session_per_shard("test", "ada", SHARDS)
    for session in sessions:
        write_old_session(deploy.url, session)
    with deploy(counting()) as rt:
        before = [seen(rt, session) for session in sessions]
        counted = ArchivedEvents(sessions=SHARDS, events=SHARDS * OLD_EVENTS)
        assert rt.sessions.archive(timedelta(days=90), dry_run=True) == counted
        assert rt.sessions.archive(timedelta(days=90)) == counted
        assert [seen(rt, session) for session in sessions] == before


def pages_used(folder: Path) -> int:
    """The pages of the database that hold something."""
    with closing(sqlite3.connect(folder / "sessions.db")) as connection:
        [(pages,)], [(free,)] = (
            connection.execute("PRAGMA page_count").fetchall(),
            connection.execute("PRAGMA freelist_count").fetchall(),
        )
    return int(pages - free)


def test_the_command_archives_a_stopped_app_whose_store_then_needs_less_room(local: Deploy, tmp_path: Path) -> None:
    write_old_session(f"sqlite:///{tmp_path}/sessions.db")
    before = pages_used(tmp_path)
    here = ("--app", "test", "--store", f"sqlite:///{tmp_path}/sessions.db", "--older-than", "90d")
    for more in (("--dry-run",), ()):
        done = CliRunner().invoke(cli.app, ("store", "archive", *here, *more))
        assert done.exception is None
        assert done.output.split()[-4:] == ["sessions", "1", "events", f"{OLD_EVENTS}"]
    assert pages_used(tmp_path) < before
    with local(counting()) as rt:
        assert len(seen(rt)[0]) == 2 * TURNS
        refused = CliRunner().invoke(cli.app, ("store", "archive", *here))
        assert "rt.sessions.archive in its program" in str(refused.exception)
        with pytest.raises(RequestError, match="older_than must be"):
            rt.sessions.archive(0)
