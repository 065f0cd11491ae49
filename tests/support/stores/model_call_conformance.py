"""What a store of model calls must do. Inherit the class and give it a fixture `store` that yields an opened one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import func, select

from actors import Content, LlmRequest
from actors.interfaces.stores import CreateSession, HideEvents, RemoveSession
from actors.layers.recording.rules import RequestPacker, reachable, unpacked
from actors.layers.stores.parts import SessionStore
from actors.layers.stores.records import AddModelCall, DeleteModelCalls, ModelCallRow
from actors.messages.codec import decode, encode
from actors.messages.protocol.log import PackedCall
from actors.messages.session import SessionKey
from runtime.stores.sql.schema import model_call_parts
from runtime.stores.sql.sessions import SqlSessionStore
from tests.support.stores.store_writes import APP, OTHER, S1, S2, event, turn

LATER = 10**9


def conversation(count: int) -> list[LlmRequest]:
    """The requests of a conversation, each with one content more."""
    contents = [Content.of_text(f"text {number}") for number in range(count)]
    return [LlmRequest(contents=contents[: number + 1], config={"system_instruction": "hi"}) for number in range(count)]


def calls(key: SessionKey, requests: Sequence[LlmRequest], *, invocation_id: str = "e-1", first: int = 1) -> list[AddModelCall]:
    """The writes of model calls, as one run makes them; the call number n began at second n, with event n."""
    packer, made = RequestPacker(10**6), []
    for number, request in enumerate(requests, first):
        packed, parts = packer.packed(request)
        call = PackedCall(id=f"id-{number}", agent="root", begun_s=float(number), ended_s=number + 0.5, request=packed)
        row = ModelCallRow(id=call.id, invocation_id=invocation_id, seq=number, begun_s=call.begun_s, raw=encode(call))
        made.append(AddModelCall(key, row, parts))
    return made


def read(store: SessionStore, key: SessionKey, invocation_id: str = "e-1") -> list[bytes]:
    """The requests of a turn, put together again, as bytes."""
    packed = [decode(row.raw, PackedCall).request for row in store.model_calls(key, invocation_id, limit=LATER)]
    requests = [each for each in packed if each is not None]
    digests = reachable(requests, lambda some: store.model_call_parts(key, some))
    parts = store.model_call_parts(key, sorted(digests))
    return as_bytes([unpacked(each, parts) for each in requests])


def as_bytes(requests: Sequence[LlmRequest]) -> list[bytes]:
    """Requests that can be compared: one may have its tools in a list, another in a tuple."""
    return [encode(each) for each in requests]


class ModelCallConformance:
    def test_calls_come_back_in_order_with_all_parts(self, store: SqlSessionStore) -> None:
        requests = conversation(70)
        store.commit([CreateSession(S1, 1.0), CreateSession(OTHER, 1.0), event(S1, 1), *calls(S1, requests)])
        store.commit(calls(OTHER, conversation(2)))
        assert read(store, S1) == as_bytes(requests)
        assert len(read(store, OTHER)) == 2
        assert store.model_calls(S1, "e-2", limit=9) == store.model_calls(S2, "e-1", limit=9) == []
        found = store.model_calls(S1, "e-1", limit=9)
        assert [row.id for row in found] == [f"id-{number}" for number in range(1, 10)]
        rest = store.model_calls(S1, "e-1", after=(found[-1].begun_s, found[-1].id), limit=LATER)
        assert [row.seq for row in [*found, *rest]] == list(range(1, 71))

    def test_what_is_there_already_stays_as_it_is(self, store: SqlSessionStore) -> None:
        writes = calls(S1, conversation(3))
        store.commit([CreateSession(S1, 1.0), *writes])
        before = store.model_calls(S1, "e-1", limit=9)
        other = msgspec.structs.replace(writes[0].row, raw=b"another")
        store.commit([*writes, AddModelCall(S1, other, [*writes[0].parts, *writes[0].parts]), event(S1, 1), turn(S1)])
        assert store.model_calls(S1, "e-1", limit=9) == before
        assert read(store, S1) == as_bytes(conversation(3))

    def test_old_calls_are_deleted_and_what_younger_ones_need_stays(self, store: SqlSessionStore) -> None:
        requests = [*conversation(40), LlmRequest(contents=[Content.of_text("text 3"), Content.of_text("alone")])]
        store.commit([CreateSession(S1, 1.0), CreateSession(S2, 1.0), *calls(S1, requests), *calls(S2, requests[:2])])
        assert sorted(store.sessions_with_old_calls(APP, 3.0, limit=9)) == [S1, S2]
        assert store.sessions_with_old_calls(APP, 1.0, limit=9) == store.sessions_with_old_calls("none", 9.0, limit=9) == []
        store.commit([DeleteModelCalls(S1, 40.0), DeleteModelCalls(SessionKey(APP, "no", "one"), 40.0)])
        assert read(store, S1) == as_bytes(requests[39:])
        assert len(read(store, S2)) == 2
        store.commit([DeleteModelCalls(S1, 41.0)])
        assert read(store, S1) == as_bytes(requests[40:])
        # Of the long conversation nothing is left but what the last request has, too.
        assert self.parts(store) == 2 + 4
        store.commit([DeleteModelCalls(S1, 99.0)])
        assert self.parts(store) == 4
        assert store.sessions_with_old_calls(APP, 99.0, limit=9) == [S2]

    def test_calls_go_with_their_session_and_with_events_that_are_hidden(self, store: SqlSessionStore) -> None:
        requests = conversation(4)
        events = [event(S1, number) for number in range(1, 5)]
        store.commit([CreateSession(S1, 1.0), *events, *calls(S1, requests)])
        store.commit([HideEvents(S1, 3, 4)])
        assert read(store, S1) == as_bytes(requests[:2])
        assert self.parts(store) == 4
        store.commit([RemoveSession(S1)])
        assert (read(store, S1), self.parts(store)) == ([], 0)

    def parts(self, store: SqlSessionStore) -> int:
        """How many parts there are, of all sessions."""
        [(count,)] = store._database.rows(select(func.count()).select_from(model_call_parts), {})
        return int(count)
