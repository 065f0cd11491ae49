"""`raygrove store`: whole stores are copied, backed up, exported and imported, and what is old is removed or archived."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from runtime.frontends.console.options import (
    Address,
    App,
    Artifacts,
    Json,
    Memory,
    Store,
    existing_session_store,
    parsed_age,
    session_store,
)
from runtime.frontends.console.output import print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Copy, back up, export, import, prune and archive whole stores.")

STANDARD_OUTPUT = "-"
"""In place of a file's name: the program's own output, or input."""


@app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="URL of the session store to copy.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="URL of a session store that is new, or empty.")],
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Copy a session store with its memory into an empty one, such as SQLite into PostgreSQL. The app must be stopped."""
    from runtime.stores.transfer.tables import WholeStore, copy_store

    _print_counts(copy_store(WholeStore(source, memory), WholeStore(target)), json=json)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; memory goes beside it.")],
    app_name: App = None,
    store: Store = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Write a SQLite session store with its memory into new files, also while the app runs."""
    from runtime.stores.memory import url_beside
    from runtime.stores.sql.database import Database
    from runtime.stores.transfer.backup import back_up

    url = existing_session_store(app_name, store)
    written = []
    beside = Path(url_beside(f"sqlite:///{file}").removeprefix("sqlite:///"))
    for database, target in ((Database(url), file), (Database(memory or url_beside(url), "memory store"), beside)):
        if back_up(database, target):
            written.append((str(target), target.stat().st_size))
    if json:
        print_json({"file": file, "bytes": size} for file, size in written)
    else:
        print_table(("file", "bytes"), [(file, str(size)) for file, size in written])


@app.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - is the standard output.")],
    app_name: App = None,
    store: Store = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Write a session store with its memory as JSON lines, also while the app runs."""
    from runtime.stores.transfer.backup import new_file
    from runtime.stores.transfer.json_lines import write_lines
    from runtime.stores.transfer.tables import WholeStore

    with WholeStore(existing_session_store(app_name, store), memory).read() as rows:
        if file == STANDARD_OUTPUT:
            write_lines(sys.stdout.buffer, rows)
            return
        with new_file(Path(file)) as draft, draft.open("wb") as lines:
            counts = write_lines(lines, rows)
    _print_counts(counts, json=json)


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, as export writes them; - is the standard input.")],
    app_name: App = None,
    store: Store = None,
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Read JSON lines into a session store that is new, or empty. The app must be stopped."""
    from actors.errors import StoreError
    from runtime.stores.transfer.json_lines import read_lines
    from runtime.stores.transfer.tables import WholeStore

    target = WholeStore(session_store(app_name, store), memory)
    if file == STANDARD_OUTPUT:
        _print_counts(target.write(read_lines(sys.stdin.buffer, "the standard input")), json=json)
        return
    if not Path(file).is_file():
        raise StoreError(f"there is no file {file!r}")
    with Path(file).open("rb") as lines:
        _print_counts(target.write(read_lines(lines, file)), json=json)


@app.command()
def prune(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="How long nothing was written to them: 90d, 12h, 30m.")],
    app_name: Annotated[str, typer.Option("--app", help="The app_name of the Runtime.")],
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and delete nothing.")] = False,
    store: Store = None,
    memory: Memory = None,
    artifacts: Artifacts = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Delete sessions to which nothing was written for long, with their artifacts. Those that have an open turn stay.

    The app must be stopped, or named with its --address. Interrupted, it has deleted some of them: call it again.
    """
    from runtime.frontends.console.stopped import opened_app

    age = parsed_age(older_than)
    instead = ("call rt.sessions.prune in its program", "stop it first")
    with opened_app(app_name, store, address, instead=instead, memory=memory, artifacts=artifacts) as rt:
        pruned = rt.sessions.prune(age, user_id=user, dry_run=dry_run)
    if json:
        print_json([pruned])
        return
    counts = [(name, getattr(pruned, name)) for name in pruned.__struct_fields__]
    head = "would be deleted" if dry_run else "deleted"
    print_table((head, "number"), [(name, str(count)) for name, count in counts if count is not None])


@app.command()
def archive(
    older_than: Annotated[str, typer.Option(metavar="AGE", help="How old the events are: 90d, 12h, 30m.")],
    app_name: Annotated[str, typer.Option("--app", help="The app_name of the Runtime.")],
    user: Annotated[str | None, typer.Option(help="Only sessions of this user.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and move nothing.")] = False,
    store: Store = None,
    address: Address = None,
    json: Json = False,
) -> None:
    """Compress old events of long sessions, which are read as before.

    The app must be stopped, or named with its --address. Interrupted, it has moved some of them: call it again.
    """
    from runtime.frontends.console.stopped import opened_app

    age = parsed_age(older_than)
    instead = ("call rt.sessions.archive in its program", "stop it first")
    with opened_app(app_name, store, address, instead=instead) as rt:
        archived = rt.sessions.archive(age, user_id=user, dry_run=dry_run)
    if json:
        print_json([archived])
        return
    head = "would be archived" if dry_run else "archived"
    print_table((head, "number"), [(name, str(getattr(archived, name))) for name in archived.__struct_fields__])


def _print_counts(counts: Counter[str], *, json: bool) -> None:
    from runtime.stores.transfer.tables import TABLES

    if json:
        print_json({"table": name, "rows": counts[name]} for name in TABLES)
        return
    print_table(("table", "rows"), [(name, str(counts[name])) for name in TABLES])
