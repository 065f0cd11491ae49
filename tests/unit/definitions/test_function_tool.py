"""Python functions as tools: their declarations, and the arguments that they are called with (semantics.md 5.6)."""

from __future__ import annotations

import asyncio
import enum
import functools
import pickle
import threading
import warnings
from typing import Annotated, Any, Literal

import pydantic
import pytest

from actors import FunctionTool, LongRunningFunctionTool, ToolContext, exit_loop, tool
from actors.errors import DefinitionError
from tests.support.fixtures.tool_contexts import tool_context


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(pydantic.BaseModel):
    """Where somebody lives."""

    street: str
    number: int = 1


def run(of: FunctionTool, /, **args: Any) -> Any:
    return asyncio.run(of.run(args, tool_context()))


def order(
    item: str,
    count: int = 1,
    price: float | None = None,
    color: Color = Color.RED,
    size: Literal["s", "m"] = "s",
    tags: list[str] = [],  # noqa: B006
    extra: dict[str, int] | None = None,
    address: Address | None = None,
) -> list[Any]:
    """Order an item.

    It is sent at once.

    Args:
        item: what to order,
            in full words
        count (int): how many
        color: its color

    Returns:
        everything
    """
    return [item, count, price, color, size, tags, extra, address]


def test_name_and_description_come_from_the_function() -> None:
    told = FunctionTool(order).declaration()
    assert (told.name, told.description) == ("order", "Order an item.\n\nIt is sent at once.")


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    schema = FunctionTool(order).declaration().parameters
    assert schema is not None
    properties = schema["properties"]
    assert (schema["type"], schema["required"], schema["additionalProperties"]) == ("object", ["item"], False)
    assert list(properties) == ["item", "count", "price", "color", "size", "tags", "extra", "address"]
    assert properties["item"] == {"type": "string", "description": "what to order, in full words"}
    assert properties["count"] == {"type": "integer", "default": 1, "description": "how many"}
    assert properties["price"]["anyOf"] == [{"type": "number"}, {"type": "null"}]
    assert properties["size"]["enum"] == ["s", "m"]
    assert properties["color"]["description"] == "its color"
    assert properties["tags"]["items"] == {"type": "string"}
    assert properties["extra"]["anyOf"][0]["additionalProperties"] == {"type": "integer"}
    assert schema["$defs"]["Color"]["enum"] == ["red", "blue"]
    assert schema["$defs"]["Address"]["required"] == ["street"]


def test_a_description_in_the_annotation_is_told_as_well_as_its_bounds() -> None:
    def pick(number: Annotated[int, pydantic.Field(ge=1, description="which one")], other: Annotated[int, "note"] = 2) -> int:
        return number

    schema = FunctionTool(functools.partial(pick), name="pick").declaration().parameters
    assert schema is not None
    assert schema["properties"]["number"] == {"type": "integer", "minimum": 1, "description": "which one"}
    with pytest.raises(ValueError, match="number"):
        run(FunctionTool(pick), number=0)


def test_a_tool_without_arguments_has_no_schema() -> None:
    assert exit_loop.declaration().parameters is None
    assert FunctionTool(lambda: 1, name="one").declaration().parameters is None


def test_values_are_converted_to_the_types_of_the_signature() -> None:
    got = run(FunctionTool(order), item="pen", count="3", price=2, color="blue", tags=("a",), address={"street": "Main"})
    assert got == ["pen", 3, 2.0, Color.BLUE, "s", ["a"], None, Address(street="Main", number=1)]


def test_defaults_are_the_functions_own() -> None:
    assert run(FunctionTool(order), item="pen") == order("pen")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, ["item", "required"]),
        ({"item": "pen", "count": "many"}, ["count", "integer"]),
        ({"item": "pen", "color": "green"}, ["color", "'red' or 'blue'"]),
        ({"item": "pen", "address": {"number": 1}}, ["address.street", "required"]),
        ({"item": 7, "count": None}, ["item", "string", "count"]),
    ],
)
def test_wrong_and_missing_arguments_are_named_and_so_is_what_the_tool_takes(args: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError, match="wrong arguments for order: ") as raised:
        run(FunctionTool(order), **args)
    for word in [*words, "It takes: item, count, price, color, size, tags, extra, address"]:
        assert word in str(raised.value)


SHADOWS = [
    "copy",
    "json",
    "schema",
    "dict",
    "validate",
    "model_config",
    "model_fields",
    "model_dump",
    "self_",
    "_private",
    "fields",
    "name",
]


