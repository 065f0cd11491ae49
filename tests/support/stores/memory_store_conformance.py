"""What every memory store must do. Inherit the class and give it a fixture `store` that yields an opened, empty one."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import MemoryEntry
from actors.interfaces.stores import MemoryStore
from actors.messages.session import SessionKey
from tests.support.tries import tries

S1 = SessionKey("shop", "ada", "s1")
S2 = SessionKey("shop", "ada", "s2")
OTHERS = [SessionKey("shop", "bob", "s1"), SessionKey("bakery", "ada", "s1")]

HEALTHY = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
"""An example more in the store harms no other, and every subclass has its own."""

TYPED = [
    '"',
    '""tea',
    'tea" OR owner : "x',
    "'; DROP TABLE raygrove_memory; --",
    "tea*",
    "^tea",
    "tea AND",
    "NOT tea",
    "NEAR(tea green, 2)",
    "words : tea",
    "{words} : tea",
    "tea:A & !green | <->",
    "tea \\",
    "(tea",
    "-tea +green",
    "%_tea%",
    "tea\x00green",
    "OR",
    "\ud800",
]
"""What would mean something to a database that took it for a query."""


def entry(text: str, session_id: str = "s1", at: float = 1.0, author: str = "user") -> MemoryEntry:
    return MemoryEntry(session_id=session_id, author=author, timestamp=at, text=text)


def keep(store: MemoryStore, key: SessionKey, *texts: str) -> None:
    store.add_session(key, [entry(text, key.session, float(place)) for place, text in enumerate(texts)])


def found(store: MemoryStore, query: str, user: str = "ada", limit: int = 10) -> list[str]:
    return [each.text for each in store.search("shop", user, query, limit)]


class MemoryStoreConformance:
    """The contract of `MemoryStore`, sentence by sentence."""

    def test_an_entry_comes_back_as_it_was_kept(self, store: MemoryStore) -> None:
        whole = entry("Green tea,\n\x00 with  milk ☕", at=1.5, author="barista")
        store.add_session(S1, [whole])
        assert store.search("shop", "ada", "milk", 10) == [whole]

    def test_what_has_no_word_in_common_is_not_found(self, store: MemoryStore) -> None:
        keep(store, S1, "I like green tea", "teapots")
        assert found(store, "coffee") == []
        assert found(store, "tea") == ["I like green tea"]

    def test_case_accents_and_marks_make_no_difference(self, store: MemoryStore) -> None:
        keep(store, S1, "Ada drinks Café au lait, STRASSE 7", "write to ada@example.com", "सुप्रभात हिन्दी")
        assert found(store, "CAFE!") == found(store, "straße") == ["Ada drinks Café au lait, STRASSE 7"]
        assert found(store, "(example)") == ["write to ada@example.com"]
        assert found(store, "हिन्दी") == ["सुप्रभात हिन्दी"]

    def test_what_has_more_of_the_query_comes_first(self, store: MemoryStore) -> None:
        keep(store, S1, "the green door is open", "a cup of green tea please", "the blue tea cup stands here", "nothing at all")
        assert found(store, "green tea")[0] == "a cup of green tea please"
        assert sorted(found(store, "green tea")[1:]) == ["the blue tea cup stands here", "the green door is open"]

    def test_of_equals_the_newest_comes_first(self, store: MemoryStore) -> None:
        store.add_session(S1, [entry("old tea", at=1.0), entry("new tea", at=3.0)])
        store.add_session(S2, [entry("mid tea", "s2", at=2.0)])
        assert found(store, "tea") == ["new tea", "mid tea", "old tea"]

    def test_no_more_are_found_than_asked_for(self, store: MemoryStore) -> None:
        keep(store, S1, *(f"tea number {place}" for place in range(20)))
        assert found(store, "tea", limit=3) == ["tea number 19", "tea number 18", "tea number 17"]
        assert found(store, "tea", limit=0) == []

    def test_nobody_finds_what_was_said_to_others(self, store: MemoryStore) -> None:
        keep(store, S1, "adas tea")
        for key in OTHERS:
            keep(store, key, *(f"their tea {place}" for place in range(20)))
        assert found(store, "tea") == ["adas tea"]
        assert found(store, "tea", user="nobody") == []
        assert [each.text for each in store.search("bakery", "bob", "tea", 10)] == []

    def test_a_session_that_is_added_again_replaces_what_was_kept_of_it(self, store: MemoryStore) -> None:
        keep(store, S1, "old tea", "more old tea")
        keep(store, S2, "other tea")
        keep(store, OTHERS[0], "their tea")
        keep(store, S1, "new tea")
        assert sorted(found(store, "tea")) == ["new tea", "other tea"]
        assert found(store, "old") == []
        assert found(store, "tea", user="bob") == ["their tea"]
        store.add_session(S1, [])
        assert found(store, "tea") == ["other tea"]

    def test_a_deleted_session_is_not_found_and_others_are(self, store: MemoryStore) -> None:
        keep(store, S1, "old tea")
        keep(store, S2, "other tea")
        keep(store, OTHERS[0], "their tea")
        store.delete_session(S1)
        store.delete_session(S1)
        assert found(store, "tea old") == ["other tea"]
        assert found(store, "tea", user="bob") == ["their tea"]

    @pytest.mark.parametrize("query", ["", " ", "?!", "...", "\x00", "🍵"])
    def test_a_query_without_words_finds_nothing(self, store: MemoryStore, query: str) -> None:
        keep(store, S1, "tea ?! 🍵")
        assert found(store, query) == []

    @pytest.mark.parametrize("query", TYPED)
    def test_nothing_in_a_query_is_an_operator(self, store: MemoryStore, query: str) -> None:
        keep(store, S1, "green tea", "or and not near words")
        keep(store, OTHERS[0], "their tea")
        expected = [text for text in ("green tea", "or and not near words") if set(text.split()) & words(query)]
        assert sorted(found(store, query)) == expected

    @settings(max_examples=tries(60), suppress_health_check=HEALTHY)
    @given(query=st.text(max_size=40))
    def test_any_text_is_a_query(self, store: MemoryStore, query: str) -> None:
        assert found(store, query, user="typist") == []

    @settings(max_examples=tries(60), suppress_health_check=HEALTHY)
    @given(text=st.text(alphabet=st.characters(categories=["L", "N", "P", "Z", "M"]), max_size=40))
    def test_whatever_was_said_is_found_by_its_own_words(self, store: MemoryStore, text: str) -> None:
        keep(store, S1, f"{text} marker")
        assert found(store, f"{text} marker") == [f"{text} marker"]

    def test_very_long_texts_and_queries_are_taken(self, store: MemoryStore) -> None:
        text = " ".join(f"word{place}" for place in range(200_000))
        keep(store, S1, text, "x" * 50_000)
        assert found(store, text) == [text]

    def test_what_was_kept_lasts(self, store: MemoryStore) -> None:
        keep(store, S1, "green tea")
        store.open()
        assert found(store, "tea") == ["green tea"]


def words(query: str) -> set[str]:
    """The words of a query, for texts of plain letters."""
    return set("".join(char.lower() if char.isalnum() else " " for char in query).split())
