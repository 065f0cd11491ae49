"""`raygrove store` and `users`: whole stores, and all data of a user, of a stopped app or through one that runs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from actors.rules.checks.ids import checked_app_name, checked_known_id
from runtime.frontends.console import options, runtimes
from runtime.frontends.console.operations import WithOperations
from runtime.frontends.console.output import print_json, print_table

store = typer.Typer(no_args_is_help=True, help="Copy, back up, export, import, prune and archive whole stores.")

RequiredApp = Annotated[str, typer.Option("--app", help="The app_name of the Runtime.")]
OfUser = Annotated[str | None, typer.Option(help="Only sessions of this user.")]
UserId = Annotated[str, typer.Argument(metavar="USER", help="The user's id.")]

STANDARD_OUTPUT = "-"
"""In place of a file's name: the program's own output, or input."""


@store.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="URL of the session store to copy.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="URL of a session store that is new, or empty.")],
    memory: options.Memory = None,
    json: options.Json = False,
) -> None:
    """Copy a session store with its memory into an empty one, such as SQLite into PostgreSQL. The app must be stopped."""
    from runtime.stores.transfer.tables import WholeStore, copy_store

    _print_counts(copy_store(WholeStore(source, memory), WholeStore(target)), json=json)


@store.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; memory goes beside it.")],
    app_name: options.AppOfStores = None,
    store: options.Store = None,
    memory: options.Memory = None,
    json: options.Json = False,
) -> None:
    """Write a SQLite session store with its memory into new files, also while the app runs."""
    from runtime.stores.memory import url_beside
    from runtime.stores.sql.database import Database
    from runtime.stores.transfer.backup import back_up

    url = runtimes.existing_session_store(app_name, store)
    written = []
    beside = Path(url_beside(f"sqlite:///{file}").removeprefix("sqlite:///"))
    for database, target in ((Database(url), file), (Database(memory or url_beside(url), "memory store"), beside)):
        if back_up(database, target):
            written.append((str(target), target.stat().st_size))
    if json:
        print_json({"file": file, "bytes": size} for file, size in written)
    else:
        print_table(("file", "bytes"), [(file, str(size)) for file, size in written])


@store.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - is the standard output.")],
    app_name: options.AppOfStores = None,
    store: options.Store = None,
    memory: options.Memory = None,
    json: options.Json = False,
) -> None:
    """Write a session store with its memory as JSON lines, also while the app runs."""
    from runtime.stores.transfer.backup import new_file
    from runtime.stores.transfer.json_lines import write_lines
    from runtime.stores.transfer.tables import WholeStore

    with WholeStore(runtimes.existing_session_store(app_name, store), memory).read() as rows:
        if file == STANDARD_OUTPUT:
            write_lines(sys.stdout.buffer, rows)
            return
        with new_file(Path(file)) as draft, draft.open("wb") as lines:
            counts = write_lines(lines, rows)
    _print_counts(counts, json=json)


@store.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, as export writes them; - is the standard input.")],
    app_name: options.AppOfStores = None,
    store: options.Store = None,
    memory: options.Memory = None,
    json: options.Json = False,
) -> None:
    """Read JSON lines into a session store that is new, or empty. The app must be stopped."""
    from actors.errors import StoreError
    from runtime.stores.transfer.json_lines import read_lines
    from runtime.stores.transfer.tables import WholeStore

    target = WholeStore(runtimes.session_store(app_name, store), memory)
    if file == STANDARD_OUTPUT:
        _print_counts(target.write(read_lines(sys.stdin.buffer, "the standard input")), json=json)
        return
    if not Path(file).is_file():
        raise StoreError(f"there is no file {file!r}")
    with Path(file).open("rb") as lines:
        _print_counts(target.write(read_lines(lines, file)), json=json)


@store.command()
def prune(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="How long nothing was written to them: 90d, 12h, 30m.")],
    app_name: RequiredApp,
    user: OfUser = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and delete nothing.")] = False,
    store: options.Store = None,
    memory: options.Memory = None,
    artifacts: options.Artifacts = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Delete sessions to which nothing was written for long, with their artifacts. Those that have an open turn stay.

    The app must be stopped, or named with its --address. Interrupted, it has deleted some of them: call it again.
    """
    age = options.parsed_age(older_than)
    instead = ("call rt.sessions.prune in its program", "stop it first")
    with runtimes.opened_app(app_name, store, address, instead=instead, memory=memory, artifacts=artifacts) as rt:
        pruned = rt.sessions.prune(age, user_id=user, dry_run=dry_run)
    _print_numbers("would be deleted" if dry_run else "deleted", pruned, json=json)


@store.command()
def archive(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="How old the events are: 90d, 12h, 30m.")],
    app_name: RequiredApp,
    user: OfUser = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and move nothing.")] = False,
    store: options.Store = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Compress old events of long sessions, which are read as before.

    The app must be stopped, or named with its --address. Interrupted, it has moved some of them: call it again.
    """
    age = options.parsed_age(older_than)
    instead = ("call rt.sessions.archive in its program", "stop it first")
    with runtimes.opened_app(app_name, store, address, instead=instead) as rt:
        archived = rt.sessions.archive(age, user_id=user, dry_run=dry_run)
    _print_numbers("would be archived" if dry_run else "archived", archived, json=json)


def _print_numbers(head: str, done: msgspec.Struct, *, json: bool) -> None:
    """Print numbers that a result has; those that are None were not counted."""
    if json:
        print_json([done])
        return
    numbers = msgspec.structs.asdict(done)
    print_table((head, "number"), [(name.replace("_", " "), str(each)) for name, each in numbers.items() if each is not None])


def _print_counts(counts: Counter[str], *, json: bool) -> None:
    from runtime.stores.transfer.tables import TABLES

    if json:
        print_json({"table": name, "rows": counts[name]} for name in TABLES)
        return
    print_table(("table", "rows"), [(name, str(counts[name])) for name in TABLES])


users = typer.Typer(cls=WithOperations, no_args_is_help=True, help="Move the data of users between stores, and delete them.")


@users.command()
def move(
    user: UserId,
    to: Annotated[str, typer.Option(metavar="URL", help="The store in which the user is to be: one of those of the app.")],
    app_name: RequiredApp,
    store: options.Store = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Move all data of a user to another store of the app. Turns of the user are waited for, for a minute at most."""
    checked_known_id("user id", user)
    checked_app_name(app_name)
    from runtime.engine.store_urls import shown_session_store

    instead = ("call rt.users.move in its program", "stop it first")
    with runtimes.opened_app(app_name, store, address, instead=instead) as rt:
        moved = rt.users.move(user, to)
    if json:
        print_json([moved])
    elif not moved.has_data:
        print(f"there are no data of {user}: turns of this user begin in {shown_session_store(to)}")
    elif moved.before == moved.now:
        print(f"{user} is there already")
    else:
        print(f"{user} was moved, with {moved.rows} rows")


@users.command("delete")
def delete_user(
    user: UserId,
    app_name: RequiredApp,
    store: options.Store = None,
    memory: options.Memory = None,
    artifacts: options.Artifacts = None,
    address: options.AppAddress = None,
    json: options.Json = False,
) -> None:
    """Delete all data of a user: sessions, artifacts, memory and state. Turns of the user are cancelled first."""
    checked_known_id("user id", user)
    checked_app_name(app_name)

    instead = ("call rt.users.delete in its program", "stop it first")
    with runtimes.opened_app(app_name, store, address, instead=instead, memory=memory, artifacts=artifacts) as rt:
        deleted = rt.users.delete(user)
    _print_numbers("deleted", deleted, json=json)
