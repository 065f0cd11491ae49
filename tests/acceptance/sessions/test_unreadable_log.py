"""A log with something in it that this program cannot read, such as one that another program has written to."""

from __future__ import annotations

import pytest

from actors import LlmAgent, RunConfig
from actors.errors import RaygroveError, StoreError
from actors.interfaces.stores import AddEvent, EventHead, EventRow
from actors.messages.codec import encode
from actors.messages.session import SessionKey
from actors.testing import PatternModel
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.runtimes import Deploy, author_texts, run_turn

KEY = SessionKey("test", "ada", "s1")


def test_who_follows_a_turn_that_cannot_be_read_is_told_so_and_others_go_on(local: Deploy) -> None:
    agent = LlmAgent(name="root", model=PatternModel([], default="fine"))
    with local(agent) as rt:
        run_turn(rt, "hi", invocation_id="e-1")
    store = SqlSessionStore(f"sqlite:///{local.folder}/sessions.db")
    store.open()
    raw = encode({"id": "x", "invocationId": "e-1", "author": "root", "content": {"parts": [{"text": 7}]}})
    store.commit(
        [AddEvent(KEY, EventRow(seq=3, head=EventHead(id="x", invocation_id="e-1", author="root", timestamp=1.0), raw=raw))]
    )
    store.close()
    with local(agent) as rt:
        with pytest.raises(StoreError, match=r"event 3 of the session cannot be read: .*text"):
            rt.attach(user_id="ada", session_id="s1", invocation_id="e-1").result()
        with pytest.raises(RaygroveError):
            run_turn(rt, "and now?", run_config=RunConfig(timeout=20))
        assert author_texts(run_turn(rt, "hi", "s2")) == [("root", "fine")]
