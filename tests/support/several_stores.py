"""Deployments of several stores, and users that are in a store by choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.layers.placing.rules import home_of

APP = "test"


def store_files(folder: Path, number: int) -> list[str]:
    """URLs of so many SQLite stores."""
    return [f"sqlite:///{folder}/store-{each}.db" for each in range(number)]


def users_at(store: int, of: int, number: int = 1) -> list[str]:
    """So many users whose home is a store."""
    found: list[str] = []
    at = 0
    while len(found) < number:
        if home_of(APP, f"user-{at}", of) == store:
            found.append(f"user-{at}")
        at += 1
    return found


def moved_home(before: int, of: int, but: str = "") -> str:
    """A user other than `but` whose home is the last store once there are so many, and was the store `before` without it."""
    at = 0
    while (home_of(APP, f"user-{at}", of - 1), home_of(APP, f"user-{at}", of)) != (before, of - 1) or f"user-{at}" == but:
        at += 1
    return f"user-{at}"


def in_each_store(stores: int) -> Sequence[str]:
    """A user at home in each store, in their order."""
    return [users_at(store, stores)[0] for store in range(stores)]
