"""This release reads what an older one has pickled, and what the older one reads of this one is still there.

Programs that have joined a deployment, and the trees that it keeps, stay when it is upgraded. Where one of these tests fails give
the new attribute a default on its class, or what is older a `__setstate__`; give a field of a message a default, at the end of
those that are lists. If a message means something else raise PROTOCOL, and record the samples anew:
`python -m tests.support.releases.record COMMIT`.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors import LlmAgent
from runtime.cluster.packing.versions import PackedVersion
from tests.support.programs.other_release import Release
from tests.support.releases.compare import missing
from tests.support.releases.record import run_there
from tests.support.releases.samples import Form, forms, samples, unpacked, write

RECORDED = Path(__file__).with_name("recorded")
RELEASES = sorted(each.name for each in RECORDED.iterdir())


def loaded(release: str) -> dict[str, Any]:
    """What a release has pickled, by name."""
    pickled: dict[str, bytes] = pickle.loads((RECORDED / release / "pickled").read_bytes())
    return {name: pickle.loads(raw) for name, raw in pickled.items()}


def parts(found: Mapping[str, Any]) -> dict[str, Any]:
    """Samples, and what processes of agents load of them."""
    version: PackedVersion = found["version"]
    return {**found, **{f"version/{name}": each for name, each in unpacked(version).items()}}


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_release_has_pickled_has_all_that_this_one_looks_for(release: str) -> None:
    older, newer = parts(loaded(release)), parts(samples())
    assert len(older) > 20
    assert [each for name in older for each in missing(older[name], newer[name], name)] == []


READ = """
import pathlib, pickle, sys
from tests.support.releases.compare import missing
from tests.support.releases.samples import samples

newer = pickle.loads(pathlib.Path(sys.argv[1], "pickled").read_bytes())
# Trees are for the processes of a deployment, which are of one release.
for name, own in samples().items():
    if name != "version":
        print(*missing(pickle.loads(newer[name]), own, name), sep="\\n", end="")
"""
"""Tells what the release that runs this looks for in what this one has pickled for programs, and does not find."""


@pytest.mark.full
@pytest.mark.parametrize("release", RELEASES)
def test_programs_of_a_release_find_what_they_look_for_in_what_this_one_pickles(release: str, tmp_path: Path) -> None:
    older = Release.of_commit(tmp_path / "older", release, {})
    if older is None:
        pytest.skip("git does not have that commit here")
    write(tmp_path)
    assert run_there(older, READ, tmp_path) == ""


def differences(older: Mapping[str, Form], newer: Mapping[str, Form]) -> Iterator[str]:
    """Where programs of two releases do not read each other's messages."""
    for name, before in older.items():
        now = newer.get(name)
        if now is None:
            yield f"{name} is gone"
            continue
        if (before.is_list, before.tag) != (now.is_list, now.tag):
            yield f"{name} is encoded otherwise"
        if before.is_list and list(before.fields) != list(now.fields)[: len(before.fields)]:
            yield f"{name} has another order"
        yield from (
            f"{name}.{field} is gone" for field, required in before.fields.items() if required and field not in now.fields
        )
        yield from (
            f"{name}.{field} has to be there"
            for field, required in now.fields.items()
            if required > before.fields.get(field, False)
        )


def recorded_forms(release: str) -> dict[str, Form]:
    """The forms of a release's messages."""
    found = json.loads((RECORDED / release / "encoded.json").read_bytes())
    return {name: Form(**form) for name, form in found.items()}


@pytest.mark.parametrize("release", RELEASES)
def test_programs_of_a_release_and_of_this_one_read_each_others_messages(release: str) -> None:
    assert len(forms()) > 200
    assert list(differences(recorded_forms(release), forms())) == []


def test_the_checks_find_what_another_release_would_miss() -> None:
    whole = LlmAgent(name="a", model="gemini-2.5-flash")
    older = LlmAgent(name="a", model="gemini-2.5-flash")
    del older.__dict__["output_key"]
    assert list(missing({"x": [older]}, {"x": [whole]}, "tree")) == ["tree['x'][0].output_key"]
    first, second = Form(False, "A", {"a": True, "b": False}), Form(True, "", {"a": True, "b": False})
    assert list(differences({"A": first, "B": second}, {"A": first, "B": second})) == []
    assert list(differences({"A": first, "C": second}, {"A": Form(False, "B", {"b": False, "c": True})})) == [
        "A is encoded otherwise",
        "A.a is gone",
        "A.c has to be there",
        "C is gone",
    ]
    assert list(differences({"B": second}, {"B": Form(True, "", {"a": True, "c": False, "b": False})})) == ["B has another order"]
