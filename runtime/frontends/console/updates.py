"""`raygrove update`, `rollback` and `upgrade`: a deployment gets another tree, or another release, while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from actors.errors.hints import some_of
from runtime.frontends.console.apps import options
from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.layers.updates.versions import UpdateReport
    from runtime.cluster.notices import SourceNotice
    from runtime.driver.runtime import Runtime
    from runtime.driver.upgrade_report import UpgradeReport


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
    from runtime.cluster.notices import tell_source
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


Path = Annotated[
    str | None,
    typer.Argument(metavar="PATH", help="The app's code; by default where the deployment has it from.", show_default=False),
]
Within = Annotated[str, typer.Option(metavar="AGE", help="How long turns may take to end: others go on afterwards.")]


def upgrade(
    name: Name,
    path: Path = None,
    within: Within = "1m",
    store: options.Store = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Have a deployment go on with the release of raygrove that this command has, on the same stores.

    New turns are refused for a moment, with the time to ask again. Turns that run end, or go on afterwards; paused ones stay
    paused. Servers and programs that have joined stay up.
    """
    from actors.errors import ProtocolMismatchError, UpgradeRefusedError
    from runtime.cluster.notices import source_of, tell_source
    from runtime.frontends.console.apps.opening import Where, open_app
    from runtime.frontends.console.joining import find_ray, joined
    from runtime.frontends.console.options import parsed_age
    from runtime.frontends.console.output import print_json
    from runtime.settings import Settings

    within_s, began_s = parsed_age(within), time.monotonic()
    try:
        with joined(name, address) as rt:
            told = source_of(Settings().namespace, rt.app_name)
            path = path if path is not None else _source(rt, told)
            stores = store if store is not None or told is None else told.stores
            successor = open_app(Where(path, name, stores, address=rt.address or find_ray(address)), detached=True)
            report = rt.upgrade(successor, within_s=within_s)
            tell_source(Settings().namespace, name, path, report.version_after, stores, told)
            successor.close()
    except ProtocolMismatchError as error:
        _, before, there, _, here = error.args
        reason = f"it runs on {before}, which speaks version {there} of the protocol, and this release speaks version {here}"
        advice = f"Drain it with that release: `raygrove stop {name} --drain`, then `raygrove start PATH --resume` with this one"
        raise UpgradeRefusedError(name, reason, advice) from error
    if json:
        print_json([report])
        return
    print(_upgrade_sentence(name, report, time.monotonic() - began_s))
    for line in _upgrade_lines(report):
        print(f"  {line}")


def _source(rt: Runtime, told: SourceNotice | None) -> str:
    """The path of the code of the tree that new turns get. Raises RequestError where no command has given that tree."""
    from actors.errors import RequestError
    from runtime.driver.services.deployment import current_version

    version = current_version(rt) if told is not None else ""
    path = told.paths.get(version) if told is not None else None
    if path is None:
        what = f"version {version} of {rt.app_name!r}" if version else repr(rt.app_name)
        raise RequestError(f"no command has told where the code of {what} is: give PATH")
    return path


def _upgrade_sentence(name: str, report: UpgradeReport, took_s: float) -> str:
    before = report.release_before or "an older raygrove, which does not say its release,"
    return f"{name} went from {before} to {report.release_after} in {took_s:.1f} s, and was away for {report.away_s:.1f} s"


def _upgrade_lines(report: UpgradeReport) -> Iterator[str]:
    if report.left:
        yield f"{report.left} open {'turn goes' if report.left == 1 else 'turns go'} on"
    if not report.version_before:
        yield f"the tree: version {report.version_after}; that release had none, and all turns go on with it"
    elif report.version_before == report.version_after:
        yield f"the tree stays at version {report.version_after}"
    else:
        yield f"the tree: version {report.version_before}, then {report.version_after}"
    if report.kept:
        yield f"kept for turns that began with them: {', '.join(report.kept)}"
