"""Versions of a tree: how they differ, which one a turn gets, which actors serve it, and what updates make of the record."""

from __future__ import annotations

import msgspec
import pytest

from actors.errors import RequestError
from actors.layers.updates.rules import (
    MarkedVersion,
    known_still,
    marks_of,
    rolled_back,
    serves_any,
    taken_over,
    tree_difference,
    updated,
    version_for,
)
from actors.layers.updates.versions import PRINT_BYTES, KeptVersion, TreeDifference, TreeVersion, VersionRecord, VersionShare
from actors.messages.session import SessionKey
from actors.messages.topology import AgentNode, Topology

FIRST = VersionRecord(current="v1", kept=(KeptVersion("v1", 1.0),))


def version(name: str, **agents: str) -> TreeVersion:
    """A version whose agents have such fingerprints: of the definition, and of what is around it if that is another."""
    prints = [each.partition("/") for each in agents.values()]
    own = b"".join(one.encode().ljust(PRINT_BYTES) for one, _, _ in prints)
    around = b"".join(f"{one}{more}".encode().ljust(PRINT_BYTES) for one, _, more in prints)
    return TreeVersion(name, Topology.of(AgentNode(name=agent) for agent in agents), own, around)


def kept(name: str, since_s: float = 5.0) -> KeptVersion:
    return KeptVersion(name, since_s)


def key(session: str) -> SessionKey:
    return SessionKey("app", "ada", session)


def test_each_agent_is_in_one_list_of_a_difference() -> None:
    before, after = version("v1", root="a", same="s", gone="g", near="n"), version("v2", root="b", same="s", new="n", near="n/x")
    found = tree_difference(before, after)
    assert found == TreeDifference(added=["new"], changed=["root"], removed=["gone"], touched=["near"])
    assert not tree_difference(before, before)


def test_an_update_makes_its_version_the_current_one_and_keeps_the_one_before() -> None:
    second = updated(FIRST, kept("v2"))
    third = updated(second, kept("v3"))
    assert (second.number, second.current, second.previous, second.ids) == (1, "v2", "v1", ("v1", "v2"))
    assert (third.number, third.current, third.previous, third.ids) == (2, "v3", "v2", ("v2", "v3"))
    # What turns began with that are open stays; what it is called does not change when it comes back.
    assert updated(second, kept("v3"), in_use=["v1"]).ids == ("v1", "v2", "v3")
    assert updated(third, kept("v2", 9.0)).kept == (kept("v2"), kept("v3"))


def test_the_same_version_again_keeps_the_one_before_it() -> None:
    second = updated(FIRST, kept("v2"))
    again = updated(second, kept("v2"))
    assert (again.current, again.previous, again.number) == ("v2", "v1", 2)


def test_a_share_leaves_the_current_version_and_ends_with_the_next_update() -> None:
    shared = updated(FIRST, kept("v2"), 0.1)
    assert (shared.current, shared.share, shared.given) == ("v1", VersionShare("v2", 0.1, 5.0), ("v1", "v2"))
    whole = updated(shared, kept("v2", 7.0))
    assert (whole.current, whole.previous, whole.share) == ("v2", "v1", None)
    other = updated(shared, kept("v3"), 0.2)
    # A turn may have begun by v2 since it was asked which versions are in use.
    assert (other.share, other.ids) == (VersionShare("v3", 0.2, 5.0), ("v1", "v2", "v3"))
    assert updated(other, kept("v4")).ids == ("v1", "v3", "v4")


def test_a_rollback_leads_to_the_version_before_and_back() -> None:
    with pytest.raises(RequestError, match="no version to roll back to"):
        rolled_back(FIRST)
    second = updated(FIRST, kept("v2"))
    back = rolled_back(second)
    assert (back.current, back.previous, back.number) == ("v1", "v2", 2)
    assert (rolled_back(back).current, rolled_back(back).previous) == ("v2", "v1")
    shared = updated(second, kept("v3"), 0.5)
    ended = rolled_back(shared)
    assert (ended.current, ended.previous, ended.share, ended.ids) == ("v2", "v1", None, ("v1", "v2", "v3"))
    assert updated(ended, kept("v4")).ids == ("v2", "v4")


