"""Errors of requests: what a driver asks for is refused, and nothing is stored."""

from __future__ import annotations

from actors.errors.base import RaygroveError


class RequestError(RaygroveError):
    """The driver's request is refused; nothing was stored. Arguments: the message."""


class InvalidMessageError(RequestError, ValueError):
    """The message of a turn cannot be used. Arguments: the error message."""


class InputSchemaError(RequestError, ValueError):
    """The message of a turn does not fit the input_schema of the root. Arguments: the root, what does not fit."""

    sentence = "the message does not fit the input_schema of {0!r}: {1}"


class InvalidIdError(RequestError, ValueError):
    """A name or id is not valid. Arguments: what it names, the value, the rule."""

    sentence = "{0} {1!r} is not valid: {2}"


class SessionNotFoundError(RequestError, LookupError):
    """The session does not exist. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} not found in app {0!r}: create it first, or leave auto_create_session on"


class RepeatMismatchError(RequestError):
    """The turn of that id began with another request. Arguments: invocation id, session."""

    sentence = "turn {0!r} of session {1!r} began with another request: give a new request an id of its own"


class SessionExistsError(RequestError):
    """A session with that id exists already. Arguments: app, user, session."""

    sentence = "session {2!r} of user {1!r} exists already in app {0!r}"


class SessionBusyError(RequestError):
    """A turn runs, and the next one has on_concurrent_turn="reject", or the session has to rest. Arguments: session, turn."""

    sentence = (
        "session {0!r} is busy with turn {1!r}: wait for it, or cancel it. "
        "A new turn waits in line with on_concurrent_turn='enqueue', and takes its place with 'interrupt'"
    )


class TurnStateError(RequestError):
    """What is asked for does not go with the state that the turn, or a call in it, has now. Arguments: the message."""


class OverloadedError(RequestError):
    """As much waits as may. Arguments: whose line is full, what waits in it, the setting that bounds it, seconds to wait."""

    sentence = "{0} has {1} waiting, and {2} allows no more: ask again in {3} s"

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the same is asked again."""
        return float(str(self.args[3]))


class DrainingError(OverloadedError):
    """The deployment is to be stopped and takes no new turns. Arguments: app, seconds to wait."""

    sentence = "app {0!r} is to be stopped and takes no new turns: ask again in {1} s, when its next deployment may run"

    @property
    def retry_after_s(self) -> float:
        """Seconds to wait before the same is asked again."""
        return float(str(self.args[1]))


class UpgradingError(DrainingError):
    """The deployment was stopped for another version of raygrove, which starts just now. Arguments: app, seconds to wait."""

    sentence = "app {0!r} is being upgraded, and starts again just now: ask again in {1} s"


class UnknownFunctionCallError(RequestError, LookupError):
    """A function response answers a call that is not in the log. Arguments: id of the call, session."""

    sentence = "no function call with the id {0!r} was made in session {1!r}: a response needs the id of a call in its log"


class UnknownAgentError(RequestError, LookupError):
    """No agent in the tree has that name. Arguments: name, hint, which begins with a space."""

    sentence = "agent {0!r} is not in the tree.{1}"


class InvocationNotFoundError(RequestError, LookupError):
    """The session has no such turn. Arguments: id of the turn, session."""

    sentence = "invocation {0!r} not found in session {1!r}: rt.turns.list(user_id, session_id) has the turns that are there"


class FlowNotFoundError(RequestError, LookupError):
    """This deployment does not know the definition of a flow. Arguments: the name under which it was given."""

    sentence = (
        "the definition of flow {0!r} is not known here any more: give the flow again, with run_flow and the same invocation_id, "
        "or with the answer that its turn waits for"
    )


class NotEncodableError(RequestError, TypeError):
    """A value has no wire form. Arguments: type, reason."""

    sentence = "a {0} cannot be sent or stored: {1}"


class TooLargeError(RequestError, ValueError):
    """Something has more bytes than a limit allows. Arguments: what, its size, the setting, the setting's value, advice."""

    sentence = "{0} has {1} bytes, and {2} allows {3}: {4}"


class InvalidScheduleError(RequestError, ValueError):
    """A schedule cannot be as it was asked for. Arguments: what of it, why not."""

    sentence = "{0} cannot be used: {1}"


class ScheduleExistsError(RequestError):
    """The user has a schedule of that name already. Arguments: name, user."""

    sentence = "user {1!r} has a schedule {0!r} already: delete it first, or choose another name"


class ScheduleNotFoundError(RequestError, LookupError):
    """The user has no schedule of that name. Arguments: name, user, hint, which begins with a space."""

    sentence = "user {1!r} has no schedule {0!r}.{2}"


class RunNotFoundError(RequestError, LookupError):
    """The session has started no such background run. Arguments: run, session, hint, which begins with a space."""

    sentence = "session {1!r} has no background run {0!r}.{2}"


class TooManyRunsError(RequestError):
    """As many background runs are under way as may. Arguments: session, how many, the option that bounds them."""

    sentence = "session {0!r} {1}, and Background({2}) allows no more"


class TooManySchedulesError(RequestError):
    """The user has as many schedules as may be. Arguments: user, how many, the setting that bounds them."""

    sentence = "user {0!r} has {1} schedules, and {2} allows no more: delete one first"


class UpdateConflictError(RequestError):
    """Another program has updated the deployment meanwhile. Arguments: app."""

    sentence = "app {0!r} was updated by another program at the same time: look at its tree, and update it again"


class UpdateRefusedError(RequestError):
    """The deployment cannot be given another tree. Arguments: app, reason, what to do."""

    sentence = "app {0!r} cannot be updated: {1}. {2}"


class UpgradeRefusedError(RequestError):
    """Another version of raygrove cannot go on with the deployment. Arguments: app, reason, what to do."""

    sentence = "app {0!r} cannot be upgraded: {1}. {2}"
