"""Arguments and options of commands, their values, and the names that a shell completes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from actors.errors import RequestError
from runtime.driver.operation import age_s


def complete_deployment(incomplete: str) -> list[str]:
    """The deployments on the Ray of this machine whose names begin so; none where there is no Ray."""
    from actors.errors import RaygroveError
    from runtime.frontends.console.runtimes import running_apps

    try:
        names = {each.app for each in running_apps(None)}
    except RaygroveError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def complete_app(incomplete: str) -> list[str]:
    """The same, and the files and folders of apps."""
    folder, slash, beginning = incomplete.rpartition("/")
    found = []
    for each in sorted(Path(folder or slash or ".").glob(f"{beginning}*")):
        shown = f"{folder}{slash}{each.name}"
        if not each.name.startswith((".", "__")) and (each.is_dir() or each.suffix == ".py"):
            found.append(shown)
    return found + ([] if slash else complete_deployment(incomplete))


Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print each line again when it has changed, until Ctrl-C.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print calls of tools and transfers on the standard error.")]

# Of commands that run the code of an app.
AppPath = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder with agent.py, a Python file, or module:attribute.", show_default=False)
]
App = Annotated[
    str,
    typer.Argument(
        metavar="APP",
        help="A folder with agent.py, a Python file, module:attribute, or the name of a deployment that runs.",
        show_default=False,
        autocompletion=complete_app,
    ),
]
AppName = Annotated[str | None, typer.Option(help="The app_name of the Runtime; by default the name of the folder or file.")]
User = Annotated[str, typer.Option(help="The id of the user.")]
Store = Annotated[
    list[str] | None,
    typer.Option(
        help="URL of the session store; of several stores each, in their order. By default the app's file in .raygrove."
    ),
]
State = Annotated[list[str] | None, typer.Option(help="KEY=VALUE, or a JSON object: state of the session. May be repeated.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds after which a turn is cancelled.")]
Ray = Annotated[bool, typer.Option("--ray", help="Run on a Ray that is started for it.")]
RunAddress = Annotated[str | None, typer.Option(help="Run on the Ray cluster at this address.")]

# Of commands for deployments.
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of a deployment that runs.", show_default=False, autocompletion=complete_deployment
    ),
]
Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.", show_default=False)]
SomeSession = Annotated[
    str | None, typer.Argument(metavar="SESSION", help="The session's id; with --all it may be left out.", show_default=False)
]
Invocation = Annotated[
    str | None, typer.Argument(metavar="INVOCATION", help="The turn; by default the one of the session that is open.")
]
Address = Annotated[str | None, typer.Option(help="Address of the Ray cluster; by default the one on this machine.")]
Owner = Annotated[str | None, typer.Option(help="Whose session it is; needed where several users have one with this id.")]

OfAgent = Annotated[str | None, typer.Option("--agent", help="Only turns of which this agent speaks, was selected, or failed.")]
WithError = Annotated[str | None, typer.Option("--error", metavar="TEXT", help="Only turns with this in their error.")]
WithText = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Only turns in which this was said.")]
WithId = Annotated[
    str | None, typer.Option("--invocation", metavar="PREFIX", help="Only turns whose ids begin so, as those of a map do.")
]
OfVersion = Annotated[str | None, typer.Option("--version", help="Only turns that run or ran by this version of the tree.")]
Since = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only turns that began at most so long ago, such as 2h, or wait in line.")
]
OlderThan = Annotated[str | None, typer.Option(metavar="AGE", help="Only turns that began longer ago, such as 10m.")]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

# Of commands for stores.
StoredApp = Annotated[str, typer.Argument(metavar="APP", help="The app_name of the Runtime.")]
AppOfStores = Annotated[
    str | None, typer.Option("--app", help="The app_name of the Runtime, for its default stores in .raygrove.")
]
Memory = Annotated[str | None, typer.Option(help="URL of the memory store; by default beside the session store.")]
Artifacts = Annotated[str | None, typer.Option(help="URL of the artifact store; by default .raygrove/artifacts.")]
AppAddress = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster on which the app runs; its own stores are used.")
]


def state_of(given: Iterable[str]) -> dict[str, Any]:
    """The state that options name: JSON objects, or KEY=VALUE with a value in JSON, or else a text. Raises RequestError."""
    state: dict[str, Any] = {}
    for each in given:
        if each.lstrip().startswith("{"):
            value = from_json(each, "--state")
            assert isinstance(value, Mapping)
            state.update(value)
            continue
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise RequestError(f"--state {each!r}: write KEY=VALUE, or a JSON object")
        state[key] = json_or_text(text)
    return state


def answers_of(given: Sequence[str]) -> dict[str, Any]:
    """Answers by the id of the call, out of CALL_ID=JSON. Raises RequestError."""
    answers = {}
    for each in given:
        call_id, equals, text = each.partition("=")
        if not equals or not call_id:
            raise RequestError(f"--answer {each!r}: write CALL_ID=JSON, such as {call_id or 'CALL_ID'}='{{\"allowed\": true}}'")
        answers[call_id] = from_json(text, f"--answer {call_id}")
    return answers


def from_json(text: str, where: str) -> Any:
    """A JSON value. Raises RequestError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RequestError(f"{where}: {text!r} is no JSON: {error}. A text needs quotes of its own: '\"yes\"'") from None


def json_or_text(text: str) -> Any:
    """A JSON value, or else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def parsed_age(text: str) -> float:
    """A time span in seconds, such as that of `90d`. Raises typer.BadParameter."""
    try:
        return age_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def given_age(text: str | None) -> float | None:
    """The same of an option that may be left out; None where it was."""
    return parsed_age(text) if text is not None else None
