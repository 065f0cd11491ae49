"""What actors say to each other: every message is known to both sides and comes out as it went in."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import Background, Budget, Content, Event, EventActions, Part, RunConfig
from actors.errors import NotEncodableError
from actors.messages import content as nouns
from actors.messages import event as events
from actors.messages import protocol as p
from actors.messages.codec import decode, encode, plain
from actors.messages.content import Blob
from actors.messages.event import decode_event
from actors.messages.topology import Topology
from tests.support.any_message import MESSAGES, decode_message
from tests.support.fixtures.log_events import call, resp, said
from tests.support.fixtures.topologies import topologies
from tests.support.tries import tries

texts = st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@cache
def values(annotation: Any) -> st.SearchStrategy[Any]:
    """Any value of a type that stands in a message."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return json_values
    if annotation is Topology:
        return topologies(max_size=3)
    if annotation is Budget:
        return st.builds(Budget, tokens=st.integers(0, 5), money=st.none() | st.floats(0, 5))
    if annotation is Background:
        return st.builds(Background, most=st.integers(1, 5))
    if annotation is RunConfig:
        return st.builds(RunConfig, streaming=st.sampled_from(["none", "sse"]), max_llm_calls=st.integers(-5, 5))
    if origin is typing.Literal:
        return st.sampled_from(args)
    if origin in (dict, Mapping):
        return st.dictionaries(texts, values(args[1]), max_size=2)
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*map(values, args))
    if origin is tuple:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin in (list, Sequence):
        return st.lists(values(args[0]), max_size=2)
    if args:
        return st.one_of([values(arg) for arg in args])
    if annotation is type(None):
        return st.none()
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return structs(annotation)
    if isinstance(annotation, type) and hasattr(annotation, "_fields"):
        return st.builds(annotation, **{name: values(hint) for name, hint in typing.get_type_hints(annotation).items()})
    return {
        str: texts,
        int: st.integers(-(2**63), 2**63 - 1),
        float: st.floats(allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        bytes: st.binary(max_size=5),
    }[annotation]


@cache
def structs(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(cls):
        wanted = st.deferred(lambda hint=hints[field.name]: values(hint))  # type: ignore[misc]
        fields[field.name] = st.just(()) if cls is p.Statistics and field.name in ("agents", "parts") else wanted
    return st.builds(cls, **fields)


def as_lists(value: Any) -> Any:
    """Sequences of any kind are equal when what they hold is."""
    return msgspec.to_builtins(value, builtin_types=(bytes,))


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=tries(15))
@given(st.data())
def test_every_message_comes_out_as_it_went_in(cls: type[p.Message], data: st.DataObject) -> None:
    message = data.draw(structs(cls))
    again = decode_message(encode(message))
    assert type(again) is cls
    assert as_lists(again) == as_lists(message)


def test_every_message_of_the_core_is_in_the_protocol() -> None:
    assert {cls.__name__ for cls in MESSAGES if cls.__module__.startswith(p.__name__)} <= vars(p).keys()
    assert set(typing.get_args(p.AnyOutcome)) == set(p.Outcome.__subclasses__())


def test_messages_are_frozen_and_tagged_with_their_names() -> None:
    for cls in MESSAGES:
        assert cls.__struct_config__.frozen
        assert cls.__struct_config__.tag == cls.__name__
        assert cls.__doc__


@pytest.mark.parametrize("module", [nouns, events])
def test_nouns_are_frozen_and_camel_cased(module: Any) -> None:
    for cls in vars(module).values():
        if (
            isinstance(cls, type)
            and issubclass(cls, msgspec.Struct)
            and cls is not msgspec.Struct
            and cls.__module__ == module.__name__
        ):
            assert cls.__struct_config__.frozen
            assert not [field.encode_name for field in msgspec.structs.fields(cls) if "_" in field.encode_name]


events_ = structs(Event)


@settings(max_examples=tries(30))
@given(events_)
def test_an_event_survives_the_wire_and_json(event: Event) -> None:
    assert as_lists(decode_event(encode(event), event.seq)) == as_lists(event)
    assert as_lists(Event.from_json(event.to_json())) == as_lists(event)


def test_the_place_in_the_log_travels_beside_the_event() -> None:
    assert decode_event(encode(Event(id="1", author="a")), 7).seq == 7


def test_an_event_in_json_has_the_names_of_adk() -> None:
    event = Event(
        id="1",
        invocation_id="e-1",
        author="root",
        long_running_tool_ids=["c1"],
        content=Content(role="model", parts=[Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))]),
        actions=EventActions(state_delta={"a": 1}, transfer_to_agent="b"),
    )
    assert msgspec.json.decode(event.to_json()) == {
        "id": "1",
        "invocationId": "e-1",
        "author": "root",
        "longRunningToolIds": ["c1"],
        "content": {"role": "model", "parts": [{"inlineData": {"data": "AP8=", "mimeType": "image/png"}}]},
        "actions": {"stateDelta": {"a": 1}, "transferToAgent": "b"},
    }


@pytest.mark.parametrize("value", [object(), 2**70, [open], {"a": {1, object()}}])
def test_what_has_no_wire_form_is_refused_with_its_type(value: Any) -> None:
    with pytest.raises(NotEncodableError) as raised:
        encode(value)
    assert raised.value.args[0] == type(value).__name__


@pytest.mark.parametrize(
    "value", [{1: "a"}, {"x": {(1): 2, None: 3}}, {"x": {1.5: 2}}, {"a": [{2}]}, {"x": b"\xff"}, {(1, 2): 3}]
)
def test_a_plain_value_can_be_stored_read_again_and_told_as_json(value: Any) -> None:
    try:
        told = plain(value)
    except NotEncodableError:
        return
    assert decode(encode(told), dict[str, Any]) == told
    msgspec.json.encode(told)


@settings(max_examples=tries(100))
@given(json_values)
def test_a_json_value_is_plain_already(value: Any) -> None:
    assert plain(value) == value


@pytest.mark.parametrize(
    ("event", "is_final"),
    [
        (Event(content=Content.of_text("x", "model")), True),
        (Event(content=Content.of_text("x", "model"), partial=True), False),
        (Event(content=Content(parts=[Part(text="hm", thought=True)])), True),
        (Event(content=Content(parts=[said("x"), call("c")])), False),
        (Event(content=Content(parts=[resp("c")])), False),
        (Event(content=Content(parts=[resp("c")]), actions=EventActions(skip_summarization=True)), True),
        (Event(content=Content(parts=[call("c")]), long_running_tool_ids=["c"]), True),
        (Event(), True),
    ],
)
def test_a_final_response_is_what_paragraph_5_1_says(event: Event, is_final: bool) -> None:
    assert event.is_final_response() is is_final
