"""The notes of several processes are one history, up to where one of them was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import Event
from tests.model.journal import Journal, read_history


def test_what_processes_note_is_read_in_real_order_without_a_note_that_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    ask = journal.ask("run", program="p", user="ada", session="s1")
    journal.name(ask, "e-1")
    with monkeypatch.context() as in_another_process:
        in_another_process.setattr("os.getpid", lambda: 0)
        journal.end_tool(journal.begin_tool("call-1"))
        journal.begin_tool("call-2")
    journal.hear(ask, Event(author="root", invocation_id="e-1"))
    journal.end(ask, "Finished")
    notes = tmp_path / "0.notes"
    notes.write_bytes(notes.read_bytes()[:-1])
    history = read_history(tmp_path)
    [read], [run] = history.asks, history.tools
    assert (read.turn, read.ended, [event.author for event in read.events]) == ("e-1", "Finished", ["root"])
    assert read.began < run.began < run.ended < read.heard[0][0]
