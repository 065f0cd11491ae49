"""User code may raise anything: how its errors differ from cancellations, and which text is kept of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.errors import InvalidIdError
from actors.errors.user_code import MAX_ERROR_TEXT, error_text, in_thread, is_cancellation
from actors.messages.codec import encode
from actors.messages.protocol.runs import Failed
from actors.rules.failures import failure
from tests.support.agents.hostile_code import UnprintableError


def raise_it(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), ValueError("no"), GeneratorExit()]
)
async def test_what_a_thread_raises_comes_out_of_it(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised:
        await in_thread(raise_it, error=error)
    assert raised.value is error
    assert not is_cancellation(raised.value)


async def test_an_end_of_iteration_in_a_thread_does_not_make_the_waiting_endless() -> None:
    async with asyncio.timeout(10):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await in_thread(raise_it, error=StopIteration())


async def test_a_cancellation_is_one_only_if_somebody_cancels() -> None:
    seen: list[bool] = []

    async def watch() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append(is_cancellation(error))

    task = asyncio.create_task(watch())
    await asyncio.sleep(0)
    task.cancel()
    await task
    assert (seen, is_cancellation(asyncio.CancelledError())) == ([True], False)


def test_a_coroutine_that_no_task_runs_may_be_closed() -> None:
    assert is_cancellation(GeneratorExit())
    assert not is_cancellation(SystemExit())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "no"),
        (UnprintableError(), ""),
        (ValueError("\ud800"), "\\ud800"),
        (ValueError("x" * 10**6), "x" * MAX_ERROR_TEXT + "…"),
        (SystemExit(), ""),
    ],
)
def test_an_error_is_told_in_words_that_can_be_stored(error: BaseException, words: str) -> None:
    assert error_text(error) == words
    failed = failure(error)
    assert failed == Failed(error_code=type(error).__name__, error_message=words, error_args=None)
    encode(failed)


@pytest.mark.parametrize(("fact", "travels"), [("a", True), (object(), False), ("\ud800", False), ("x" * 10**6, False)])
def test_facts_of_our_own_errors_go_along_if_they_can(fact: Any, travels: bool) -> None:
    failed = failure(InvalidIdError("user id", fact, "use another"))
    assert failed.error_code == "InvalidIdError"
    assert (failed.error_args is not None) == travels
    encode(failed)
