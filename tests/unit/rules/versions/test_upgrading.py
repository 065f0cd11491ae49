"""Which upgrades are refused, and which trees the next deployment goes on with."""

from __future__ import annotations

import msgspec
import pytest

from actors.errors import UpgradeRefusedError
from actors.messages.operating.upgrades import JoinedProgram, NodeRelease, StoreUpgrade, UpgradeReport
from actors.messages.operating.versions import KeptVersion, VersionRecord, VersionShare
from actors.rules.versions.changing import taken_over
from actors.rules.versions.upgrading import upgrade_refusal

STORE = StoreUpgrade(store="session store 'sqlite:///a.db'", before=13, after=13)
PROGRAM = JoinedProgram(program="serve (process 7 on host 'a')", release="raygrove 1 (code aa)", can_stay=True)
NODE = NodeRelease(node="10.0.0.1", release="raygrove 2 (code bb) in /lib", is_new=True)
FOUND = UpgradeReport(
    release_before="raygrove 1 (code aa)",
    release_after="raygrove 2 (code bb)",
    version_before="v1",
    version_after="v1",
    stores=[STORE, msgspec.structs.replace(STORE, before=0)],
    programs=[PROGRAM],
    nodes=[NODE],
)


def found(**changed: object) -> UpgradeReport:
    return msgspec.structs.replace(FOUND, **changed)


def older(store: StoreUpgrade) -> StoreUpgrade:
    return msgspec.structs.replace(store, before=12)


@pytest.mark.parametrize("given", [FOUND, found(stores=[older(STORE)]), found(kept=["v0"]), found(programs=[])])
def test_what_the_new_release_can_go_on_with_is_not_refused(given: UpgradeReport) -> None:
    assert upgrade_refusal(given) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            found(stores=[msgspec.structs.replace(STORE, before=15)]),
            "has version 15 of its tables, and raygrove 2 (code bb) knows",
        ),
        (found(stores=[msgspec.structs.replace(STORE, is_owned=False)]), "runs on another store than session store 'sqlite"),
        (found(nodes=[NODE, msgspec.structs.replace(NODE, node="10.0.0.2", is_new=False)]), "on this node: 10.0.0.2"),
    ],
)
def test_what_would_not_start_is_refused_also_when_it_is_forced(given: UpgradeReport, words: str) -> None:
    for is_forced in (False, True):
        refusal = upgrade_refusal(given, is_forced=is_forced)
        assert refusal is not None
        assert words in str(UpgradeRefusedError("shop", *refusal))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (found(programs=[msgspec.structs.replace(PROGRAM, can_stay=False)] * 5), "serve (process 7 on host 'a') with raygrove 1"),
        (found(programs=[msgspec.structs.replace(PROGRAM, can_stay=False)] * 5), " and 2 more"),
        (found(given_up=["v0"]), "by versions of its tree that cannot be kept: v0"),
    ],
)
def test_what_would_be_left_behind_is_refused_unless_it_is_forced(given: UpgradeReport, words: str) -> None:
    refusal = upgrade_refusal(given)
    assert refusal is not None
    assert words in refusal.reason
    assert upgrade_refusal(given, is_forced=True) is None


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
