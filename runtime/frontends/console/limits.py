"""`raygrove limits`: shows and changes the limits of models of a deployment that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console.deployments.options import Address, Name
from runtime.frontends.console.options import Json

if TYPE_CHECKING:
    from actors.messages.operating.limited_model import LimitedModel

Model = Annotated[
    str | None,
    typer.Argument(metavar="[MODEL]", help="A model to change, by its name or a pattern of the settings.", show_default=False),
]
Concurrency = Annotated[str | None, typer.Option("--concurrency", metavar="N", help="Calls at the same time; none: no limit.")]
PerMinute = Annotated[str | None, typer.Option("--per-minute", metavar="N", help="Calls within a minute; none: no limit.")]
Tokens = Annotated[str | None, typer.Option("--tokens-per-minute", metavar="N", help="Tokens within a minute; none: no limit.")]
Reset = Annotated[bool, typer.Option("--reset", help="Have the limits of the settings hold again.")]

_COLUMNS = ("model", "at once", "per minute", "tokens per minute", "from", "running", "waiting")


def limits(
    name: Name,
    model: Model = None,
    concurrency: Concurrency = None,
    per_minute: PerMinute = None,
    tokens_per_minute: Tokens = None,
    reset: Reset = False,
    address: Address = None,
    json: Json = False,
) -> None:
    """Show how much is asked of models at most, and with MODEL change it, at once and until the deployment ends."""
    from runtime.frontends.console.joining import joined
    from runtime.frontends.console.output import print_json, print_table

    options = {
        "max_concurrency": ("--concurrency", concurrency),
        "requests_per_minute": ("--per-minute", per_minute),
        "tokens_per_minute": ("--tokens-per-minute", tokens_per_minute),
    }
    changes = {field: _number(option, text) for field, (option, text) in options.items() if text is not None}
    if (model is None) != (not changes and not reset) or (changes and reset):
        raise typer.BadParameter("give a MODEL together with what to change, or with --reset")
    with joined(name, address) as rt:
        if model is not None and reset:
            rt.limits.reset(model)
        elif model is not None:
            rt.limits.set(model, **changes)
        found = rt.limits.list()
    if json:
        print_json(found)
        return
    print_table(_COLUMNS, [_row(each) for each in found])


def _number(option: str, text: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal() or not int(text):
        raise typer.BadParameter(f"{option} is a number from 1 on, or 'none' for no limit, not {text!r}")
    return int(text)


def _row(limited: LimitedModel) -> tuple[str, ...]:
    most = (limited.max_concurrency, limited.requests_per_minute, limited.tokens_per_minute)
    shown = ["-" if each is None else str(each) for each in most]
    return (limited.name, *shown, "operator" if limited.changed else "settings", str(limited.running), str(limited.waiting))
