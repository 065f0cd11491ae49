"""The one PostgreSQL server of a test run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.postgres_server import NoPostgresError, postgres


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    # A short path that every account may enter: it holds the socket, and the server may not be root.
    folder = Path(tempfile.mkdtemp(prefix="raygrove-pg-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with postgres(folder) as url:
            yield url
    except NoPostgresError as error:
        pytest.skip(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
