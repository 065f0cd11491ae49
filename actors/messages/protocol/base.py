"""What all messages share, the fencing token of a turn, and the replies that carry nothing of their own.

A request says of itself, once, which replies it gets, which actor answers it, and what it waits for. Clients route by it, the
Session actor's line of queries and its gate for users go by it, and nothing lists messages by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import cache
from typing import Any, ClassVar, Generic, Self, TypeVar, Union, get_args

import msgspec

from actors.messages import codec
from actors.messages.codec import encode
from actors.messages.json_types import JsonValue
from actors.messages.session import SessionKey

PROTOCOL = 1
"""The version of the protocol: programs and deployments with the same version understand each other, whatever their releases.

It is raised when a program of before would be misunderstood: a message or a field of one is gone, or means something else. A
message may get fields that have defaults, and a deployment may get messages that it did not know, without that.
"""


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Common shape of all messages: frozen, and tagged with the name of its class."""


class TurnRef(msgspec.Struct, frozen=True, array_like=True, cache_hash=True, gc=False):
    """Fencing token: a turn, its epoch, and the run that writes. Writes of an older epoch or of an abandoned run are refused.

    Attributes:
        epoch: starts at 1; each time the turn is resumed or continued after a pause, it gets the next one.
        run: the number of an agent's run in that epoch; 0: the Runner itself.
        generation: names the log. A turn may begin under the id of one that was rewound, or deleted with its session; its epochs
            and runs have the same numbers.
    """

    key: SessionKey
    invocation_id: str
    epoch: int
    run: int = 0
    generation: str = ""


class StoredEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An encoded event with its position in the log. Partial events, which are not stored, have position 0."""

    seq: int
    raw: bytes


class Note(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A supervisor's note of its progress on its way to the log, as what it runs brings it along.

    Attributes:
        run: the number of the supervisor's run.
        raw: the event, encoded.
    """

    run: int
    raw: bytes


class Ack(Message, frozen=True, kw_only=True):
    """Empty acknowledgement."""

    @classmethod
    def joined(cls, replies: Sequence[Self]) -> Self:
        """All have done it."""
        return cls()


class ErrorReply(Message, frozen=True, kw_only=True):
    """The reply of an actor that raised.

    Attributes:
        error: the class name of one of this project's errors.
        args: the arguments with which it is raised again on the other side.
        traceback: where users' code failed; "" when it has no part in the error.
    """

    error: str
    args: Sequence[JsonValue] = ()
    traceback: str = ""


_errors = codec.decoder(ErrorReply)

_ERROR_TAG = encode(ErrorReply(error=""))[1:].partition(encode("error"))[0]
"""What follows the number of fields in the bytes of an ErrorReply."""


def error_in(raw: bytes) -> ErrorReply | None:
    """The error that a reply is, in its bytes; None if it is none. Only an error is decoded."""
    return _errors.decode(raw) if raw.startswith(_ERROR_TAG, 1) else None


R = TypeVar("R", bound=Message, covariant=True)


class Route(Enum):
    """Which actor answers a request, of several Session actors, or of several Runners.

    Attributes:
        SESSION: the one that serves the session of the request's `key`, or of its `turn`.
        USER: any one of the store that has the `user`. Without a user it is sent to each store, and the replies are joined.
        USER_ACTORS: each one of the store that has the `user`.
        FIRST: any could answer; the first one does.
        ACTOR: the one that the sender has chosen.
        ALL: each of them; the replies are joined, as with USER_ACTORS.
    """

    SESSION = auto()
    USER = auto()
    USER_ACTORS = auto()
    FIRST = auto()
    ACTOR = auto()
    ALL = auto()


ABOUT_USERS = frozenset({Route.SESSION, Route.USER, Route.USER_ACTORS})
"""Routes of requests about what a user has. Where there are several stores, they are refused by those without the user."""


class Lane(Enum):
    """What a request to a Session actor waits for.

    Attributes:
        QUERY: it only asks, and no turn waits for it: it comes through the line of queries.
        READ: it only asks, and is answered at once.
        BEGIN: it writes something new of a user: it waits while the user is deleted or moved.
        CHANGE: so it does, and it waits for the changes of its session that came before.
        GO_ON: it writes what an open turn does: it waits while the user is moved. A deletion waits for it.
        DIRECT: nothing; its handler sees to users who are held, if it is about users at all.
    """

    QUERY = auto()
    READ = auto()
    BEGIN = auto()
    CHANGE = auto()
    GO_ON = auto()
    DIRECT = auto()


class Request(Message, Generic[R], frozen=True, kw_only=True):
    """A message that is answered with an `R`.

    Attributes:
        route: which actor answers it. Requests to a single actor have none.
        lane: what it waits for. Only requests to Session actors have one, and each has.
        is_sent_once: its sender does not send it again as it is when the actor was lost, but with `again=True`.
    """

    route: ClassVar[Route]
    lane: ClassVar[Lane]
    is_sent_once: ClassVar[bool] = False

    def joined(self, replies: Sequence[Any]) -> R:
        """One reply made of those of several actors or stores. Only requests that go to several have one."""
        return replies[0].joined(replies)  # type: ignore[no-any-return]


@cache
def replies_to(kind: type[Request[R]]) -> tuple[type[R], ...]:
    """The classes of the replies that a request may get."""
    [base] = kind.__orig_bases__  # type: ignore[attr-defined]
    [reply] = get_args(base)
    return get_args(reply) or (reply,)


@cache
def decoder(kinds: tuple[type[Message], ...]) -> msgspec.msgpack.Decoder[Any]:
    """Decodes messages of these classes, each by its tag, and no others."""
    return codec.decoder(Union[kinds])  # noqa: UP007


def user_of(request: Request[Any]) -> tuple[str, str] | None:
    """The app and the user that a request is about; None: it is about none, or about all of them."""
    if request.route not in ABOUT_USERS:
        return None
    key = key_of(request)
    return (key.app, key.user) if request.route is Route.SESSION or _field(request, "user") is not None else None


def key_of(request: Request[Any]) -> SessionKey:
    """The session that a request is about; of one about users in general a key with what it names of them."""
    if request.route is Route.SESSION:
        named = request if hasattr(request, "key") else _field(request, "turn")
        key = named.key
        assert isinstance(key, SessionKey)
        return key
    return SessionKey(_field(request, "app"), _field(request, "user") or "", _field(request, "session") or "")


def _field(request: Request[Any], name: str) -> Any:
    return getattr(request, name, None)


class Stop(Request[Ack], frozen=True, kw_only=True):
    """Finish what is under way, release everything, and take no more messages.

    Attributes:
        leave_turns: of a Runner: turns that run are not cancelled; they stay open in the log, for a later deployment to resume.
    """

    route = Route.ALL
    lane = Lane.DIRECT

    leave_turns: bool = False
