"""Which trees of a deployment another release of raygrove can load."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from actors.messages.operating.versions import VersionRecord
from runtime.cluster.deployment.kept_versions import KeptVersions
from runtime.cluster.packing.definitions import unpack
from runtime.cluster.packing.importing import unpickle
from runtime.cluster.packing.versions import PackedVersion

logger = logging.getLogger(__name__)


def loadable_trees(kept: KeptVersions, record: VersionRecord) -> Sequence[str]:
    """The versions in a record whose trees are kept, and of which this process can load all. It blocks its thread."""
    return [version for version in record.ids if _can_load(kept, version)]


def _can_load(kept: KeptVersions, version: str) -> bool:
    try:
        packed: PackedVersion = kept.content(version)
        for definition in packed.tree.definitions.values():
            unpack(definition)
        for pickled in (packed.plugins, *packed.plans.values()):
            unpickle(pickled)
    except Exception as error:
        # Unpickling runs users' modules and those of another release, which may raise anything.
        logger.info("version %s of the tree cannot be kept: %s: %s", version, type(error).__name__, error)
        return False
    return True
