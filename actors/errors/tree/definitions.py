"""Errors of definitions: an agent, a tool, a flow or the tree is defined wrongly."""

from __future__ import annotations

from actors.errors.base import RaygroveError


class DefinitionError(RaygroveError, ValueError):
    """An agent, a tool, a flow or the tree is defined wrongly. Arguments: the message."""


class AgentTreeError(DefinitionError):
    """The agents form no tree, or do not fit together in it. Arguments: what is wrong."""

    sentence = "failed to create agent tree: {0}"


class GraphValidationError(DefinitionError):
    """The nodes and edges of a graph form none that can run. Arguments: the message."""


class WorkflowConfigurationError(DefinitionError):
    """A node or an edge of a graph is written wrongly. Arguments: the message."""


class NotCarriedOverError(DefinitionError):
    """A program written for google-adk has asked for something that has no counterpart here. Arguments: the message."""


class UnknownModelError(DefinitionError):
    """A model's name is not known. Arguments: agent, model, which names are."""

    sentence = "agent {0!r}: no model is known by the name {1!r}. {2}"
