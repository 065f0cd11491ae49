"""Locks pin what they install, so that a release of tomorrow changes nothing."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = [Path("requirements.lock"), Path("requirements-dev.lock")]

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[([^\]]*)\])?==", re.MULTILINE)


def pins(lock: Path) -> dict[str, set[str]]:
    """The extras with which a lock pins each package."""
    return {canonicalize_name(name): set(re.findall(r"[\w-]+", extras)) for name, extras in _PIN.findall(lock.read_text())}


def test_what_a_package_needs_with_extras_is_pinned_with_them() -> None:
    # pip looks for the newest release of `package[extra]` where a lock pins only `package`, and installs nothing then.
    missing = []
    for lock in LOCKS:
        pinned = pins(lock)
        assert pinned
        for distribution in distributions():
            if canonicalize_name(distribution.metadata["Name"]) not in pinned:
                continue
            for needed in map(Requirement, distribution.requires or ()):
                name, extras = canonicalize_name(needed.name), {canonicalize_name(extra) for extra in needed.extras}
                is_needed = needed.marker is None or needed.marker.evaluate({"extra": ""})
                if is_needed and name in pinned and not extras <= {canonicalize_name(each) for each in pinned[name]}:
                    missing.append(f"{lock}: {name} without {sorted(extras)}, which {distribution.metadata['Name']} needs")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("file", ["Makefile", "examples/cluster/Dockerfile", "tests/benchmarks/environments.py"])
def test_locks_are_installed_without_a_look_at_newer_releases(file: str) -> None:
    lines = [line for line in Path(file).read_text().splitlines() if "--require-hashes" in line]
    assert lines
    assert all("--no-deps" in line for line in lines), lines