@pytest.mark.parametrize("name", SHADOWS)
def test_an_argument_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int, other: int = 2) -> list[int]:\n    return [{name}, other]", namespace)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = FunctionTool(namespace["f"])
        told = made.declaration().parameters
    assert told is not None
    assert list(told["properties"]) == [name, "other"]
    assert told["required"] == [name]
    assert run(made, **{name: "1"}) == [1, 2]
    with pytest.raises(ValueError, match=rf"{name}: .*required.*It takes: {name}, other"):
        run(made)


def test_the_context_is_filled_in_and_not_shown() -> None:
    def first(ctx: ToolContext, x: int) -> Any:
        return [ctx.state["known"], ctx.function_call_id, x]

    def second(x: int, tool_context) -> Any:  # type: ignore[no-untyped-def]
        return [tool_context.state["known"], tool_context.function_call_id, x]

    for function in (first, second):
        told = FunctionTool(function).declaration().parameters
        assert told is not None
        assert list(told["properties"]) == ["x"]
        assert run(FunctionTool(function), x=2) == [1, "c1", 2]
    assert run(FunctionTool(first), x=2, ctx="mine") == [1, "c1", 2]


def test_a_sync_function_runs_in_a_thread_and_an_async_one_on_the_loop() -> None:
    def sync_tool() -> int:
        return threading.get_ident()

    async def async_tool() -> int:
        return threading.get_ident()

    assert run(FunctionTool(sync_tool)) != threading.get_ident()
    assert run(FunctionTool(async_tool)) == threading.get_ident()


class Adder:
    """Adds."""

    def __call__(self, x: int, y: int = 1) -> int:
        return x + y

    def add(self, x: int, y: int = 1) -> int:
        """Adds too."""
        return x + y


class AsyncAdder:
    async def __call__(self, x: int) -> int:
        return x + 1


async def slow_add(x: int, y: int) -> int:
    """Adds slowly."""
    return x + y


@pytest.mark.parametrize(
    ("function", "description"),
    [(Adder(), "Adds."), (AsyncAdder(), ""), (functools.partial(slow_add, y=1), "Adds slowly."), (Adder().add, "Adds too.")],
)
def test_objects_that_can_be_called_partials_and_methods_are_tools_too(function: Any, description: str) -> None:
    made = FunctionTool(function, name="add")
    told = made.declaration()
    assert told.parameters is not None
    assert told.parameters["properties"]["x"] == {"type": "integer"}
    assert told.description == description
    assert run(made, x="2") == 3


def test_what_cannot_be_told_as_a_schema_is_refused_when_it_is_defined() -> None:
    def anything(*args: int) -> int:
        return len(args)

    def named(**kwargs: int) -> int:
        return len(kwargs)

    def positional(x: int, /) -> int:
        return x

    def thread(lock: threading.Thread) -> None:
        return None

    for function in (anything, named, positional, thread):
        with pytest.raises(DefinitionError, match=f"tool '{function.__name__}'"):
            FunctionTool(function)
    with pytest.raises(DefinitionError, match="needs a name"):
        FunctionTool(lambda: 1)
    with pytest.raises(DefinitionError, match="cannot be resolved"):
        FunctionTool(_unknown)


def _unknown(x: NoSuchType) -> None:  # type: ignore[name-defined]  # noqa: F821
    return None


def test_the_decorator_takes_a_name_a_description_and_whether_it_is_long_running() -> None:
    @tool
    def plain(x: int) -> int:
        """Plain."""
        return x

    @tool(name="ask_boss", description="Asks.", long_running=True)
    def ask(x: int) -> None:
        """Not this."""

    assert (plain.name, plain.description, plain.is_long_running, type(plain)) == ("plain", "Plain.", False, FunctionTool)
    assert (ask.name, ask.description, ask.is_long_running, type(ask)) == ("ask_boss", "Asks.", True, LongRunningFunctionTool)
    assert plain(3) == 3


def test_a_tool_survives_pickling() -> None:
    for made in (FunctionTool(order), LongRunningFunctionTool(slow_add, name="add", description="d"), exit_loop):
        again = pickle.loads(pickle.dumps(made))
        assert type(again) is type(made)
        assert again.declaration() == made.declaration()
        assert again.is_long_running == made.is_long_running
    assert run(pickle.loads(pickle.dumps(FunctionTool(slow_add))), x=1, y=2) == 3


def test_a_declaration_is_the_callers_own() -> None:
    first = tool(order).declaration()
    look_up = tool(order)
    kept = look_up.declaration()
    assert kept == first
    assert first.parameters is not None
    first.parameters["properties"]["item"]["description"] = "changed"
    changed = look_up.declaration()
    assert changed == kept
    assert changed.parameters is not None
    changed.parameters["properties"].clear()
    assert look_up.declaration() == kept
