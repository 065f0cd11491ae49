"""Copies a store into another one, of the same kind or of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from actors.errors import StoreError
from runtime.stores.transfer.tables import Row, WholeStore


def copy_store(source: WholeStore, target: WholeStore) -> Counter[str]:
    """Copy everything, or nothing. Returns how many rows of each table.

    Raises:
        StoreError: one of the stores is in use or failed, or there is something in the target.
    """
    with source.read("stop the app, or what it stores from now on will be missing in the copy") as rows:
        read: Counter[str] = Counter()

        def counted() -> Iterator[tuple[str, Row]]:
            for name, row in rows:
                read[name] += 1
                yield name, row

        written = target.write(counted())
        if written != read:
            raise StoreError(f"{target} got {written.total()} rows of {read.total()}")
        return written
