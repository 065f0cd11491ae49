"""Turns over many inputs: each is answered once, whatever happens in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from actors import Content, LlmAgent, RunConfig, tool
from actors.errors import (
    AgentFailedError,
    InvalidMessageError,
    OutputSchemaError,
    RequestError,
    RuntimeClosedError,
    TurnTimeoutError,
)
from actors.messages.protocol.runs import Finished, Paused
from actors.testing import PatternModel
from runtime.driver.runtime import Runtime
from runtime.driver.scripts.inputs import MapResult
from runtime.driver.scripts.turn_map import TurnMap
from tests.support.models.map_models import NotedModel
from tests.support.runtimes import Deploy, stored

pytestmark = pytest.mark.sampled(2, of="module")


class Number(BaseModel):
    n: int


@tool(long_running=True)
def ask_manager() -> None:
    """Ask the manager."""


def asker() -> LlmAgent:
    model = PatternModel([("refund", {"call": "ask_manager"}), ("tool:", "It is allowed.")])
    return LlmAgent(name="refunds", model=model, tools=[ask_manager])


def noted(folder: Path, after_s: float = 0.0, fails: dict[str, int] | None = None) -> tuple[NotedModel, LlmAgent]:
    model = NotedModel(folder / "calls", after_s, fails)
    return model, LlmAgent(name="echo", model=model)


def texts(results: list[MapResult]) -> list[str]:
    return sorted(result.text for result in results)


def test_every_input_is_answered_once_in_a_session_of_its_own_and_not_again(deploy: Deploy, tmp_path: Path) -> None:
    model, root = noted(tmp_path)
    inputs = [f"n{number}" for number in range(20)] + ["n0"]
    with deploy(root) as rt:
        results = list(rt.map(inputs, name="nightly", concurrency=4))
        assert texts(results) == sorted(f"echo {each}" for each in inputs)
        assert sorted(result.index for result in results) == list(range(21))
        assert all(inputs[result.index] == result.input for result in results)
        assert {type(result.outcome) for result in results} == {Finished}
        assert len({(result.session_id, result.invocation_id) for result in results}) == 21
        assert not any(result.is_repeated for result in results)
        again = list(rt.map(reversed(inputs), name="nightly", concurrency=9))
        assert all(result.is_repeated for result in again)
        assert {result.invocation_id for result in again} == {result.invocation_id for result in results}
    with deploy(root) as rt:
        assert texts(asyncio.run(collected(rt.aio.map(inputs, name="nightly")))) == texts(results)
        assert model.calls().total() == 21
        assert not any(result.is_repeated for result in rt.map(inputs[:3], name="weekly"))


async def collected(results: AsyncIterator[MapResult]) -> list[MapResult]:
    return [result async for result in results]


def test_inputs_are_read_as_places_become_free(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path)
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in itertools.count(1):
            yield f"n{read}"

    with local(root) as rt:
        for taken, _ in enumerate(rt.map(endless(), concurrency=5), start=1):
            assert read <= taken + 5
            if taken == 50:
                break


def test_an_async_iterable_is_read_on_the_programs_own_loop_as_places_become_free(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path)
    read = 0

    async def endless() -> AsyncIterator[str]:
        nonlocal read
        for read in itertools.count(1):
            await asyncio.sleep(0)
            yield f"n{read}"

    async def main(rt: Runtime) -> None:
        taken = 0
        async for result in rt.map(endless(), concurrency=5):
            assert result.error is None
            taken += 1
            assert read <= taken + 6
            if taken == 50:
                break

    with local(root) as rt:
        asyncio.run(main(rt))
        with pytest.raises(RequestError, match="async for"):
            list(rt.map(endless()))


def test_an_error_of_the_inputs_reaches_the_program(local: Deploy, tmp_path: Path) -> None:
    def broken() -> Iterator[str]:
        yield "one"
        raise OSError("the file is gone")

    _, root = noted(tmp_path)
    with local(root) as rt:
        with pytest.raises(OSError, match="the file is gone"):
            list(rt.map(broken()))
        with pytest.raises(OSError, match="the file is gone"):
            asyncio.run(collected(rt.aio.map(broken())))


def test_dictionaries_name_session_user_state_and_turn(local: Deploy) -> None:
    root = LlmAgent(name="echo", model=PatternModel([], default="yes"), instruction="About {topic?}.", output_key="said")
    given = [
        {"message": "hi", "session_id": "s1", "user_id": "ada", "state_delta": {"topic": "tea"}, "invocation_id": "order-1"},
        {"message": Content.of_text("again"), "session_id": "s1", "user_id": "ada"},
        {"parts": [{"text": "like a web client"}]},
        Content.of_text("a content"),
    ]
    with local(root) as rt:
        first, second, third, fourth = rt.map(given, in_order=True, user_id="bob")
        assert (first.user_id, first.session_id, first.invocation_id) == ("ada", "s1", "order-1")
        assert first.state == {"topic": "tea", "said": "yes"}
        assert (second.session_id, third.user_id, fourth.text) == ("s1", "bob", "yes")
        assert [event.text for event in stored(rt)] == ["hi", "yes", "again", "yes"]


def test_what_is_wrong_with_an_input_is_its_error_and_stops_no_other(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path)
    given = [None, {"message": "x", "sesion_id": "s"}, {"session_id": "s"}, {"message": "x", "user_id": "\n"}, "fine"]
    # A lone half of a character cannot be encoded.
    given += [{"message": "x", field: "\ud800"} for field in ("message", "user_id", "session_id", "invocation_id")]
    with local(root) as rt:
        results = list(rt.map(given, in_order=True))
    kinds = [*["InvalidMessageError"] * 3, "InvalidIdError", "NoneType", "NotEncodableError", *["InvalidIdError"] * 3]
    assert [type(result.error).__name__ for result in results] == kinds
    assert "Did you mean 'session_id'?" in str(results[1].error)
    assert "an input needs a message" in str(results[2].error)
    assert [result.text for result in results if result.text] == ["echo fine"]


def test_failures_are_values_with_the_events_and_retried_by_their_kind(local: Deploy, tmp_path: Path) -> None:
    model, root = noted(tmp_path, fails={"bad": 99, "shaky": 1})
    with local(root) as rt:
        bad, shaky, good = rt.map(["bad", "shaky", "good"], in_order=True, retries={ConnectionError: 1, TurnTimeoutError: 5})
        assert isinstance(bad.error, AgentFailedError)
        assert bad.outcome is None
        assert [event.error_code for event in bad.events] == ["ConnectionError"]
        assert (bad.attempts, shaky.attempts, good.attempts) == (2, 2, 1)
        assert (shaky.text, shaky.error) == ("echo shaky", None)
        assert model.calls() == {"bad": 2, "shaky": 2, "good": 1}
        # An attempt is not shown the one that failed before it.
        assert [event.text for event in stored(rt, shaky.session_id, shaky.user_id)] == ["shaky", "echo shaky"]
    with local(root) as rt:
        bad, shaky, good = rt.map(["bad", "shaky", "good"], in_order=True)
        assert (bad.attempts, shaky.attempts, good.attempts) == (3, 2, 1)
        assert model.calls() == {"bad": 3, "shaky": 2, "good": 1}


@pytest.mark.parametrize("retries", [-1, {"TurnError": -1}, {3: 3}, {int: 1}])
def test_retries_that_mean_nothing_are_refused(local: Deploy, tmp_path: Path, retries: object) -> None:
    _, root = noted(tmp_path)
    with local(root) as rt, pytest.raises(RequestError, match="retries"):
        rt.map([], retries=retries)  # type: ignore[arg-type]


def test_an_attempt_that_takes_too_long_is_cancelled(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path, after_s=3)
    with local(root) as rt:
        [result] = rt.map(["slow"], timeout=0.1)
        assert isinstance(result.error, TurnTimeoutError)
        [again] = rt.map(["slow"], timeout=0.1, run_config=RunConfig(max_llm_calls=1))
        assert again.attempts == 2


def test_a_paused_turn_is_a_result_without_an_answer(local: Deploy) -> None:
    with local(asker()) as rt:
        [result] = rt.map(["refund"], progress=False)
        assert isinstance(result.outcome, Paused)
        assert (result.error, result.output) == (None, None)
        [call] = rt.pending()
        rt.answer(call, {"allowed": True}).result()
        [result] = rt.map(["refund"], progress=False)
        assert isinstance(result.outcome, Finished)


def test_what_is_left_goes_on_where_the_deployment_does_and_is_joined(deploy: Deploy, tmp_path: Path) -> None:
    model, root = noted(tmp_path, after_s=0.1)
    with deploy(root) as rt:
        for _ in rt.map(["a", "slow b", "slow c"], concurrency=4):
            break
        results = list(rt.map(["a", "slow b", "slow c"], concurrency=2))
        assert texts(results) == ["echo a", "echo slow b", "echo slow c"]
        assert set(model.calls().values()) == {1}
        for _ in rt.map(["e", "slow f", "slow g"], concurrency=3, on_leave="cancel"):
            break
        left = list(rt.map(["e", "slow f", "slow g"]))
        assert sorted(result.attempts for result in left) == [1, 2, 2]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_program_that_leaves_a_map_is_shown_how_to_go_on(
    local: Deploy, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_async: bool
) -> None:
    """Ctrl-C may come while the program is busy with a result: the map itself only sees that it is left."""
    _, root = noted(tmp_path)

    async def first_of_async(results: TurnMap) -> None:
        async for _ in results:
            raise KeyboardInterrupt

    def first_of(results: TurnMap) -> None:
        for _ in results:
            raise KeyboardInterrupt

    def leave(*, progress: bool | None = None) -> None:
        results = rt.map(["a", "b", "c"], name="june", concurrency=1, progress=progress)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(first_of_async(results)) if is_async else first_of(results)

    with local(root) as rt:
        leave()
        assert capsys.readouterr().err == "june: stopped, 1 input is done. The same program goes on from here: name='june'\n"
        leave(progress=False)
        list(rt.map(["a", "b", "c"], name="june"))
        assert capsys.readouterr().err == ""


def test_a_map_ends_with_its_runtime(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path, after_s=30)
    with local(root) as rt:
        turns = rt.map(["a", "b"])
    with pytest.raises(RuntimeClosedError):
        list(turns)


def test_answers_have_the_type_of_the_map(local: Deploy) -> None:
    root = LlmAgent(name="counter", model=PatternModel([("seven", {"call": "x"})], default="7"))
    with local(root) as rt:
        assert [result.output for result in rt.map(["a"])] == ["7"]
    json = LlmAgent(name="counter", model=PatternModel([("bad", "?")], default='{"n": 7}'), output_schema=Number)
    with local(json, app_name="typed") as rt:
        good, bad = rt.map(["good", "bad"], in_order=True)
        assert good.output == Number(n=7)
        assert isinstance(bad.error, OutputSchemaError)


def test_the_wrong_arguments_are_named(local: Deploy, tmp_path: Path) -> None:
    _, root = noted(tmp_path)
    with local(root) as rt:
        with pytest.raises(RequestError, match="concurrency must be a whole number from 1 on"):
            rt.map([], concurrency=0)
        with pytest.raises(RequestError, match="at most 128 characters"):
            rt.map([], name="x" * 129)
        with pytest.raises(RequestError, match="on_leave must be one of"):
            rt.map([], on_leave="stop")  # type: ignore[arg-type]
        with pytest.raises(InvalidMessageError):
            raise next(iter(rt.map([b"bytes"]))).error or AssertionError
