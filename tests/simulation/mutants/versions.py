"""Defects of updates: which version of the tree a turn runs by, and which actors serve its agents."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec

from actors.interfaces.records import TurnRow
from actors.messages import protocol as p
from actors.rules.versions import changing
from actors.session.environment import SessionEnvironment
from actors.session.log.session_log import SessionLog
from actors.session.store.access import StoreAccess
from actors.session.versions import SessionVersions
from runtime.engine import local_agents


def turns_that_go_on_get_the_current_version() -> AbstractContextManager[object]:
    """A turn that goes on after a pause or a loss does so by the tree that new turns get."""

    def of_open(self: SessionVersions, log: SessionLog, row: TurnRow) -> str:
        return self.of_new(log)

    return mock.patch.object(SessionVersions, "of_open", of_open)


def restarted_session_actors_forget_updates() -> AbstractContextManager[object]:
    """A Session actor that is started again gives new turns the tree with which the deployment was started."""
    begin: Any = SessionVersions.__init__

    def forgetful(self: SessionVersions, environment: SessionEnvironment, access: StoreAccess) -> None:
        begin(self, environment, access)
        if environment.versions.number:
            self._record = msgspec.structs.replace(environment.versions, number=0, current=environment.version, share=None)

    return mock.patch.object(SessionVersions, "__init__", forgetful)


def changed_agents_keep_their_actors() -> AbstractContextManager[object]:
    """An agent that an update has changed is served by the actor that it had."""
    return mock.patch.object(local_agents, "marks_of", return_value={})


def trees_of_open_turns_are_given_up() -> AbstractContextManager[object]:
    """An update gives up the trees of turns that are open or paused."""
    kept: Any = changing._kept

    def forgetful(*arguments: Any, **named: Any) -> Any:
        before = list(arguments)
        # The versions in use.
        before[4] = ()
        return kept(*before, **named)

    return mock.patch.object(changing, "_kept", forgetful)


def older_records_are_taken() -> AbstractContextManager[object]:
    """A Session actor goes by a record of versions that comes late, after a newer one."""

    async def use_versions(self: SessionVersions, message: p.UseVersions) -> p.Ack:
        self._record = message.record
        for version in message.record.ids:
            if version not in self._known and self._source is not None:
                self._known[version] = await self._source.version(version)
        return p.Ack()

    return mock.patch.object(SessionVersions, "use_versions", use_versions)
