"""Commands of `raygrove`, run in the process of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner, Result

from runtime.driver.runtime import Runtime
from runtime.frontends.console import cli, runtimes


def invoke(*arguments: str, stdin: str | None = None) -> Result:
    """Run a command. What it raises is raised here; a wrong use of it is in the result."""
    result = CliRunner().invoke(cli.app, arguments, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def have_joined(monkeypatch: pytest.MonkeyPatch, rt: Runtime, named: str = "desk") -> None:
    """Have commands about a deployment find this one."""

    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[Runtime]:
        assert (name, address) == (named, None)
        yield rt

    monkeypatch.setattr(runtimes, "joined", joined)
