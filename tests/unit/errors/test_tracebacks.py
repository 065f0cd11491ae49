"""Tracebacks of users' code: which frames are in them, what is not, and how long they get."""

from __future__ import annotations

import asyncio
import json
import linecache
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from actors.behaviours.lifecycle import first_result
from actors.definitions.agents.callbacks import UserCallback
from actors.errors import AgentFailedError, NotEncodableError, PluginFailedError, RaygroveError
from actors.errors.tracebacks import (
    MAX_BYTES,
    MAX_ERRORS,
    MAX_FRAMES,
    foreign_traceback,
    keep_traceback,
    whole_traceback,
    with_traceback,
)
from actors.errors.user_code import in_thread
from actors.messages.codec import encode

SECRET = "sk-0815"


def look_up(profiles: dict[str, int], name: str) -> int:
    return profiles[name]


async def raised_by(function: Callable[..., Any], *args: Any) -> BaseException:
    """The error of users' code that an actor has called as it calls callbacks."""
    try:
        *first, last = args or (None,)
        await first_result([UserCallback(partial(function, *first), "before_agent_callback")], last)
    except BaseException as error:
        # This frame is no actor's.
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


def functions_of(text: str) -> list[str]:
    return [line.rpartition(" in ")[2] for line in text.splitlines() if line.startswith("  File ")]


async def test_it_begins_with_the_users_code_and_shows_lines() -> None:
    error = await raised_by(look_up, {}, "ada")
    assert foreign_traceback(error).splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{__file__}", line {look_up.__code__.co_firstlineno + 1}, in look_up',
        "    return profiles[name]",
        "KeyError: 'ada'",
    ]


async def test_it_holds_no_values_of_arguments_and_variables() -> None:
    def connect(key: str) -> None:
        password = f"{key}-2"
        raise ConnectionError(f"no connection after {len(password)} bytes")

    text = foreign_traceback(await raised_by(connect, SECRET))
    assert "no connection" in text
    assert SECRET not in text


async def test_what_users_code_calls_is_in_it() -> None:
    text = foreign_traceback(await raised_by(lambda _: json.loads("{")))
    assert functions_of(text)[-1] == "JSONDecoder.raw_decode"


async def test_it_reaches_into_threads_and_tasks() -> None:
    error = await raised_by(lambda _: in_thread(look_up, profiles={}, name="ada"))
    assert functions_of(foreign_traceback(error))[-1] == "look_up"

    async def two_at_once(_: object) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.to_thread(look_up, {}, "ada"))
            group.create_task(asyncio.to_thread(look_up, {}, "bob"))

    text = foreign_traceback(await raised_by(two_at_once))
    # The first that fails ends the other one, which may have failed meanwhile.
    assert "KeyError: 'ada'" in text or "KeyError: 'bob'" in text
    assert text.count("return profiles[name]") == text.count("  | KeyError") > 0


async def test_causes_and_contexts_are_in_it() -> None:
    def caused(_: object) -> None:
        try:
            look_up({}, "ada")
        except KeyError as error:
            raise LookupError("no profile") from error

    def in_context(_: object) -> None:
        try:
            look_up({}, "ada")
        except KeyError:
            raise LookupError("no profile")  # noqa: B904

    def suppressed(_: object) -> None:
        try:
            look_up({}, "ada")
        except KeyError:
            raise LookupError("no profile") from None

    texts = [foreign_traceback(await raised_by(function)) for function in (caused, in_context, suppressed)]
    assert ["KeyError: 'ada'" in text for text in texts] == [True, True, False]
    assert ["direct cause" in text for text in texts] == [True, False, False]
    assert ["During handling" in text for text in texts] == [False, True, False]


