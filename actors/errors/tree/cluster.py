"""Errors of the cluster: an actor, its machine or the deployment is not there."""

from __future__ import annotations

from actors.errors.base import RaygroveError
from actors.errors.tree.turns import TurnError


class ClusterError(RaygroveError):
    """An actor, its machine or the deployment is not there. Arguments: the message."""


class FencedError(ClusterError):
    """A run wrote to a turn that was taken over or has ended, and must stop. Arguments: id of the turn, the run's epoch."""

    sentence = "turn {0!r} is no longer written with epoch {1}: it was taken over or has ended"


class ActorLostError(ClusterError):
    """An actor's process is gone. Arguments: actor, reason."""

    sentence = "{0} is gone: {1}"


class ActorRestartsError(ActorLostError):
    """An actor's process is gone, and Ray is starting it again. Arguments: actor, reason."""

    sentence = "{0} was lost and is being started again: {1}"


class AgentLostError(ActorLostError, TurnError):
    """The turn has failed, as an agent was lost too often; any other loss says nothing of it. Arguments: actor, reason."""


class PlacementError(ClusterError):
    """No node has room for an agent. Arguments: agent, its needs, what the nodes have instead."""

    sentence = "agent {0!r} cannot be placed: it asks for {1}, {2}"


class DeploymentExistsError(ClusterError):
    """The app is already deployed. Arguments: app."""

    sentence = "app {0!r} is already deployed here: join it with Runtime.connect({0!r}), stop it first, or use another app_name"


class DeploymentNotFoundError(ClusterError, LookupError):
    """The app is not deployed. Arguments: app, Ray namespace, the apps that are deployed there."""

    sentence = "app {0!r} is not deployed in Ray namespace {1!r}. {2}"


class ProtocolMismatchError(ClusterError):
    """The app runs on a release that speaks otherwise. Arguments: app, then release and protocol, its and ours."""

    sentence = (
        "app {0!r} runs on {1}, which speaks version {2} of the protocol, and this program has {3}, which speaks version {4}: "
        "start this program with the other release, or upgrade the app"
    )


class RuntimeClosedError(ClusterError):
    """The runtime was not started, or is closed. Arguments: app, which of both: "was not started" or "is closed"."""

    sentence = "the runtime of app {0!r} {1}: use it inside its 'with' block"


class ForkedProcessError(RuntimeClosedError):
    """A forked process has used the Runtime of the process that it was forked from. Arguments: app, process id of that one."""

    sentence = (
        "the runtime of app {0!r} belongs to process {1}, of which this one is a fork: "
        "start processes with 'spawn' instead, and join the app there with Runtime.connect"
    )
