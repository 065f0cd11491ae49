"""Options of the commands that run an app, and their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from actors.errors import RequestError
from runtime.frontends.console.completion import complete_app

Path = Annotated[
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
Address = Annotated[str | None, typer.Option(help="Run on the Ray cluster at this address.")]


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