def test_errors_of_this_project_show_only_the_users_code_that_led_to_them() -> None:
    assert foreign_traceback(raised(lambda: encode(object()))) != ""  # This test calls it, as users' code would.
    with pytest.raises(NotEncodableError) as own:
        encode(object())
    own.value.__traceback__ = own.value.__traceback__.tb_next if own.value.__traceback__ else None
    assert foreign_traceback(own.value) == ""
    hook = PluginFailedError("before_run_callback", "KeyError", "'ada'")
    hook.__cause__ = raised(lambda: look_up({}, "ada"))
    text = foreign_traceback(hook)
    assert text.endswith("PluginFailedError: the plugin hook before_run_callback failed: KeyError: 'ada'")
    assert "return profiles[name]" in text


def raised(function: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as info:  # noqa: PT011
        function()
    return info.value


def test_without_users_code_all_frames_are_shown_of_an_unexpected_error_only() -> None:
    error = TypeError("a defect")
    assert (foreign_traceback(error), whole_traceback(error)) == ("", "Traceback (most recent call last):\nTypeError: a defect")
    assert whole_traceback(RaygroveError("told already")) == ""


def test_it_is_bounded() -> None:
    def deep(left: int) -> None:
        if left:
            deeper(left - 1)
        raise ValueError("é" * 1_000_000)

    def deeper(left: int) -> None:
        deep(left)

    text = foreign_traceback(raised(lambda: deep(200)))
    assert len(functions_of(text)) == MAX_FRAMES
    assert len(text.encode()) <= MAX_BYTES


def test_long_chains_and_groups_are_bounded() -> None:
    def chained() -> None:
        error: Exception = ValueError("0")
        for number in range(1, 100):
            try:
                raise ValueError(str(number)) from error
            except ValueError as caught:
                error = caught
        raise error

    def group(depth: int) -> Exception:
        return ExceptionGroup("x" * 900, [group(depth - 1) for _ in range(10)]) if depth else ValueError("y" * 3_000)

    text = foreign_traceback(raised(chained))
    assert text.count("ValueError: ") == MAX_ERRORS
    assert text.endswith("ValueError: 99")

    def raise_group() -> None:
        raise group(4)

    assert len(foreign_traceback(raised(raise_group)).encode()) <= MAX_BYTES


def test_errors_that_lead_to_each_other_end() -> None:
    first, second = raised(lambda: look_up({}, "a")), raised(lambda: look_up({}, "b"))
    first.__cause__, second.__cause__ = second, first
    assert foreign_traceback(first).count("KeyError") == 2


def test_hostile_errors_have_a_traceback_as_well() -> None:
    class Hostile(Exception):
        @property
        def remote_traceback(self) -> str:
            raise ValueError

    class Unprintable(Exception):
        def __str__(self) -> str:
            raise SystemExit

    def raise_it(error: Exception) -> None:
        raise error

    assert foreign_traceback(raised(lambda: raise_it(Hostile()))) == ""
    assert "raise error" in foreign_traceback(raised(lambda: raise_it(Unprintable())))
    assert "\\udcff" in foreign_traceback(raised(lambda: raise_it(ValueError("\udcff"))))


def test_code_of_no_file_is_shown_when_its_lines_are_known() -> None:
    cell = "<cell of a notebook>"
    linecache.cache[cell] = (0, None, ["def greet(name):\n", "    return {}[name]\n"], cell)
    namespace: dict[str, Any] = {}
    exec(compile("def greet(name):\n    return {}[name]\n", cell, "exec"), namespace)
    text = foreign_traceback(raised(lambda: namespace["greet"]("ada")))
    assert f'  File "{cell}", line 2, in greet\n    return {{}}[name]' in text


def test_an_error_keeps_its_traceback_on_its_way_to_other_processes() -> None:
    error = raised(lambda: look_up({}, "ada"))
    keep_traceback(error)
    travelled = pickle.loads(pickle.dumps(error))
    assert (travelled.__traceback__, foreign_traceback(travelled)) == (None, foreign_traceback(error).partition("\n\n")[0])
    failed = with_traceback(AgentFailedError("desk", "KeyError", "'ada'"), foreign_traceback(travelled))
    again = pickle.loads(pickle.dumps(failed))
    assert str(again) == "agent 'desk' failed: KeyError: 'ada'"
    assert again.__notes__ == [again.remote_traceback]
    assert "return profiles[name]" in again.remote_traceback
