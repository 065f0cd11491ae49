"""The versions of an app's tree."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from actors.messages.operating.versions import VersionInfo
from runtime.frontends.web.operations.call import Call
from runtime.frontends.web.operations.operation import HttpOperation


class VersionList(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of its tree that a deployment keeps, the newest first."""

    versions: Sequence[VersionInfo]


async def list_tree_versions(call: Call) -> VersionList:
    """List the versions of its tree that the deployment keeps. For administrators."""
    call.principal.check_admin()
    return VersionList(versions=await call.runtime.aio.versions())


OPERATIONS = [HttpOperation("GET", "/v1/apps/{app}/versions", list_tree_versions, gives=VersionList, users="none")]
"""What can be asked about versions."""
