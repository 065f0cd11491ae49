"""Defects of updates: what loses a turn, or has it run by another version than the one that it began with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from actors.messages.operating.versions import VersionRecord
from actors.rules.versions import changing
from actors.runner.dispatch.versions import TurnVersions, VersionParts
from runtime.driver.updates import methods
from tests.simulation.mutants.versions import (
    older_records_are_taken,
    restarted_session_actors_forget_updates,
    trees_of_open_turns_are_given_up,
    turns_that_go_on_get_the_current_version,
)
from tests.simulation.updates import world


def changed_agents_are_taken_for_the_same() -> AbstractContextManager[object]:
    """An agent that an update has changed is served by the actor that it had."""
    return mock.patch.object(world, "marks_of", return_value={})


def turns_run_by_what_new_ones_get() -> AbstractContextManager[object]:
    """A Runner has turns go on by the version that new turns get."""

    def of(self: TurnVersions, version: str) -> VersionParts:
        return self.current

    return mock.patch.object(TurnVersions, "of", of)


def rollbacks_forget_what_is_in_use() -> AbstractContextManager[object]:
    """A rollback gives up the trees of turns that are open or paused."""
    rolled_back: Any = changing.rolled_back
    return mock.patch.object(methods, "rolled_back", lambda record, _: rolled_back(record, ()))


def session_actors_are_not_told_of_updates() -> AbstractContextManager[object]:
    """A Session actor learns of an update only when it is started again."""

    async def tell(client: Any, record: VersionRecord) -> None:
        await client.engine.runner.use_versions(record)

    return mock.patch.object(methods, "_tell", tell)


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    each.__name__: each
    for each in (
        changed_agents_are_taken_for_the_same,
        turns_run_by_what_new_ones_get,
        rollbacks_forget_what_is_in_use,
        session_actors_are_not_told_of_updates,
        turns_that_go_on_get_the_current_version,
        restarted_session_actors_forget_updates,
        trees_of_open_turns_are_given_up,
        older_records_are_taken,
    )
}
"""All of them, by name."""
