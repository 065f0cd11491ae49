"""A PostgreSQL that goes back to an older copy of its data under a deployment on Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.losses.test_older_replicas import REPLICA_S, OlderReplica
from tests.support.runtimes import Deploy

pytestmark = [pytest.mark.full, pytest.mark.timeout(3 * REPLICA_S), pytest.mark.usefixtures("local_ray")]


class TestOlderReplicaOnRay(OlderReplica):
    @pytest.fixture
    def deploy(self, tmp_path: Path) -> Deploy:
        return Deploy("ray", tmp_path)
