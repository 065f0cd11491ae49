"""`raygrove schedules`: creates, lists, pauses, resumes, runs and deletes schedules of a deployment that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from runtime.driver.operation import local_time
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.operations import WithOperations
from runtime.frontends.console.output import WatchedLine, follow, print_json, print_table

if TYPE_CHECKING:
    from actors.layers.stores.schedule import Schedule
    from runtime.driver.runtime import Runtime

ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name.", show_default=False)]
Message = Annotated[str, typer.Argument(metavar="MESSAGE", help="What each turn begins with.", show_default=False)]
Owner = Annotated[str | None, typer.Option("--user", help="Whose schedule; needed where several users have one of this name.")]
Of = Annotated[str | None, typer.Option("--user", help="Only schedules of this user.")]
Whose = Annotated[str, typer.Option("--user", help="The user whose session gets the message.", show_default=False)]
Session = Annotated[str | None, typer.Option(help="The session that gets the message; by default one of the schedule's name.")]
Cron = Annotated[str | None, typer.Option(help="Minute, hour, day of the month, month, day of the week: '30 8 * * MON-FRI'.")]
Every = Annotated[str | None, typer.Option(help="Time between two turns, such as 90s, 15m, 6h or 1d.")]
At = Annotated[str | None, typer.Option(help="The only time, such as '2026-11-30T08:00'.")]
Timezone = Annotated[str | None, typer.Option(help="Time zone of --cron and --at, such as Europe/Berlin; by default UTC.")]
Missed = Annotated[str, typer.Option(help="What becomes of times at which the deployment was down: once, all or skip.")]
Timeout = Annotated[str | None, typer.Option(help="Cancel each turn after this time, such as 10m.")]

_COLUMNS = ("user", "schedule", "session", "when", "state", "next", "last", "turns", "error")

app = typer.Typer(cls=WithOperations, no_args_is_help=True, help="Create, list, pause, resume, run and delete schedules.")


@app.command()
def create(
    name: options.Name,
    schedule: ScheduleName,
    message: Message,
    user: Whose,
    session: Session = None,
    cron: Cron = None,
    every: Every = None,
    at: At = None,
    timezone: Timezone = None,
    missed: Missed = "once",
    timeout: Timeout = None,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Have a session get a message at times. Give one of --cron, --every and --at."""
    every_s = options.given_age(every)
    timeout_s = options.given_age(timeout)
    with runtimes.joined(name, address) as rt:
        created = rt.schedules.create(
            schedule,
            user_id=user,
            message=message,
            session_id=session,
            cron=cron,
            every=every_s,
            at=at,
            timezone=timezone,
            missed=missed,  # type: ignore[arg-type]
            run_config={"timeout": timeout_s},
        )
    _print_all([created], json=json)


@app.command("list")
def list_schedules(
    name: options.Name, user: Of = None, watch: options.Watch = False, address: options.Address = None, json: options.Json = False
) -> None:
    """List schedules by user and name."""
    with runtimes.joined(name, address) as rt:
        if watch:
            follow(_COLUMNS, lambda: [_line(each) for each in _all(rt, user)], json=json)
        else:
            _print_all(_all(rt, user), json=json)


@app.command()
def pause(
    name: options.Name, schedule: ScheduleName, user: Owner = None, address: options.Address = None, json: options.Json = False
) -> None:
    """Have a schedule make no turns until it is resumed."""
    with runtimes.joined(name, address) as rt:
        _print_all([rt.schedules.pause(schedule, user_id=_owner(rt, schedule, user))], json=json)


@app.command()
def resume(
    name: options.Name, schedule: ScheduleName, user: Owner = None, address: options.Address = None, json: options.Json = False
) -> None:
    """Have a paused schedule go on. What was due meanwhile makes no turn."""
    with runtimes.joined(name, address) as rt:
        _print_all([rt.schedules.resume(schedule, user_id=_owner(rt, schedule, user))], json=json)


@app.command()
def run(
    name: options.Name,
    schedule: ScheduleName,
    user: Owner = None,
    verbose: options.Verbose = False,
    address: options.Address = None,
    json: options.Json = False,
) -> None:
    """Start a turn of a schedule now, and print its answer. Ctrl-C leaves it, and cancels nothing.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the turn waits, 130 Ctrl-C.
    """
    from runtime.frontends.console.showing import follow

    with runtimes.joined(name, address) as rt:
        code = follow(rt.schedules.run_now(schedule, user_id=_owner(rt, schedule, user)), name, json=json, verbose=verbose)
    raise typer.Exit(code)


@app.command()
def delete(name: options.Name, schedule: ScheduleName, user: Owner = None, address: options.Address = None) -> None:
    """Delete a schedule. A turn that has begun goes on."""
    with runtimes.joined(name, address) as rt:
        owner = _owner(rt, schedule, user)
        rt.schedules.delete(schedule, user_id=owner)
    print(f"deleted schedule {schedule!r} of user {owner!r}")


def _all(rt: Runtime, user: str | None) -> Iterator[Schedule]:
    after: Schedule | None = None
    while page := rt.schedules.list(user, after=after):
        yield from page
        after = page[-1]


def _owner(rt: Runtime, name: str, user: str | None) -> str:
    """Whose schedule is meant. Raises RequestError when several users have one of this name, and none is named."""
    if user is not None:
        return user
    from actors.errors import RequestError

    owners = sorted({each.user_id for each in _all(rt, None) if each.name == name})
    if len(owners) > 1:
        raise RequestError(f"schedule {name!r} is there of several users: choose with --user {' or '.join(owners[:10])}")
    if not owners:
        raise RequestError(f"no user has a schedule {name!r}: `raygrove schedules list` tells what there is")
    return owners[0]


def _print_all(schedules: Iterator[Schedule] | list[Schedule], *, json: bool) -> None:
    if json:
        print_json(schedules)
        return
    print_table(_COLUMNS, [_line(each).cells for each in schedules])


def _line(schedule: Schedule) -> WatchedLine:
    cells = (
        schedule.user_id,
        schedule.name,
        schedule.session_id,
        _times(schedule),
        schedule.state,
        local_time(schedule.next_s) if schedule.next_s is not None else "-",
        local_time(schedule.last_s) if schedule.last_s is not None else "-",
        str(schedule.turns),
        schedule.error,
    )
    return WatchedLine((schedule.user_id, schedule.name), cells, cells, schedule)


def _times(schedule: Schedule) -> str:
    """When a schedule is due, for people."""
    if schedule.cron:
        return f"{schedule.cron} {schedule.timezone}"
    return f"every {schedule.every_s} s" if schedule.every_s else "once"
