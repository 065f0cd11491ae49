"""The tree that a program gives a deployment, checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from actors.definitions.agents import BaseAgent, Plugin
from actors.errors import DefinitionError
from actors.layers.compaction.definitions import EventsCompactionConfig
from actors.layers.flows.definitions import Flow, FlowAgent
from actors.layers.recording.messages import Recording
from actors.layers.trees.tree import Adapted, AgentTree
from runtime.engine.deployment import check_models
from runtime.engine.process.collector import existing_left_out
from runtime.settings import Settings


def checked_tree(
    root_agent: BaseAgent | Flow | object | None,
    app_name: str,
    plugins: Sequence[Plugin],
    settings: Settings,
    mask_requests: Callable[[str], str] | None,
    *,
    islands: bool = False,
    compaction: EventsCompactionConfig | None = None,
) -> AgentTree:
    """The tree below a root agent, a flow, an agent or App of google-adk, or what `from_adk` has made of one.

    Raises:
        DefinitionError: something is missing or wrong; AgentTreeError and UnknownModelError are kinds of it.
    """
    if _is_adk(root_agent):
        from runtime.integrations.adk.convert import from_adk

        root_agent, islands = from_adk(root_agent, app_name=app_name, islands=islands), False
    is_resumable = False
    if isinstance(root_agent, Adapted):
        adapted = root_agent
        root_agent, plugins = adapted.root_agent, (*adapted.plugins, *plugins)
        compaction = compaction or adapted.events_compaction_config
        is_resumable = adapted.is_resumable
    if islands:
        raise DefinitionError("islands goes with agents of google-adk only: leave it out")
    root = FlowAgent(root_agent) if isinstance(root_agent, Flow) else cast("BaseAgent | None", root_agent)
    recording = Recording(settings.record_requests, mask_requests)
    with existing_left_out():
        tree = AgentTree(root, plugins, settings.limits, recording, compaction, is_resumable=is_resumable)
        check_models(tree)
    return tree


def _is_adk(root: object) -> bool:
    """True for an object of google-adk, and for one whose class is a subclass of one there. Imports nothing."""
    return not isinstance(root, BaseAgent) and any(base.__module__.startswith("google.adk.") for base in type(root).__mro__)
