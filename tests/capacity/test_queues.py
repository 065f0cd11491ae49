"""The queues, held to what queueing theory says of them; and the gate of a Runner, which lets turns in as the real one does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.messages.session import SessionKey
from actors.runner import admission as real
from actors.runner.environment import RunnerEnvironment
from tests.capacity.gates import GatePlace, TurnGate
from tests.capacity.queues import SLICE_S, CommitLog, Cores, Gate, Process, SimulatedTime, Then, play
from tests.support.fixtures.session_fixture import settled
from tests.support.tries import tries

Steps = list[tuple[str, int, int]]
STEP = st.tuples(st.sampled_from(["come", "come", "leave"]), st.integers(0, 5), st.integers(0, 1))
"""Who comes, by user and session; or the number of the one that leaves."""


class Station:
    """One process that takes one message in a pass, and the times of its messages."""

    def __init__(self, rate: float, service_s: Callable[[], float], *, seed: int = 1, cores: int = 1) -> None:
        self.time = SimulatedTime()
        self.cores = Cores(self.time, cores)
        self.process = Process(self.time, self.cores, at_once=1)
        self.times_s: list[float] = []
        self.inside_s = 0.0
        self._since_s = 0.0
        self._inside = 0
        self._rate = rate
        self._service_s = service_s
        self._chance = Random(seed)

    def serve(self, messages: int) -> None:
        """Have so many messages come at any times, and go."""
        self._arrive(messages)
        self.time.run()

    def _arrive(self, left: int) -> None:
        began_s = self.time.now_s
        self._count(1)

        def end() -> None:
            self._count(-1)
            self.times_s.append(self.time.now_s - began_s)

        play(iter([self.process.take(self._service_s())]), end)
        if left > 1:
            self.time.call_in(self._chance.expovariate(self._rate), lambda: self._arrive(left - 1))

    def _count(self, more: int) -> None:
        self.inside_s += self._inside * (self.time.now_s - self._since_s)
        self._since_s = self.time.now_s
        self._inside += more


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_a_message_is_in_an_m_m_1_queue_for_as_long_as_theory_says(load: float) -> None:
    chance, mean_s = Random(2), SLICE_S / 100
    station = Station(load / mean_s, lambda: chance.expovariate(1 / mean_s))
    station.serve(20_000)
    assert mean(station.times_s) == pytest.approx(mean_s / (1 - load), rel=0.1)


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_a_message_waits_half_as_long_when_all_take_the_same_time(load: float) -> None:
    mean_s = SLICE_S / 100
    station = Station(load / mean_s, lambda: mean_s)
    station.serve(20_000)
    assert mean(station.times_s) - mean_s == pytest.approx(mean_s * load / (1 - load) / 2, rel=0.1)


@settings(deadline=None)
@given(load=st.floats(0.05, 0.9), mean_s=st.floats(1e-5, 1e-2), seed=st.integers(0, 1_000))
def test_the_number_inside_is_the_rate_times_the_time_inside(load: float, mean_s: float, seed: int) -> None:
    chance = Random(seed)
    station = Station(load / mean_s, lambda: chance.expovariate(1 / mean_s), seed=seed)
    station.serve(300)
    took_s = station.time.now_s
    assert station.inside_s / took_s == pytest.approx(len(station.times_s) / took_s * mean(station.times_s))


@settings(deadline=None)
@given(
    messages=st.lists(st.tuples(st.integers(0, 3), st.floats(0, 0.02), st.floats(0, 0.01)), min_size=1, max_size=60),
    cores=st.integers(1, 4),
    pass_s=st.sampled_from([0.0, 0.001]),
    takeover_s=st.sampled_from([0.0, 0.002, 9.0]),
)
def test_all_cpu_that_is_asked_for_is_had_and_no_core_works_for_two(
    messages: list[tuple[int, float, float]], cores: int, pass_s: float, takeover_s: float
) -> None:
    time = SimulatedTime()
    node = Cores(time, cores, takeover_s=lambda: takeover_s)
    processes = [Process(time, node, pass_s=pass_s) for _ in range(4)]
    done: list[float] = []

    def send(number: int, cpu_s: float) -> None:
        play(iter([processes[number].take(cpu_s)]), lambda: done.append(time.now_s))

    for number, at_s, cpu_s in messages:
        time.call_in(at_s, partial(send, number, cpu_s))
    time.run()
    asked_s = sum(cpu_s for *_, cpu_s in messages) + pass_s * sum(each.passes for each in processes)
    assert len(done) == len(messages) == sum(each.messages for each in processes)
    assert node.used_s == pytest.approx(asked_s)
    assert sum(each.used_s for each in processes) == pytest.approx(asked_s)
    assert node.used_s <= cores * time.now_s + 1e-9
    assert all(each.used_s <= time.now_s + 1e-9 for each in processes)


def test_work_on_a_slower_core_takes_longer_and_uses_no_more() -> None:
    time = SimulatedTime()
    cores = Cores(time, 1, speed=0.25)
    play(iter([Process(time, cores).take(0.01)]))
    time.run()
    assert time.now_s == pytest.approx(0.04)
    assert cores.used_s == pytest.approx(0.01)


def test_processes_that_share_a_core_run_by_turns() -> None:
    time = SimulatedTime()
    cores = Cores(time, 1)
    ended: dict[str, float] = {}

    def run(name: str, slices: int) -> None:
        play(iter([Process(time, cores).take(slices * SLICE_S)]), lambda: ended.update({name: time.now_s}))

    run("long", 10)
    run("short", 1)
    time.run()
    assert ended == {"short": pytest.approx(2 * SLICE_S), "long": pytest.approx(11 * SLICE_S)}


@pytest.mark.parametrize("takeover_s", [0.0, 0.003, 0.006])
def test_a_core_that_has_nothing_to_do_takes_over_what_waits_for_another_one_after_its_time(takeover_s: float) -> None:
    time = SimulatedTime()
    cores = Cores(time, 2, takeover_s=lambda: takeover_s)
    first, second = Process(time, cores), Process(time, cores)
    second.seat.core = first.seat.core

    def both_take(cpu_s: float) -> float:
        """Both ran on the same core last, or each on one of its own. Returns how long they take together."""
        began_s = time.now_s
        for process in (first, second):
            play(iter([process.take(cpu_s)]))
        time.run()
        return time.now_s - began_s

    # One of them runs at a time until then.
    assert both_take(10 * SLICE_S) == pytest.approx(10 * SLICE_S + takeover_s / 2, abs=SLICE_S / 2 + 1e-9)
    assert first.seat.core != second.seat.core
    assert both_take(10 * SLICE_S) == pytest.approx(10 * SLICE_S)


def test_a_core_that_has_no_more_to_do_looks_for_what_waits_for_another_one() -> None:
    time = SimulatedTime()
    cores = Cores(time, 2, takeover_s=lambda: SLICE_S)
    early, late, third = (Process(time, cores) for _ in range(3))
    ended: dict[str, float] = {}
    for name, process, cpu_s in (("early", early, 3 * SLICE_S), ("late", late, SLICE_S / 2), ("third", third, 3 * SLICE_S)):
        play(iter([process.take(cpu_s)]), partial(lambda name: ended.update({name: time.now_s}), name))
    time.run()
    # Half a slice until its core is free, and one until it has found what waits.
    assert ended["late"] == pytest.approx(SLICE_S / 2)
    assert max(ended.values()) == pytest.approx((3 + 1.5 / 2) * SLICE_S, abs=SLICE_S / 2 + 1e-9)


def test_a_process_takes_all_that_came_while_it_waited_for_a_core_in_one_pass() -> None:
    time = SimulatedTime()
    cores = Cores(time, 1)
    process = Process(time, cores, pass_s=0.001)
    play(iter([Process(time, cores).take(0.003)]))
    for at_s in (0.0, 0.001, 0.002):
        time.call_in(at_s, lambda: play(iter([process.take(0.001)])))
    time.run()
    assert (process.passes, process.messages) == (1, 3)
    assert time.now_s == pytest.approx(0.007)


def test_threads_of_one_process_run_one_at_a_time_though_a_core_is_free() -> None:
    time = SimulatedTime()
    cores = Cores(time, 2)
    interpreter = Gate(1)
    for _ in range(2):
        play(iter([Process(time, cores, interpreter=interpreter).take(0.01)]))
    time.run()
    assert time.now_s == pytest.approx(0.02)


def test_a_gate_lets_so_many_in_and_the_others_in_their_order() -> None:
    gate, inside = Gate(2), list[int]()
    for number in range(4):
        gate.enter(partial(inside.append, number))
    assert inside == [0, 1]
    gate.leave()
    gate.leave()
    gate.leave()
    gate.enter(lambda: inside.append(4))
    assert inside == [0, 1, 2, 3, 4]


def test_what_comes_during_a_transaction_is_written_with_the_next_one() -> None:
    time = SimulatedTime()
    groups: list[int] = []

    def transaction(writes: int) -> list[Callable[[Then], None]]:
        groups.append(writes)
        return [time.pause(1.0)]

    log = CommitLog(time, lambda writes: iter(transaction(writes)))
    ended: list[float] = []
    for at_s in (0.0, 0.1, 0.2, 1.5):
        time.call_in(at_s, lambda: log.write(lambda: ended.append(time.now_s)))
    time.run()
    assert (groups, log.commits) == ([1, 2, 1], 3)
    assert ended == [1.0, 2.0, 2.0, 3.0]


def come_in(gate: TurnGate, steps: Steps) -> list[int]:
    """The turns that came in, by their numbers, in their order."""
    inside: list[int] = []
    places: dict[int, GatePlace] = {}
    for number, (what, user, session) in enumerate(steps):
        if what == "come":
            places[number] = gate.place(user, session)
            places[number].enter(lambda number=number: inside.append(number))  # type: ignore[misc]
        elif inside:
            places[inside[user % len(inside)]].leave()
    return inside


async def really_come_in(gate: real.TurnGate, steps: Steps) -> list[int]:
    inside: list[int] = []
    places: dict[int, real.OpenSlot] = {}
    tasks: list[asyncio.Task[None]] = []

    async def enter(number: int, user: int, session: int) -> None:
        turn = (SessionKey("app", f"{user}", f"{session}"), f"e-{number}")
        places[number] = await gate.enter(turn)
        inside.append(number)

    for number, (what, user, session) in enumerate(steps):
        if what == "come":
            tasks.append(asyncio.create_task(enter(number, user, session)))
        elif inside:
            places[inside[user % len(inside)]].release()
        await settled()
    for task in tasks:
        task.cancel()
    return list(inside)


@given(least=st.integers(1, 3), most=st.integers(0, 5), steps=st.lists(STEP, max_size=40))
@settings(deadline=None, max_examples=tries(40))
def test_turns_come_in_in_the_order_of_the_real_one(least: int, most: int, steps: Steps) -> None:
    assert come_in(TurnGate(SimulatedTime(), least, most), steps) == asyncio.run(
        really_come_in(real.TurnGate(least, of_many=most), steps)
    )


def test_it_opens_as_many_as_a_runner_does_few_for_one_user_and_more_for_many() -> None:
    few, many = RunnerEnvironment.turns_opened_at_once, RunnerEnvironment.turns_of_many_opened_at_once
    assert few < many
    asked = 3 * many
    assert len(come_in(TurnGate(SimulatedTime()), [("come", 0, session) for session in range(asked)])) == few
    assert len(come_in(TurnGate(SimulatedTime()), [("come", user, 0) for user in range(asked)])) == many


def test_who_is_inside_for_too_long_lets_the_next_one_in_and_time_does_not_pass_for_that_alone() -> None:
    time = SimulatedTime()
    gate, inside = TurnGate(time, 1, 1), list[tuple[int, float]]()
    for number in range(3):
        gate.place(number, number).enter(lambda number=number: inside.append((number, time.now_s)))  # type: ignore[misc]
    time.run()
    assert (inside, time.now_s) == ([(0, 0.0)], 0.0)
    time.call_in(9 * real.HOLD_S, lambda: None)
    time.run()
    assert inside == [(0, 0.0), (1, real.HOLD_S), (2, 2 * real.HOLD_S)]
    assert time.now_s == 9 * real.HOLD_S


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
