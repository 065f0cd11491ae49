"""Operations: whatever scripts, HTTP clients and people at a terminal may do alike is declared once.

An operation is an async function of a service. Its HTTP route, its part of the OpenAPI document and its command are made
of the declaration, which stands with the service that it calls: see `runtime/driver/services/limits.py` for an example, and
`docs/extending.md` for how to add one. This module and the services know neither HTTP nor a terminal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_origin, get_type_hints

import msgspec

from actors.messages.json_types import JsonObject
from actors.rules.checks.ids import MAX_ARTIFACT_NAME, MAX_ID

G = TypeVar("G")

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"{(\w+)}")


class Option(NamedTuple):
    """How a field of an input is given on the command line. Annotate the field with it.

    Attributes:
        help: says what it is.
        name: by default that of the field: `--older-than`.
        metavar: names its value.
        read: makes the value of the text, and raises ValueError with what is wrong; None: the text is the value.
        is_flag: it takes no value: the field is true.
        is_argument: it is an argument, and may be left out.
    """

    help: str
    name: str = ""
    metavar: str | None = None
    read: Callable[[str], object] | None = None
    is_flag: bool = False
    is_argument: bool = False

    def of(self, field: str) -> Option:
        """The same with its name, or as an argument with what is shown of it."""
        if self.is_argument:
            return self._replace(metavar=self.metavar or f"[{field.upper()}]")
        return self._replace(name=self.name or f"--{field.replace('_', '-')}")


class TableLine(NamedTuple):
    """A line of a table: its cells, and what is printed in its place as JSON."""

    cells: Sequence[str]
    data: object


class Table(NamedTuple):
    """A result as people see it.

    Attributes:
        columns: the names of the columns.
        lines: below them. Where the table is watched, the first cell says what a line is about.
        whole: printed as JSON in place of the lines; None: the lines are.
        note: printed below the table.
    """

    columns: Sequence[str]
    lines: Sequence[TableLine]
    whole: object = None
    note: str = ""


def table(items: Iterable[G], columns: Sequence[str], cells: Callable[[G], Iterable[object]]) -> Table:
    """A table with a line for each item; `cells` makes its cells."""
    return Table(columns, [TableLine([str(cell) for cell in cells(each)], each) for each in items])


def fields_of(result: msgspec.Struct | None, given: object) -> Table:
    """A table with a line of the fields of a result; an empty one without a result."""
    values = msgspec.structs.asdict(result) if result is not None else {}
    return Table([name.replace("_", " ") for name in values], [TableLine([*map(str, values.values())], result)] if values else [])


@dataclass(frozen=True, kw_only=True)
class Command:
    """How an operation is called at a terminal. Parts of its path are arguments, and fields of its input options.

    Attributes:
        name: such as "limits"; or "users tidy" in a group of commands.
        show: makes the table of the result and of the input; that is None where `otherwise` was done. By default the fields of
            the result are a line.
        help: by default that of the operation.
        user_help: of the option --user.
        watched: it has --watch, by which lines are printed again when they change.
        otherwise: an operation without input, which is done when no option is given.
    """

    name: str
    show: Callable[..., Table] = fields_of
    help: str = ""
    user_help: str = "Only those of this user."
    watched: bool = False
    otherwise: AppOperation | None = None


@dataclass(frozen=True)
class AppOperation:
    """What may be done with a deployment. The function that does it says by its signature what it takes and gives.

    Attributes:
        http: the method and the path, with names of parts in braces: "GET /v1/apps/{app}/limits".
        run: an async function of a service of a Runtime's `aio`, or of `aio` itself; and of a struct where it has an input: the
            query of a GET, else the JSON body. Parts of the path, but for the app, come by their names, and the user as
            `user_id`: a `str`, or a `str | None` that is None for all users. Its result becomes JSON; None is no content. Its
            docstring says what it does.
        for_admins: only administrators may do it over HTTP.
        refused: the HTTP status of a RequestError of `run`.
        command: how it is called at a terminal; None: not at all.
    """

    http: str
    run: Callable[..., Awaitable[Any]]
    for_admins: bool = True
    refused: Literal[400, 404] = 400
    command: Command | None = None

    @property
    def method(self) -> str:
        """Its HTTP method."""
        return self.http.partition(" ")[0]

    @property
    def path(self) -> str:
        """Its HTTP path."""
        return self.http.partition(" ")[2]

    @property
    def parts(self) -> list[str]:
        """The parts of its path, but for the app and the user."""
        return [part for part in _PART.findall(self.path) if part not in ("app", "user")]

    @property
    def takes(self) -> type[msgspec.Struct] | None:
        """The type of its input; None: it has none."""
        return next((each for each in self._types.values() if isinstance(each, type) and issubclass(each, msgspec.Struct)), None)

    @cached_property
    def gives(self) -> Any:
        """The type of its result; None: it has none."""
        found = get_type_hints(self.run)["return"]
        return None if found is NoneType else found

    @property
    def users(self) -> Literal["one", "any", "none"]:
        """Whose data it is about: that of one user, of any or all of them, or of none."""
        if "user_id" not in self._types:
            return "none"
        return "one" if self._types["user_id"] is str else "any"

    def call(self, aio: object, *given: msgspec.Struct, **named: str | None) -> Awaitable[Any]:
        """Do it with a Runtime's `aio`."""
        wanted = next(iter(self._types.values()))
        kind = get_origin(wanted) or wanted
        service = next(each for each in (aio, *vars(aio).values()) if isinstance(each, kind))
        return self.run(service, *given, **named)

    @cached_property
    def _types(self) -> dict[str, Any]:
        """The types of its parameters, the service first."""
        return {name: hint for name, hint in get_type_hints(self.run).items() if name != "return"}


def age_s(text: str) -> float:
    """A time span in seconds, such as that of `90d`. Raises ValueError."""
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS_S or not int(number):
        raise ValueError(f"{text!r} is no age: write a number above 0 with s, m, h, d or w, such as 90d or 12h")
    return float(int(number) * _UNITS_S[unit])


def ago(text: str) -> float:
    """The time so long ago, in seconds since the epoch. Raises ValueError."""
    return time.time() - age_s(text)


def local_time(seconds: float) -> str:
    """A time in seconds since the epoch, as a date and a time of day here."""
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


_UNREADABLE = r"\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069"

ID: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID,
    "pattern": rf"^[^\s{_UNREADABLE}]([^{_UNREADABLE}]*[^\s{_UNREADABLE}])?$",
}
"""A user, a session or a turn."""

ARTIFACT_NAME: JsonObject = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ARTIFACT_NAME,
    "pattern": rf"^[^{_UNREADABLE}]+$",
}

MAX_NUMBER = 2**53 - 1
"""The largest whole number that a request may have: JSON's numbers are exact up to it in every language."""

State = Annotated[JsonObject, msgspec.Meta(extra_json_schema={"propertyNames": ID})]
"""State by its keys, in a body. Only described here, as ids are."""

Id = Annotated[str, msgspec.Meta(extra_json_schema=ID)]
"""An id in a body. Only described here: the Runtime checks it, and its error says more."""

MAX_PAGE = 1_000
"""The most that a request lists."""

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]
Position = Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBER)]


class LimitQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many at most."""

    limit: Limit = 100
