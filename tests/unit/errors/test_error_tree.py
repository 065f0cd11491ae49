"""Every error: its place in the tree, its sentence with the names in it, and its way from process to process."""

from __future__ import annotations

import inspect
import pickle
import re
from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import errors
from actors.errors import ModelServiceError, RaygroveError, SessionNotFoundError, tree
from actors.errors.hints import MAX_COMPARED, did_you_mean, some_of
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


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (list("abcde"), "a, b and 3 more"),
    ],
)
def test_the_first_are_named_and_the_others_counted(names: list[str], said: str) -> None:
    assert some_of(names, 2) == said


names = st.lists(st.text("abcde_1", min_size=1, max_size=8), max_size=40)


@given(st.text("abcde_1", max_size=8), names)
def test_of_few_names_it_is_the_nearest(name: str, valid: list[str]) -> None:
    nearest = get_close_matches(name, valid, n=1)
    assert did_you_mean(name, valid) == (f" Did you mean {nearest[0]!r}?" if nearest else "")


@given(st.integers(0, 4_999), st.data())
def test_of_thousands_it_is_one_that_differs_in_no_more_than_was_mistyped(number: int, data: st.DataObject) -> None:
    valid = [f"clerk_of_department_{each}" for each in range(5_000)]
    meant = valid[number]
    wrong = data.draw(st.integers(0, len("clerk_of_department_") - 1))
    typed = meant[:wrong] + meant[wrong + 1 :]
    assert did_you_mean(typed, valid) == f" Did you mean {meant!r}?"


def test_of_thousands_none_is_named_when_none_is_near() -> None:
    valid = [f"clerk_{each}" for each in range(10 * MAX_COMPARED)]
    for name in ("", "z", "an entirely different thing", "x" * 10_000):
        assert did_you_mean(name, valid) == ""
