"""No message shares a default with others that one of them could change."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from actors import Event, EventActions
from actors.messages.event import NO_ACTIONS
from tests.unit.test_public_names import modules

MUTABLE = (list, dict, set, bytearray)


def structs(kind: type = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    subclasses: Sequence[type[msgspec.Struct]] = kind.__subclasses__()
    for each in subclasses:
        if each.__module__.partition(".")[0] in ("actors", "runtime"):
            yield each
        yield from structs(each)


def changeable(value: object, where: str) -> list[str]:
    """The parts of a default that can be changed, by their paths."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return [found for name, each in fields for found in changeable(each, f"{where}.{name}")]
    if isinstance(value, tuple | frozenset):
        return [found for each in value for found in changeable(each, f"{where}[…]")]
    if isinstance(value, MUTABLE):
        return [where] if type(value) in MUTABLE else []
    return []


def shared_defaults(kinds: Iterator[type[msgspec.Struct]]) -> list[str]:
    return [
        found
        for kind in kinds
        for field in msgspec.structs.fields(kind)
        if field.default is not msgspec.NODEFAULT
        for found in changeable(field.default, f"{kind.__name__}.{field.name}")
    ]


def test_no_default_that_messages_share_can_be_changed() -> None:
    assert len(modules()) > 100
    assert len(list(structs())) > 100
    assert sorted(set(shared_defaults(structs()))) == []


def test_the_check_finds_what_can_be_changed() -> None:
    inner = msgspec.defstruct("Inner", [("actions", EventActions, EventActions())], frozen=True)
    outer = msgspec.defstruct("Outer", [("inner", inner, inner())])
    assert shared_defaults(iter([outer])) == [
        "Outer.inner.actions.state_delta",
        "Outer.inner.actions.artifact_delta",
        "Outer.inner.actions.requested_tool_confirmations",
        "Outer.inner.actions.requested_inputs",
    ]


def test_actions_that_events_share_refuse_changes_and_say_what_to_do() -> None:
    actions = Event(author="clerk").actions
    with pytest.raises(TypeError, match=r"Event\(actions=EventActions\(state_delta"):
        actions.state_delta["seen"] = True
    with pytest.raises(TypeError, match="shares them with all such events"):
        actions.artifact_delta.update(note=1)
    with pytest.raises(TypeError, match="shares them with all such events"):
        actions.requested_tool_confirmations.setdefault("c1", {})
    assert EventActions() == NO_ACTIONS
    assert Event(actions=EventActions()).actions.state_delta is not Event(actions=EventActions()).actions.state_delta


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda event: pickle.loads(pickle.dumps(event))], ids=["copied", "pickled"])
def test_the_actions_of_a_copy_are_its_own(copied: object) -> None:
    event = copied(Event(author="clerk"))  # type: ignore[operator]
    event.actions.state_delta["seen"] = True
    assert Event().actions.state_delta == {}
    assert Event().to_json() == "{}"
