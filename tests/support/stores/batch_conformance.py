"""What a store of batches must do. Inherit the class and give it a fixture `store` that yields an opened one."""

from __future__ import annotations

from actors.layers.stores import parts
from actors.layers.stores.batch import BatchInfo, BatchItem
from actors.layers.stores.records import ForgetBatches, PutBatch
from actors.messages.session import SessionKey
from runtime.stores.sql.sessions import SqlSessionStore

APP, OTHER = SessionKey("app", "", ""), SessionKey("other", "", "")
MOST = 10_000


def batch(number: int) -> BatchInfo:
    """A batch that began at second `number`."""
    return BatchInfo(id=f"b{number}", kind="map", name="m", begun_s=float(number), updated_s=float(number))


def item(position: int, user: str = "ada", at_s: float = 1.5) -> BatchItem:
    """An item that has failed."""
    return BatchItem(position=position, name="x", user_id=user, at_s=at_s, error="E: no")


def positions(store: SqlSessionStore, batch_id: str, after: int = -1, limit: int = MOST) -> list[int]:
    """The positions of a batch's items."""
    return [each.position for each in store.batch_items("app", batch_id, after=after, limit=limit)]


class BatchConformance:
    def test_a_batch_is_replaced_and_its_items_are_added(self, store: SqlSessionStore) -> None:
        later = BatchInfo(id="b1", kind="evaluation", name="e", begun_s=1.0, updated_s=5.0, total=3, scores={"m": 0.5})
        store.commit([PutBatch(APP, batch(1), [item(0), item(1)]), PutBatch(OTHER, batch(1))])
        store.commit([PutBatch(APP, later, [item(1), item(2, "bob")])])
        assert (store.batches("app", limit=9), store.batches("other", limit=9)) == ([later], [batch(1)])
        assert store.batches("app", "b1", limit=9) == [later]
        assert store.batches("app", "b2", limit=9) == []
        assert store.batch_items("app", "b1", after=-1, limit=9) == [item(0), item(1), item(2, "bob")]
        assert (positions(store, "b1", after=0), positions(store, "b1", limit=1)) == ([1, 2], [0])
        assert store.batch_items("other", "b1", after=-1, limit=9) == []

    def test_the_newest_batches_are_kept_and_a_repeated_write_changes_nothing(self, store: SqlSessionStore) -> None:
        assert parts.MAX_BATCHES == 1_000
        made = [batch(number) for number in range(1_003)]
        for _ in range(2):
            store.commit([PutBatch(APP, each, [item(0)]) for each in made])
        store.commit([PutBatch(OTHER, made[0])])
        assert [each.id for each in store.batches("app", limit=MOST)] == [each.id for each in reversed(made[3:])]
        assert (positions(store, "b2"), positions(store, "b3")) == ([], [0])
        assert store.batches("other", limit=9) == [made[0]]

    def test_items_go_with_their_user_and_all_goes_by_age(self, store: SqlSessionStore) -> None:
        store.commit([PutBatch(APP, batch(1), [item(0, at_s=1.0), item(1, "bob", at_s=2.0)])])
        store.commit(
            [PutBatch(APP, batch(3), [item(0, at_s=3.0), item(1, "bob", at_s=4.0)]), PutBatch(OTHER, batch(1), [item(0)])]
        )
        store.commit([ForgetBatches(APP, user="ada")])
        assert (positions(store, "b1"), positions(store, "b3")) == ([1], [1])
        store.commit([ForgetBatches(APP, user="bob", before_s=3.0)])
        assert (positions(store, "b1"), positions(store, "b3"), len(store.batches("app", limit=9))) == ([], [1], 2)
        store.commit([ForgetBatches(APP, before_s=2.0)] * 2)
        assert ([each.id for each in store.batches("app", limit=9)], positions(store, "b3")) == (["b3"], [1])
        store.commit([ForgetBatches(APP)])
        assert (store.batches("app", limit=9), positions(store, "b3")) == ([], [])
        assert len(store.batch_items("other", "b1", after=-1, limit=9)) == 1
