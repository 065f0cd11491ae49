"""The notice of an upgrade is renewed until there is one of another upgrade."""

from __future__ import annotations

from typing import cast

import pytest

from runtime.cluster.notices.notices import Notices, UpgradeNotice
from runtime.cluster.upgrading import lease


class Told:
    """Notices of an app, as they are read one after the other.

    Attributes:
        put: what was written.
    """

    def __init__(self, *read: str | None) -> None:
        self._read = [UpgradeNotice(deployment=each) if each is not None else None for each in read]
        self.put: list[UpgradeNotice] = []

    def upgrade(self) -> UpgradeNotice | None:
        return self._read.pop(0)

    def put_upgrade(self, notice: UpgradeNotice) -> None:
        self.put.append(notice)


@pytest.mark.parametrize("after", ["another", None])
def test_it_is_not_renewed_over_that_of_another_upgrade_nor_when_it_was_taken_away(
    monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.0)
    notices = Told("mine", after)
    lease.ToldUpgrade(cast(Notices, notices), UpgradeNotice(deployment="mine")).renew()
    assert [notice.deployment for notice in notices.put] == ["mine"]
