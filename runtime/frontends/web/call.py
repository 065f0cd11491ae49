"""What a server has, and one request to it: its principal, its app, and what its path, query and body say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, get_args
from urllib.parse import quote, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from actors.errors import DefinitionError, OverloadedError, RuntimeClosedError
from actors.errors.hints import did_you_mean
from actors.messages import codec
from actors.messages.config import RunConfig
from runtime.driver.runtime import Runtime
from runtime.frontends.web.auth import Auth, Principal
from runtime.frontends.web.bodies import Bodies, RequestBody
from runtime.frontends.web.monitoring import Readiness, RecentFigures
from runtime.frontends.web.problems import BadRequestError, HttpError, NotFoundError
from runtime.frontends.web.shedding import PassLines, Shedding
from runtime.frontends.web.streams import Slot, StreamSlots

T = TypeVar("T")

JSON = "application/json"


class Served:
    """What the routes of a server share.

    Args:
        runtimes: of the apps that are served.
        auth: says on whose behalf a request comes.
        slots: counts open streams.
        run_config: options of turns that clients leave out, and limits that users may not raise.
        bodies: what the bodies of requests may take.
        keep_alive_s: after so many seconds without a frame a stream sends a comment.

    Attributes:
        runtimes: by the names of their apps.
        requests: how many there were, by method and path, and by status.
        readiness: whether the apps answer.
        recent: their figures over the last minutes.
        shedding: which new turns are refused unread.
        lines: of turns that have begun or ended, until the answers to their requests go on.

    Raises:
        DefinitionError: there is no app, or two of the same name.
    """

    def __init__(
        self,
        runtimes: Sequence[Runtime],
        auth: Auth,
        slots: StreamSlots,
        *,
        run_config: RunConfig,
        bodies: Bodies,
        keep_alive_s: float,
    ) -> None:
        if not runtimes:
            raise DefinitionError("app_for needs a Runtime at least")
        self.runtimes = {runtime.app_name: runtime for runtime in runtimes}
        if len(self.runtimes) < len(runtimes):
            raise DefinitionError(f"two apps have the same app_name: {', '.join(each.app_name for each in runtimes)}")
        self.auth = auth
        self.slots = slots
        self.run_config = run_config
        self.bodies = bodies
        self.keep_alive_s = keep_alive_s
        self.requests: Counter[tuple[str, int]] = Counter()
        self.readiness = Readiness(self.runtimes)
        self.recent = RecentFigures(self.runtimes)
        self.shedding = Shedding(self._refusal, slots.refusal)
        self.lines = PassLines()

    def _refusal(self, *, again: bool, unread: int) -> OverloadedError | None:
        """The error that any new turn would get, of whichever app; None when one of them is to be asked, or cannot be."""
        try:
            refusals = [runtime.refusal(again=again, unread=unread) for runtime in self.runtimes.values()]
        except RuntimeClosedError:
            return None
        return refusals[0] if None not in refusals else None

    def runtime(self, app_name: str) -> Runtime:
        """The Runtime of an app. Raises NotFoundError."""
        runtime = self.runtimes.get(app_name)
        if runtime is None:
            raise NotFoundError(f"no app {app_name!r} is served here.{did_you_mean(app_name, self.runtimes)}")
        return runtime


class Call:
    """A request whose principal is known."""

    def __init__(self, request: Request, served: Served, principal: Principal) -> None:
        self.request = request
        self.served = served
        self.principal = principal
        self._body = RequestBody(served.bodies, principal.user_id)

    @property
    def runtime(self) -> Runtime:
        """The Runtime of the app in the path. Raises NotFoundError."""
        return self.served.runtime(self.path("app"))

    def path(self, name: str) -> str:
        """A part of the path."""
        return unquote(self.request.path_params[name], errors="surrogateescape")

    @property
    def user_id(self) -> str:
        """The user that is meant: in the path, in the query, or else the principal's.

        Raises:
            NotAllowedError: it is another than the principal's.
            BadRequestError: no user is named, and the principal has none.
        """
        user_id = self.any_user_id
        if user_id is None:
            raise BadRequestError("these credentials are for any user: name one with ?user=")
        return user_id

    @property
    def any_user_id(self) -> str | None:
        """The same where None stands for all users, when the principal may reach them. Raises NotAllowedError."""
        named = self.path("user") if "user" in self.request.path_params else self.request.query_params.get("user")
        return self.principal.check_user(named) if named is not None else self.principal.user_id

    @property
    def session_id(self) -> str:
        """The session in the path."""
        return self.path("session")

    @property
    def invocation_id(self) -> str:
        """The turn in the path."""
        return self.path("turn")

    def query(self, type: type[T]) -> T:
        """The query as a struct. Raises BadRequestError when a field is unknown, missing or wrong."""
        given = {name: value for name, value in self.request.query_params.items() if name != "user"}
        try:
            return codec.convert(given, type, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequestError(f"the query is wrong: {explained(error, type, also=['user'])}") from None

    async def raw_body(self) -> bytes:
        """The body. Raises HttpError, see `RequestBody.read`."""
        return await self._body.read(self.request.stream())

    def release(self) -> None:
        """Let go of what the body takes: the request is answered."""
        self._body.release()

    async def body(self, type: type[T]) -> T:
        """The body as a struct, out of JSON; nothing stands for `{}`. Raises BadRequestError, HttpError."""
        media_type = self.request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if media_type != JSON and not media_type.endswith("+json"):
            # Browsers send other kinds to foreign origins without asking.
            raise HttpError(415, f"send the body as {JSON}, not as {media_type}")
        try:
            return decoded(await self.raw_body() or b"{}", type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequestError(f"the body is wrong: {explained(error, type)}") from None

    def slot(self) -> Slot:
        """A place for the principal to follow a turn or a session. Raises TooManyStreamsError."""
        return self.served.slots.take(self.principal.user_id)

    def wants_stream(self) -> bool:
        """True when the client asks for server-sent events."""
        return "text/event-stream" in self.request.headers.get("accept", "")

    def last_event_id(self, after_seq: int = 0) -> int:
        """After which event a stream goes on: the header `Last-Event-ID`, else `after_seq`. Raises BadRequestError."""
        given = self.request.headers.get("last-event-id", "").strip()
        if not given:
            return after_seq
        if not re.fullmatch(r"[0-9]{1,18}", given):
            raise BadRequestError(f"Last-Event-ID must be the id of an event, a number, not {given!r}")
        return int(given)

    def prefers(self, preference: str) -> bool:
        """True when the header `Prefer` has a preference."""
        given = self.request.headers.get("prefer", "")
        return preference in {each.partition(";")[0].strip().lower() for each in given.split(",")}

    def url(self, *path: str) -> str:
        """The path of something in the app of this request, for a header; the user is named where it has to be."""
        parts = "/".join(quote(each, safe="") for each in (self.path("app"), *path))
        user = self.request.query_params.get("user")
        root = self.request.scope.get("root_path", "")
        return f"{root}/v1/apps/{parts}" + (f"?user={quote(user, safe='')}" if user is not None else "")


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with anything that has a JSON form."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def decoded(raw: bytes, expected: type[T]) -> T:
    """A body as a struct. `5.0` is an integer, as JSON Schema says; in a value of any kind it stays a float.

    Args:
        expected: the struct that it should be.

    Raises:
        msgspec.DecodeError: it is no JSON, or something else.
        UnicodeDecodeError, RecursionError: the same.
    """
    try:
        return codec.decode_json(raw, expected)
    except msgspec.ValidationError:
        # Reading that is not strict takes texts for numbers as well: only what is right with its numbers made whole may have it.
        codec.convert(_whole(msgspec.json.decode(raw)), expected)
        return codec.decode_json(raw, expected, strict=False)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_UNKNOWN = re.compile(r"unknown field `(?P<name>.*?)`(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)


def explained(error: Exception, expected: Any, also: Sequence[str] = ()) -> str:
    """Tell what is wrong with a request, and the field that was meant when one is not known.

    Args:
        error: from reading it.
        expected: the struct that it should be.
        also: names that are known beside those of its fields.
    """
    found = _UNKNOWN.search(str(error))
    if found is None:
        return str(error)
    fields = _fields(expected)
    for part in filter(None, (found["path"] or "").split(".")):
        fields = _fields(fields.get(part))
    names = [*also, *fields]
    return f"{error}.{did_you_mean(found['name'], names) or _listed(names)}"


def _listed(names: list[str]) -> str:
    return f" There are: {', '.join(names)}" if names else ""


def _fields(hint: Any) -> Mapping[str, Any]:
    """The types of a struct's fields by their names in JSON; also of the struct in `Struct | None`. Empty for anything else."""
    for each in (hint, *get_args(hint)):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            return {field.encode_name: field.type for field in msgspec.structs.fields(each)}
    return {}
