"""What tests of the pytest plugin share: projects of users, whose tests are run as users run them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest on a file of tests, in a process of its own, to which nothing of this test run is known."""
    for name in ("RAYGROVE_NAMESPACE", "RAYGROVE_TEST_RAY", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    pytester.makefile(".ini", pytest=INI)

    def run(code: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_project=code)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tb=short", *options)

    return run