def test_each_version_that_is_kept_plays_one_part() -> None:
    record = updated(updated(updated(FIRST, kept("v2")), kept("v3"), in_use=["v1"]), kept("v4"), 0.1, in_use=["v1"])
    assert [record.state(each) for each in record.ids] == ["kept", "previous", "current", "shared"]


def test_a_share_goes_to_its_part_of_new_sessions_and_stays_with_them() -> None:
    record = updated(FIRST, kept("v2"), 0.1)
    new = [version_for(record, key(f"s{number}"), 6.0) for number in range(2_000)]
    assert 150 < new.count("v2") < 250
    assert new == [version_for(record, key(f"s{number}"), 99.0) for number in range(2_000)]
    assert {version_for(record, key(f"s{number}"), 4.9) for number in range(2_000)} == {"v1"}
    # A larger part takes more sessions in, and leaves none out.
    more = updated(record, kept("v2", 5.0), 0.5)
    assert all(version_for(more, key(f"s{number}"), 6.0) == "v2" for number in range(2_000) if new[number] == "v2")


def test_agents_that_are_the_same_are_served_by_the_actors_that_they_had() -> None:
    first = MarkedVersion(version("v1", a="1", b="1", c="1"), {})
    second = version("v2", a="2", b="1", c="1", d="1")
    marked = MarkedVersion(second, marks_of(second, [first], {}))
    assert marked.marks == {"a": "v2", "d": "v2"}
    third = version("v3", a="2", b="3", c="1")
    assert marks_of(third, [first, marked], {}) == {"a": "v2", "b": "v3"}
    back = version("v4", a="1", b="1", c="1")
    assert marks_of(back, [first, marked], {}) == {}
    assert [serves_any([first, marked], agent, mark) for agent, mark in (("a", ""), ("a", "v2"), ("a", "v3"), ("d", ""))] == [
        True,
        True,
        False,
        False,
    ]


def test_versions_that_are_not_loaded_are_forgotten_but_for_the_first() -> None:
    first = MarkedVersion(version("v1", a="1", b="1"), {})
    second = version("v2", a="2", b="1")
    third = version("v3", a="2", b="3")
    known = [first, MarkedVersion(second, {"a": "v2"}), MarkedVersion(third, {"a": "v2", "b": "v3"})]
    assert known_still(known, ["v3"]) == [known[0], known[2]]
    # What it was called stays.
    assert marks_of(version("v4", a="2", b="1"), known_still(known, ["v3"]), {}) == {"a": "v2"}


def test_agents_that_share_a_process_move_together() -> None:
    first = MarkedVersion(version("v1", top="1", child="1", other="1"), {})
    leaders = {"top": "top", "child": "top"}
    second = version("v2", top="1", child="2", other="1")
    marked = MarkedVersion(second, marks_of(second, [first], leaders))
    assert marked.marks == {"top": "v2", "child": "v2"}
    third = version("v3", top="1", child="2", other="3")
    assert marks_of(third, [first, marked], leaders) == {"top": "v2", "child": "v2", "other": "v3"}


RECORD = VersionRecord(
    number=4,
    current="v2",
    previous="v1",
    share=VersionShare("v3", 0.5, 9.0),
    kept=(KeptVersion("v0", 1.0), KeptVersion("v1", 2.0), KeptVersion("v2", 3.0), KeptVersion("v3", 4.0)),
)


def test_the_same_tree_goes_on_with_all_that_is_taken_over() -> None:
    after = taken_over(RECORD, KeptVersion("v2", 10.0), ["v0", "v1", "v2", "v3"])
    assert after == msgspec.structs.replace(RECORD, number=5)


def test_another_tree_has_the_one_before_as_its_previous_one_and_ends_a_share() -> None:
    after = taken_over(RECORD, KeptVersion("v4", 10.0), ["v0", "v2", "v3"])
    assert (after.current, after.previous, after.share) == ("v4", "v2", None)
    assert after.ids == ("v0", "v2", "v3", "v4")


def test_trees_that_are_not_taken_over_are_named_no_more() -> None:
    after = taken_over(RECORD, KeptVersion("v2", 10.0), [])
    assert (after.ids, after.previous, after.share) == (("v2",), "", None)
    assert taken_over(RECORD, KeptVersion("v4", 10.0), []).previous == ""
