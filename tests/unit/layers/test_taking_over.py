"""The trees that the next deployment goes on with after an upgrade."""

from __future__ import annotations

import msgspec

from actors.layers.updates.rules.record import taken_over
from actors.layers.updates.versions import KeptVersion, VersionRecord, VersionShare

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
