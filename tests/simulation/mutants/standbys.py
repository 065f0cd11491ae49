"""Defects of Runners that have a standby: which of two processes that live at once runs the turns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

import msgspec

from actors.messages import protocol as p
from actors.runner.actor import RunnerActor
from actors.runner.turns.place import RunnerPlace
from actors.session.turns.runners import Runners


@contextmanager
def terms_mean_nothing() -> Iterator[None]:
    """A Runner that was replaced while it lives takes its place back."""
    announce: Any = Runners.announce

    def by_number(self: Runners, runner: str, number: int, term: int = 0) -> p.AnnounceFirst | None:
        found: p.AnnounceFirst | None = announce(self, runner, number, max(term, self._place(runner).term))
        return found

    with replaced_runners_live_on(), mock.patch.object(Runners, "announce", by_number):
        yield


@contextmanager
def standbys_have_no_term() -> Iterator[None]:
    """A standby that takes the place has the term that it was built with, which is before all others."""
    recover: Any = RunnerActor.recover_turns

    async def without(self: RunnerActor, message: p.RecoverTurns) -> p.Ack:
        acked: p.Ack = await recover(self, msgspec.structs.replace(message, term=0))
        return acked

    with terms_go_by_clocks_alone(), mock.patch.object(RunnerActor, "recover_turns", without):
        yield


def terms_go_by_clocks_alone() -> AbstractContextManager[object]:
    """A Runner takes every later term for that of another one that lives, also of one that was lost and whose clock was ahead."""
    return mock.patch.object(RunnerPlace, "takes_over", property(lambda self: False, lambda self, given: None), create=True)


def replaced_runners_live_on() -> AbstractContextManager[object]:
    """A Runner that learns that a later one has its place does not end."""
    begin: Any = RunnerPlace.__init__

    def careless(self: RunnerPlace, runner_id: str, shard: Any, term: int = 0, on_replaced: Any = None) -> None:
        begin(self, runner_id, shard, term)

    return mock.patch.object(RunnerPlace, "__init__", careless)
