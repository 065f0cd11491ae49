"""The MCP project's own conformance suite for clients, which drives `client.py`: every scenario that it has, or the reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.agents.mcp_tools import ROOT

pytestmark = [pytest.mark.conformance, pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")]

PACKAGES = ["@modelcontextprotocol/conformance@0.2.0-alpha.12", "node@22.23.3"]
"""The suite, and a Node that is new enough for it."""

OLD, NEW = "2025-11-25", "2026-07-28"
"""The revisions with sessions and without."""

SCENARIOS = [
    ("initialize", "2025-06-18"),
    ("initialize", OLD),
    ("tools_call", "2025-06-18"),
    ("tools_call", OLD),
    ("tools_call", NEW),
    ("elicitation-sep1034-client-defaults", OLD),
    ("sse-retry", OLD),
    ("request-metadata", NEW),
    ("sep-2322-client-request-state", NEW),
    ("http-standard-headers", NEW),
    ("http-custom-headers", NEW),
    ("http-invalid-tool-headers", NEW),
    ("json-schema-ref-no-deref", NEW),
    ("json-schema-2020-12-preservation", OLD),
    ("json-schema-2020-12-preservation", NEW),
]
"""All scenarios of the protocol itself, each in all revisions that have it."""

EXPECTED_FAILURES = {
    "elicitation-sep1034-client-defaults": {
        # A person may answer after days, so a call in whose middle the server asks is ended, and made again with the answer.
        "client-elicitation-sep1034-general"
    },
    "json-schema-2020-12-preservation": {
        # Models are shown schemas without their dialect, since some refuse one that names it.
        "json-schema-2020-12-client-$schema-preserved"
    },
}
"""The checks of a scenario that fail, with the reason."""

AUTHORIZATION = {
    OLD: """
        metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate
        scope-from-scopes-supported scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic
        token-endpoint-auth-post token-endpoint-auth-none pre-registration
    """,
    NEW: """
        resource-mismatch offline-access-scope offline-access-not-supported authorization-server-migration iss-supported
        iss-not-advertised iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized metadata-issuer-mismatch
    """,
}
"""Scenarios of `auth/`, which all fail: McpTools has the headers that its definition gives, and no OAuth."""

OLD_AUTHORIZATION = {"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"}
"""The same, of a revision that the suite keeps for servers that have not moved on."""


class Checks(NamedTuple):
    """What came of one scenario.

    Attributes:
        counts: how many checks have which status.
        failed: the ids of those that failed or warn.
        error: why the client ended, if it had to be right and ended with an error.
        said: what the client said of errors.
    """

    counts: Mapping[str, int]
    failed: set[str]
    error: str
    said: str


class Suite:
    """The suite, installed in a folder."""

    def __init__(self, folder: Path) -> None:
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES], cwd=folder, check=True)
        self._folder = folder

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the suite; its code says whether all has passed."""
        binaries = self._folder / "node_modules" / ".bin"
        environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
        command = [str(binaries / "conformance"), *args]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110)

    def listed(self) -> dict[str, set[str]]:
        """The revisions of each scenario for clients; "extension" of one that is in none."""
        lines = re.findall(r"^  - (\S+) \[(.*)\]$", self.run("list", "--client").stdout, re.MULTILINE)
        return {name: set(revisions.split(",")) for name, revisions in lines}

    def checks(self, scenario: str, revision: str, folder: Path) -> Checks:
        """Have our client driven through a scenario."""
        client = f"{sys.executable} -m tests.conformance.client"
        options = ["--scenario", scenario, "--spec-version", revision, "--output-dir", str(folder), "--timeout", "60000"]
        done = self.run("client", "--command", client, *options)
        [results] = folder.rglob("checks.json")
        checks: list[dict[str, Any]] = json.loads(results.read_text())
        counts = Counter(check["status"] for check in checks)
        failed = {check["id"] for check in checks if check["status"] in ("FAILURE", "WARNING")}
        wrong = re.search(r"CLIENT (EXITED|TIMED).*", done.stderr)
        return Checks(counts, failed, wrong[0] if wrong else "", (results.parent / "stderr.txt").read_text())


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("npm"))


def authorization(revision: str) -> list[str]:
    return [f"auth/{name}" for name in AUTHORIZATION[revision].split()]


@pytest.mark.parametrize(("scenario", "revision"), SCENARIOS)
def test_our_client_passes_the_checks_of_a_scenario(suite: Suite, scenario: str, revision: str, tmp_path: Path) -> None:
    checks = suite.checks(scenario, revision, tmp_path)
    assert not checks.error, checks.said
    assert checks.counts["SUCCESS"] > 0
    assert checks.failed == EXPECTED_FAILURES.get(scenario, set())


@pytest.mark.parametrize(
    ("scenario", "revision"), [(name, revision) for revision in AUTHORIZATION for name in authorization(revision)]
)
def test_a_server_that_wants_oauth_is_not_reached(suite: Suite, scenario: str, revision: str, tmp_path: Path) -> None:
    checks = suite.checks(scenario, revision, tmp_path)
    assert checks.failed, "it passes: it goes to SCENARIOS"
    assert "McpServerError: MCP server 'suite': it answers 401 Unauthorized" in checks.said


def test_all_scenarios_of_the_suite_are_here_and_those_of_extensions_alone_are_not(suite: Suite) -> None:
    listed = suite.listed()
    ours = {scenario for scenario, _ in SCENARIOS}
    assert {(name, revision) for name in ours for revision in listed[name]} == set(SCENARIOS)
    extensions = {name for name, revisions in listed.items() if revisions == {"extension"}}
    wanting_oauth = {name for revision in AUTHORIZATION for name in authorization(revision)}
    assert set(listed) - extensions == ours | wanting_oauth | OLD_AUTHORIZATION
