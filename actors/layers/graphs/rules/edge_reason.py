"""Why edges of a graph were taken, or were not (semantics.md section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from actors.messages.graph import Route
from actors.messages.shown import Shown

EdgeBecause = Literal["always", "route", "default", "other", "silent", "patient"]
"""Why an edge was taken or not, see EdgeReason."""


class EdgeReason(Shown, msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Why an edge of a graph was taken, or was not, when the node before it had ended.

    Attributes:
        graph, path: the graph, and the path of its run.
        source, target: the nodes; START before the first ones.
        taken: the edge was taken.
        because: it has no route ("always"), the node said its route ("route"), or none that another edge asks for ("default").
            It was not taken as the node said other routes ("other") or none ("silent"), or leads on only with an output, of which
            it had none ("patient").
        said: the routes that the node said.
        source_run: the run of the node that ended, such as `a@2`; "" for START.
        target_run: the run that began; "" where none did.
        lacks: of a join that did not begin yet, the nodes for which it waited.
        seq: position of the event with which the node ended; 0 for START.
    """

    graph: str
    path: str
    source: str
    target: str
    taken: bool
    because: EdgeBecause
    said: Sequence[Route] = ()
    source_run: str = ""
    target_run: str = ""
    lacks: Sequence[str] = ()
    seq: int = 0
