"""`raygrove stop`: ends a deployment for all programs, at once or when its turns have ended."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from runtime.driver.ending import Drained
    from runtime.driver.runtime import Runtime

LEFT, INTERRUPTED = 3, 130
"""Exit codes: turns are left open; Ctrl-C."""

SHOWN = 20
"""Turns that are named of those that are left."""

Drain = Annotated[bool, typer.Option("--drain", help="Take no new turns, and stop when those that run or wait have ended.")]
Within = Annotated[
    str | None, typer.Option(metavar="AGE", help="With --drain: stop after so long at the latest, such as 10m or 90s.")
]


def stop(name: Name, drain: Drain = False, within: Within = None, address: Address = None, json: Json = False) -> None:
    """Stop a deployment for good. Turns that run are cancelled, or end before with --drain; what is stored stays.

    With --drain new turns are refused with the time to ask again, and paused ones stay paused. Ctrl-C ends the drain, and the
    deployment goes on. Exit codes: 0 stopped, 1 failed, 2 wrong usage, 3 stopped with turns that are left open, 130 Ctrl-C.
    """
    from actors.errors import RequestError
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.options import given_age
    from runtime.frontends.console.output import print_json

    if within is not None and not drain:
        raise RequestError("--within goes with --drain: without it turns that run are cancelled at once")
    within_s = given_age(within)
    drained = None
    with joined(name, address) as rt:
        if drain:
            drained = _drained(rt, name, within_s)
        else:
            rt.shutdown()
    if json:
        print_json([{"name": name, "stopped": True} | _told(drained)])
    else:
        print(_sentence(name, drained))
        for line in _how_to_go_on(name, drained):
            print(line, file=sys.stderr)
    if drained is not None and drained.left:
        raise typer.Exit(LEFT)


def _drained(rt: Runtime, name: str, within_s: float | None) -> Drained:
    counts = rt.turns.counts()
    print(f"{name} takes no new turns: {counts.running} running, {counts.waiting} waiting in line", file=sys.stderr)
    try:
        return rt.drain(within_s=within_s)
    except KeyboardInterrupt:
        print(f"{name} goes on, and takes new turns again", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _told(drained: Drained | None) -> dict[str, object]:
    """The fields of a drain, for JSON."""
    import msgspec

    if drained is None:
        return {}
    return {"left": msgspec.to_builtins(drained.left), "paused": drained.paused, "tookS": round(drained.took_s, 3)}


def _sentence(name: str, drained: Drained | None) -> str:
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
        for turn in left[:SHOWN]
    ]
    more = [f"  and {len(left) - SHOWN} more: `raygrove turns {name} --state running`"] if len(left) > SHOWN else []
    return [
        "`raygrove start … --resume` goes on with them; one goes on at the next message of its session, or with",
        *commands,
        *more,
    ]
