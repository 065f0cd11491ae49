"""The one PostgreSQL server of a test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.postgres_server import NoPostgresError, postgres, short_folder


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server that all tests share."""
    try:
        with short_folder() as folder, postgres(folder) as url:
            yield url
    except NoPostgresError as error:
        pytest.skip(str(error))
