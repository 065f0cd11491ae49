"""`raygrove start`, `stop`, `update`, `rollback` and `upgrade`: a deployment begins, ends, or gets another tree or release."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from actors.errors.hints import some_of
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import (
    INTERRUPTED,
    PAUSED,
    print_json,
    print_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.layers.updates.versions import UpdateReport
    from runtime.cluster.notices import SourceNotice
    from runtime.driver.ending import Drained
    from runtime.driver.runtime import Runtime
    from runtime.driver.upgrade import UpgradeReport

SHOWN_TURNS = 20
"""Turns that are named of those that are left."""

SHOWN = 10
"""Agents that are named of each list."""

Resume = Annotated[bool, typer.Option("--resume", help="Go on with the turns that an earlier deployment has left open.")]
Drain = Annotated[bool, typer.Option("--drain", help="Take no new turns, and stop when those that run or wait have ended.")]
DrainWithin = Annotated[
    str | None, typer.Option(metavar="AGE", help="With --drain: stop after so long at the latest, such as 10m or 90s.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be added, changed and removed.")]
Share = Annotated[float | None, typer.Option(help="Only this part of the sessions that begin from now on gets it, such as 0.1.")]
Force = Annotated[bool, typer.Option("--force", help="Answer calls that wait, of agents that are removed, with an error.")]
CodePath = Annotated[
    str | None,
    typer.Argument(metavar="PATH", help="The app's code; by default where the deployment has it from.", show_default=False),
]
Within = Annotated[str, typer.Option(metavar="AGE", help="How long turns may take to end: others go on afterwards.")]


def start(
    path: options.AppPath,
    app_name: options.AppName = None,
    store: options.Store = None,
    resume: Resume = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Start an app on a Ray cluster, where it runs until `raygrove stop`."""
    from actors.errors import ClusterError, DeploymentExistsError
    from runtime.cluster.notices import tell_source
    from runtime.driver.services.deployment import current_version
    from runtime.settings import Settings

    try:
        with runtimes.open_app(runtimes.Where(path, app_name, store, address=address or "auto"), detached=True) as rt:
            name, where, agents = rt.app_name, rt.address, 1 + rt.tree(limit=1).hidden
            resumed = rt.turns.resume() if resume else 0
            tell_source(Settings().namespace, name, path, current_version(rt), store)
    except DeploymentExistsError as error:
        (name,) = error.args
        raise ClusterError(f"{name!r} runs already: `raygrove stop {name}` ends it, and --app-name gives another name") from error
    lines = [f"{name} runs on the Ray at {where}, with {agents} {'agents' if agents > 1 else 'agent'}"]
    if resume:
        lines.append(f"{resumed} open {'turn goes' if resumed == 1 else 'turns go'} on")
    print_result({"name": name, "address": where, "agents": agents, "resumed": resumed}, *lines, json=json)


