"""What becomes of a tree of google-adk. It needs no google-adk itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.definitions.agents import BaseAgent, Plugin
from actors.layers.compaction.definitions import EventsCompactionConfig


@dataclass(frozen=True)
class Adapted:
    """What `from_adk` has made. `Runtime(adapted, …)` takes it whole.

    Attributes:
        root_agent: the tree, for `Runtime(root_agent, …)`.
        plugins: those of the App, for `Runtime(…, plugins=…)`.
        events_compaction_config: that of the App, for `Runtime(…, events_compaction_config=…)`; None without one.
        notes: what is done in another way than by ADK, a sentence each; empty for most trees.
        is_resumable: the App is resumable, so clients of ADK get events that say how far agents are.
    """

    root_agent: BaseAgent
    plugins: Sequence[Plugin] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    events_compaction_config: EventsCompactionConfig | None = None
    is_resumable: bool = False
