"""Log records name their runs, keep what they say on their way to another process, and wait in a hub for readers."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.interfaces.telemetry import NO_RUN, RunFacts, current_run, enter_run, in_run
from runtime.cluster import logs as hubs
from runtime.cluster.logs import LogHub
from runtime.observability.logs.lines import by_time, decode_lines, encode_lines, line_of, mark_records, printed_text, record_of

RUN = RunFacts("desk", "ada", "s1", "e-1")
FORMAT = logging.Formatter("%(agent)s %(user_id)s %(session_id)s %(invocation_id)s %(message)s")


class Unprintable:
    def __repr__(self) -> str:
        raise SystemExit


@pytest.fixture(autouse=True)
def marking() -> Iterator[None]:
    before = logging.getLogRecordFactory()
    mark_records()
    yield
    logging.setLogRecordFactory(before)


def logged(caplog: pytest.LogCaptureFixture, *args: object, **options: object) -> logging.LogRecord:
    logging.getLogger("shop").warning(*args, **options)  # type: ignore[arg-type]
    return caplog.records[-1]


def test_a_record_names_its_run(caplog: pytest.LogCaptureFixture) -> None:
    with in_run(RUN):
        record = logged(caplog, "hello %s", "you")
    assert (record.agent, record.invocation_id) == ("desk", "e-1")  # type: ignore[attr-defined]
    assert FORMAT.format(record) == "desk ada s1 e-1 hello you"
    assert FORMAT.format(logged(caplog, "hello")) == "    hello"


def test_what_a_caller_gives_of_the_same_name_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    with in_run(RUN):
        assert FORMAT.format(logged(caplog, "hi", extra={"user_id": "bob", "agent": 7})) == "7 bob s1 e-1 hi"


def test_records_are_marked_once() -> None:
    made = logging.getLogRecordFactory()
    mark_records()
    assert logging.getLogRecordFactory() is made


async def test_tasks_and_threads_of_a_run_belong_to_it() -> None:
    async def run() -> tuple[RunFacts, RunFacts]:
        enter_run(RUN)
        return await asyncio.create_task(asyncio.sleep(0, current_run())), await asyncio.to_thread(current_run)

    assert await asyncio.create_task(run()) == (RUN, RUN)
    assert current_run() is NO_RUN


def test_a_record_travels(caplog: pytest.LogCaptureFixture) -> None:
    with in_run(RUN):
        try:
            raise ValueError("no")
        except ValueError:
            record = logged(caplog, "order %d", 42, exc_info=True, extra={"order": 42, "odd": object(), "large": 2**70})
    (line,) = decode_lines(encode_lines([line_of(record, RUN)]))
    copy = record_of(line)
    assert FORMAT.format(copy) == FORMAT.format(record)
    assert FORMAT.format(copy).endswith("ValueError: no")
    same = ("name", "levelname", "lineno", "pathname", "funcName", "process", "threadName", "created")
    assert [getattr(copy, name) for name in same] == [getattr(record, name) for name in same]
    assert copy.order == 42  # type: ignore[attr-defined]
    assert not {"odd", "large"} & vars(copy).keys()


def test_records_that_cannot_be_formatted_travel_as_well(caplog: pytest.LogCaptureFixture) -> None:
    record = logging.LogRecord("shop", logging.INFO, "", 1, "%d pieces", ("no number",), None)
    assert line_of(record, RUN).text.startswith("%d pieces (its arguments do not fit: ")
    assert "%s is odd" in line_of(logging.LogRecord("shop", logging.INFO, "", 1, "%s is odd", (Unprintable(),), None), RUN).text
    surrogate = line_of(logging.LogRecord("shop", logging.INFO, "", 1, "\udcff" * 9_999, (), None), RUN)
    assert len(decode_lines(encode_lines([surrogate]))[0].text) < 5_000


def test_a_print_names_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    assert printed_text(line_of(logged(caplog, "hi"), RUN), "shop") == "shop.desk: hi"


def test_nothing_heavy_is_loaded_with_it() -> None:
    modules = "runtime.observability.logs.capture, runtime.observability.logs.sinks"
    code = f"import sys, {modules}; print({{'ray', 'sqlalchemy'}} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


MADE = st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 100)), max_size=30)


def ordered(made: list[tuple[str, float]]) -> list[tuple[str, float]]:
    return list(by_time(made, lambda each: each[1], lambda each: each[0]))


def test_a_process_whose_clock_was_set_back_keeps_its_order() -> None:
    made = [("a", 10.0), ("a", 5.0), ("a", 11.0), ("b", 7.0), ("b", 10.5)]
    assert ordered(made) == [("b", 7.0), ("a", 10.0), ("a", 5.0), ("b", 10.5), ("a", 11.0)]


@given(MADE)
def test_nothing_is_lost_and_no_process_is_jumbled(made: list[tuple[str, float]]) -> None:
    found = ordered(made)
    assert sorted(found) == sorted(made)
    for name in "abc":
        assert [each for each in found if each[0] == name] == [each for each in made if each[0] == name]


@given(MADE)
def test_by_clocks_that_go_forward_it_is_the_order_of_the_times(made: list[tuple[str, float]]) -> None:
    made.sort(key=lambda each: each[1])
    assert ordered(made) == made


async def test_readers_get_what_came_since_they_asked_last() -> None:
    hub = LogHub()
    hub.put_batch(b"a")
    late = await hub.page("", 0, 0.0)
    assert (late.batches, late.next) == ([], 1)
    first = await hub.page("another hub", 7, 0.0)
    assert (first.batches, first.next, first.lost) == ([b"a"], 1, 0)
    waiting = asyncio.create_task(hub.page(late.hub, late.next, 30.0))
    await asyncio.sleep(0)
    await asyncio.to_thread(hub.put_batch, b"b")
    assert (await waiting).batches == [b"b"]
    assert (await hub.page(first.hub, 2, 0.001)).batches == []


async def test_what_is_too_much_is_dropped_and_counted() -> None:
    hub = LogHub()
    for _ in range(5):
        hub.put_batch(b"x" * (hubs.MAX_BYTES // 2))
    page = await hub.page("first", 0, 0.0)
    assert (len(page.batches), page.lost, page.next) == (2, 3, 5)
