"""`raygrove update` and `rollback`: a deployment gets another tree while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from actors.errors.listing import some_of
from runtime.frontends.console.apps import options
from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.operating.versions import UpdateReport

SHOWN = 10
"""Agents that are named of each list."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be added, changed and removed.")]
Share = Annotated[float | None, typer.Option(help="Only this part of the sessions that begin from now on gets it, such as 0.1.")]
Force = Annotated[bool, typer.Option("--force", help="Answer calls that wait, of agents that are removed, with an error.")]


def update(
    name: Name,
    path: options.Path,
    dry_run: DryRun = False,
    share: Share = None,
    force: Force = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Give a deployment the tree of an app's code while it runs.

    Turns that run or are paused go on with the tree that they began with; new ones get the new one. Agents that are the same in
    both keep their processes.
    """
    from runtime.cluster.notices.sources import tell_source
    from runtime.frontends.console.apps.opening import load_tree
    from runtime.frontends.console.joining import joined
    from runtime.settings import Settings

    root = load_tree(path, name)
    with joined(name, address) as rt:
        report = rt.update(
            root,
            share=share,
            force=force,
            dry_run=dry_run,
        )
        if not dry_run:
            tell_source(Settings().namespace, name, path, report.version)
    _tell(report, _sentence(name, report), json)


def rollback(name: Name, address: Address = None, json: Json = False) -> None:
    """Give a deployment the tree back that it had before its last update; a second time, the one after that."""
    from runtime.frontends.console.joining import joined

    with joined(name, address) as rt:
        report = rt.rollback()
    _tell(report, f"{name} is back at version {report.version}, and was at {report.before}", json)


def _tell(report: UpdateReport, sentence: str, json: bool) -> None:
    from runtime.frontends.console.output import print_json

    if json:
        print_json([report])
        return
    print(sentence)
    for line in _lines(report):
        print(line)


def _sentence(name: str, report: UpdateReport) -> str:
    if report.dry_run:
        return f"{name} would go from version {report.before} to {report.version}; nothing was changed"
    if not report.difference and report.version == report.before:
        return f"{name} has this tree already: version {report.version}"
    if report.part < 1.0:
        return f"{report.part:.0%} of the new sessions of {name} get version {report.version}, the others {report.before}"
    return f"{name} went from version {report.before} to {report.version} in {report.took_s:.1f} s"


def _lines(report: UpdateReport) -> list[str]:
    difference = report.difference
    lists = (
        ("added", difference.added),
        ("changed", difference.changed),
        ("removed", difference.removed),
        ("defined as before, with others around them", difference.touched),
        ("answered with an error", report.answered),
    )
    return [f"  {what}: {some_of(names, SHOWN)}" for what, names in lists if names]