def stop(
    name: options.Name,
    drain: Drain = False,
    within: DrainWithin = None,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Stop a deployment for good. Turns that run are cancelled, or end before with --drain; what is stored stays.

    With --drain new turns are refused with the time to ask again, and paused ones stay paused. Ctrl-C ends the drain, and the
    deployment goes on. Exit codes: 0 stopped, 1 failed, 2 wrong usage, 3 stopped with turns that are left open, 130 Ctrl-C.
    """
    from actors.errors import RequestError

    if within is not None and not drain:
        raise RequestError("--within goes with --drain: without it turns that run are cancelled at once")
    within_s = options.given_age(within)
    drained = None
    with runtimes.joined(name, address) as rt:
        if drain:
            drained = _drained(rt, name, within_s)
        else:
            rt.shutdown()
    if json:
        print_json([{"name": name, "stopped": True} | _drained_fields(drained)])
    else:
        print(_stop_sentence(name, drained))
        for line in _how_to_go_on(name, drained):
            print(line, file=sys.stderr)
    if drained is not None and drained.left:
        raise typer.Exit(PAUSED)


def _drained(rt: Runtime, name: str, within_s: float | None) -> Drained:
    counts = rt.turns.counts()
    print(f"{name} takes no new turns: {counts.running} running, {counts.waiting} waiting in line", file=sys.stderr)
    try:
        return rt.drain(within_s=within_s)
    except KeyboardInterrupt:
        print(f"{name} goes on, and takes new turns again", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _drained_fields(drained: Drained | None) -> dict[str, object]:
    """The fields of a drain, for JSON."""
    import msgspec

    if drained is None:
        return {}
    return {"left": msgspec.to_builtins(drained.left), "paused": drained.paused, "tookS": round(drained.took_s, 3)}


def _stop_sentence(name: str, drained: Drained | None) -> str:
    if drained is None:
        return f"{name} has stopped"
    left = [turn for turn in drained.left if turn.state != "waiting"]
    dropped = len(drained.left) - len(left)
    parts = [
        *([f"{len(left)} left open"] if left else []),
        *([f"{dropped} in line dropped"] if dropped else []),
        *([f"{drained.paused} paused"] if drained.paused else []),
    ]
    return f"{name} has stopped: " + (f"turns: {', '.join(parts)}" if parts else "all turns have ended")


def _how_to_go_on(name: str, drained: Drained | None) -> list[str]:
    """The commands by which the next deployment goes on with turns that are left open."""
    left = [turn for turn in drained.left if turn.state != "waiting"] if drained is not None else []
    if not left:
        return []
    commands = [
        "  " + shlex.join(["raygrove", "attach", name, turn.session_id, turn.invocation_id, "--user", turn.user_id])
        for turn in left[:SHOWN_TURNS]
    ]
    more = [f"  and {len(left) - SHOWN_TURNS} more: `raygrove turns {name} --state running`"] if len(left) > SHOWN_TURNS else []
    return [
        "`raygrove start … --resume` goes on with them; one goes on at the next message of its session, or with",
        *commands,
        *more,
    ]


def update(
    name: options.Name,
    path: options.AppPath,
    dry_run: DryRun = False,
    share: Share = None,
    force: Force = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Give a deployment the tree of an app's code while it runs.

    Turns that run or are paused go on with the tree that they began with; new ones get the new one. Agents that are the same in
    both keep their processes.
    """
    from runtime.cluster.notices import tell_source
    from runtime.settings import Settings

    root = runtimes.load_tree(path, name)
    with runtimes.joined(name, address) as rt:
        report = rt.update(
            root,
            share=share,
            force=force,
            dry_run=dry_run,
        )
        if not dry_run:
            tell_source(Settings().namespace, name, path, report.version)
    print_result(report, _update_sentence(name, report), *_update_lines(report), json=json)


def rollback(name: options.Name, address: options.Address = None, json: options.Json = False) -> None:
    """Give a deployment the tree back that it had before its last update; a second time, the one after that."""

    with runtimes.joined(name, address) as rt:
        report = rt.rollback()
    sentence = f"{name} is back at version {report.version}, and was at {report.before}"
    print_result(report, sentence, *_update_lines(report), json=json)


def _update_sentence(name: str, report: UpdateReport) -> str:
    if report.dry_run:
        return f"{name} would go from version {report.before} to {report.version}; nothing was changed"
    if not report.difference and report.version == report.before:
        return f"{name} has this tree already: version {report.version}"
    if report.part < 1.0:
        return f"{report.part:.0%} of the new sessions of {name} get version {report.version}, the others {report.before}"
    return f"{name} went from version {report.before} to {report.version} in {report.took_s:.1f} s"


def _update_lines(report: UpdateReport) -> list[str]:
    difference = report.difference
    lists = (
        ("added", difference.added),
        ("changed", difference.changed),
        ("removed", difference.removed),
        ("defined as before, with others around them", difference.touched),
        ("answered with an error", report.answered),
    )
    return [f"  {what}: {some_of(names, SHOWN)}" for what, names in lists if names]


def upgrade(
    name: options.Name,
    path: CodePath = None,
    within: Within = "1m",
    store: options.Store = None,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Have a deployment go on with the release of raygrove that this command has, on the same stores.

    New turns are refused for a moment, with the time to ask again. Turns that run end, or go on afterwards; paused ones stay
    paused. Servers and programs that have joined stay up.
    """
    from actors.errors import ProtocolMismatchError, UpgradeRefusedError
    from runtime.cluster.notices import source_of, tell_source
    from runtime.settings import Settings

    within_s, began_s = options.parsed_age(within), time.monotonic()
    try:
        with runtimes.joined(name, address) as rt:
            told = source_of(Settings().namespace, rt.app_name)
            path = path if path is not None else _source(rt, told)
            stores = store if store is not None or told is None else told.stores
            successor = runtimes.open_app(
                runtimes.Where(path, name, stores, address=rt.address or runtimes.find_ray(address)), detached=True
            )
            report = rt.upgrade(successor, within_s=within_s)
            tell_source(Settings().namespace, name, path, report.version_after, stores, told)
            successor.close()
    except ProtocolMismatchError as error:
        _, before, there, _, here = error.args
        reason = f"it runs on {before}, which speaks version {there} of the protocol, and this release speaks version {here}"
        advice = f"Drain it with that release: `raygrove stop {name} --drain`, then `raygrove start PATH --resume` with this one"
        raise UpgradeRefusedError(name, reason, advice) from error
    sentence = _upgrade_sentence(name, report, time.monotonic() - began_s)
    print_result(report, sentence, *(f"  {line}" for line in _upgrade_lines(report)), json=json)


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
