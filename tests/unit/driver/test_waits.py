"""A method of a service is written once: `rt` blocks for its result, and `rt.aio` awaits it."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from typing import Any, assert_type

import pytest

from runtime.driver.engine_client import Portal
from runtime.driver.waits import Awaited, Blocking, M, RuntimeService, in_thread, waits


def here() -> str:
    return threading.current_thread().name


class Greetings(RuntimeService[M]):
    @waits
    async def greet(self, name: str, *, times: int = 1) -> str:
        """Greet by name."""
        await asyncio.sleep(0)
        return " ".join([*["hello"] * times, name, "on", here()])

    @in_thread
    def read(self, name: str) -> list[str]:
        """Read a greeting."""
        return [name, here()]


@pytest.fixture
def client() -> Iterator[Any]:
    portal = Portal("test")
    yield portal
    portal.close()


async def test_a_method_blocks_or_is_awaited_and_runs_on_the_drivers_loop(client: Any) -> None:
    blocking, awaited = Greetings(client, Blocking), Greetings(client, Awaited)
    assert assert_type(blocking.greet("ada", times=2), str) == "hello hello ada on raygrove-test"
    assert assert_type(await awaited.greet("ada", times=2), str) == "hello hello ada on raygrove-test"
    greeting, read = await asyncio.gather(awaited.greet("ada"), awaited.read("ada"))
    assert (assert_type(greeting, str), assert_type(read, list[str])[0]) == ("hello ada on raygrove-test", "ada")


async def test_a_method_that_blocks_runs_in_the_callers_thread_or_beside_it(client: Any) -> None:
    assert Greetings(client, Blocking).read("ada") == ["ada", here()]
    assert (await Greetings(client, Awaited).read("ada"))[1] not in (here(), "raygrove-test")


@pytest.mark.parametrize(("name", "text"), [("greet", "Greet by name."), ("read", "Read a greeting.")])
def test_a_method_has_its_signature_and_docstring_in_both_modes(client: Any, name: str, text: str) -> None:
    blocking, awaited = getattr(Greetings(client, Blocking), name), getattr(Greetings(client, Awaited), name)
    of_class = getattr(Greetings, name)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert list(inspect.signature(of_class).parameters) == ["self", *inspect.signature(blocking).parameters]
    assert blocking.__doc__ == awaited.__doc__ == of_class.__doc__ == text
    assert [inspect.iscoroutinefunction(each) for each in (blocking, awaited, of_class)] == [False, True, False]


@pytest.mark.parametrize("name", ["greet", "read"])
async def test_a_wrong_call_is_refused_with_what_is_right_in_both_modes(client: Any, name: str) -> None:
    sentence = rf"^Greetings.{name}\(\) got an unexpected keyword argument 'nme'. Did you mean 'name'\?$"
    with pytest.raises(TypeError, match=sentence):
        getattr(Greetings(client, Blocking), name)(nme="ada")
    with pytest.raises(TypeError, match=sentence):
        await getattr(Greetings(client, Awaited), name)(nme="ada")
