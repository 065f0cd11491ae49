"""Every error: its place in the tree, its sentence, and its way from process to process."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from actors import errors
from actors.errors import ModelServiceError, RaygroveError, SessionNotFoundError, tree
from actors.errors.tracebacks import rebuild
from actors.messages.codec import decode, encode
from actors.messages.protocol.base import ErrorReply

FACTS = ["one", "two", "three", "four", "five"]


def all_classes(cls: type[RaygroveError] = RaygroveError) -> list[type[RaygroveError]]:
    return [
        cls,
        *(below for child in cls.__subclasses__() if child.__module__.startswith(tree.__name__) for below in all_classes(child)),
    ]


def example(cls: type[RaygroveError]) -> RaygroveError:
    """The error with as many facts as its sentence has places for."""
    places = {int(place) for place in re.findall(r"\{(\d)", cls.sentence)}
    return cls(*FACTS[: max(places) + 1])


def drawn() -> list[tuple[str, str]]:
    """Class and base of every line of the tree in the module's docstring, in order."""
    parents: list[str] = []
    found: list[tuple[str, str]] = []
    for line in (tree.__doc__ or "").splitlines():
        match = re.match(r"    ((?:│   |    )*)(?:[├└]── )?(\w+Error)\b", line)
        if match is None:
            continue
        depth = 0 if match[2] == "RaygroveError" else len(match[1]) // 4 + 1
        del parents[depth:]
        found.append((match[2], parents[-1] if parents else ""))
        parents.append(match[2])
    return found


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    bases = {
        cls.__name__: next((base.__name__ for base in cls.__bases__ if issubclass(base, RaygroveError)), "")
        for cls in all_classes()
    }
    assert dict(drawn()) == bases
    assert len(drawn()) == len(bases)


def test_the_tree_in_the_docstring_has_the_order_of_the_classes() -> None:
    lines = {cls.__name__: _line(cls) for cls in all_classes() if cls is not RaygroveError}
    for branch in [name for name, _ in drawn() if name != "RaygroveError"]:
        here = [lines[name] for name, parent in drawn() if parent == branch]
        assert here == sorted(here)


def _line(cls: type[RaygroveError]) -> int:
    return inspect.getsourcelines(cls)[1]


def test_each_survives_pickling() -> None:
    for error in map(example, all_classes()):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), again.args, str(again)) == (type(error), error.args, str(error))


def test_each_survives_the_journey_between_actors_with_its_sentence() -> None:
    for error in map(example, all_classes()):
        sent = decode(encode(ErrorReply(error=type(error).__name__, args=error.args)), ErrorReply)
        again = rebuild(sent.error, sent.args)
        assert (type(again), str(again)) == (type(error), str(error))


def test_the_sentence_of_each_tells_all_its_facts() -> None:
    assert [error for error in map(example, all_classes()) if any(fact not in str(error) for fact in error.args)] == []


def test_the_docstring_of_each_tells_what_it_means_and_its_arguments() -> None:
    for cls in all_classes():
        assert cls.__doc__, cls
        assert cls is RaygroveError or "Arguments: " in cls.__doc__ or cls.__subclasses__(), cls


def test_facts_with_braces_are_told_as_they_are() -> None:
    assert str(RaygroveError("{0} {x} {")) == "{0} {x} {"
    assert "{0}" in str(SessionNotFoundError("app", "ada", "{0}"))


def test_an_error_of_a_class_that_is_not_known_here_keeps_its_sentence() -> None:
    class OwnError(RaygroveError):
        sentence = "{1} of {0}"

    again = rebuild("NoSuchError", ["a sentence"])
    assert (type(again), str(again)) == (RaygroveError, "a sentence")
    assert str(OwnError("a", "b")) == "b of a"


def test_an_error_without_arguments_can_be_told() -> None:
    for cls in all_classes():
        assert isinstance(str(cls()), str)


def test_a_service_that_did_not_answer_has_no_status() -> None:
    assert ModelServiceError("gemini", 503, "busy").code == 503
    assert str(ModelServiceError("gemini", None, "no route")) == "model 'gemini': the service could not be reached: no route"


@pytest.mark.parametrize(
    ("ours", "builtin"),
    [
        ("DefinitionError", ValueError),
        ("InvalidMessageError", ValueError),
        ("SessionNotFoundError", LookupError),
        ("InvocationNotFoundError", LookupError),
        ("NotEncodableError", TypeError),
        ("TurnTimeoutError", TimeoutError),
    ],
)
def test_who_knows_only_python_can_catch_it(ours: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(errors, ours), builtin)
