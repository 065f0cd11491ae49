"""What has to hold for a crowd: nobody waits beyond the bounds, nobody is refused within them, and users take turns."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import msgspec

from actors.errors import OverloadedError
from actors.messages import protocol as p
from actors.messages.protocol.base import ErrorReply
from actors.messages.session import TurnKey
from tests.simulation.cluster import Sent, Trace
from tests.simulation.crowds.crowd import Crowd
from tests.simulation.frame import Left
from tests.support.any_message import decode_message


class Request(msgspec.Struct):
    """One request for a turn, as it comes to a Runner.

    Attributes:
        begins_s: when it is there.
        ends_s: when it has its reply, or its Runner is lost.
        has_reply: False when its Runner was lost before.
        refusal: the reply, if it says that too much waits.
        was_opened: the reply says that the turn has begun.
        joins: the turn was there already.
        runner: the Runner's process.
    """

    turn: TurnKey
    runner: str
    begins_s: float
    ends_s: float = float("inf")
    has_reply: bool = False
    refusal: ErrorReply | None = None
    was_opened: bool = False
    joins: bool = False

    @property
    def waits(self) -> bool:
        """It was in line, as far as is known: neither refused, nor for a turn that is there already."""
        return self.has_reply and self.refusal is None and not self.joins


def problems(given: Crowd, left: Left) -> list[str]:
    requests = requests_in(left.trace)
    found = [*_answers(left), *_bounds(given, requests), *_joined(requests)]
    if not given.plan.faults:
        found += [*_refusals(given, requests), *_fairness(given, requests, left.trace), *_rows(given, requests, left.trace)]
        found += _order(requests, left.trace)
    return found


def requests_in(trace: Trace) -> list[Request]:
    """The requests for turns."""
    found: dict[int, Request] = {}
    for now_s, what, sent, raw in trace.entries:
        if sent is None and what.startswith("runner#") and what.endswith("is lost"):
            for request in found.values():
                if what.startswith(f"{request.runner} "):
                    request.ends_s = min(request.ends_s, now_s)
        if sent is None or sent.kind != "StartTurn" or sent.receiver is None:
            continue
        if what == "arrived":
            message = decode_message(sent.raw)
            assert isinstance(message, p.StartTurn)
            request = found[sent.nth] = Request((message.key, message.invocation_id), sent.receiver.name, now_s)
            request.joins = any(other.turn == request.turn and other.was_opened for other in found.values())
        elif what == "handled":
            request, reply = found[sent.nth], decode_message(raw)
            request.ends_s, request.has_reply = now_s, True
            request.was_opened = isinstance(reply, p.TurnStarted)
            request.joins |= isinstance(reply, p.TurnStarted) and reply.attached
            if isinstance(reply, ErrorReply) and reply.error == OverloadedError.__name__:
                request.refusal = reply
    return list(found.values())


def _answers(left: Left) -> Iterator[str]:
    """A turn is answered, cancelled, or refused with a time after which it may be asked for again."""
    for ask in left.history.asks:
        if ask.what == "run" and ask.ended not in ("Finished", "OverloadedError", "TurnCancelledError"):
            yield f"{ask} ends with {ask.ended!r}: {ask.error}"
        if ask.ended == "Finished" and not ask.events:
            yield f"{ask} has finished without an answer"
        if isinstance(ask.raised, OverloadedError) and ask.raised.retry_after_s <= 0:
            yield f"{ask} was refused without a time"


def _lines(given: Crowd) -> Sequence[tuple[str, int, Callable[[TurnKey], Hashable]]]:
    limits = given.limits
    return [
        ("max_waiting_session_turns", limits.max_waiting_session_turns, lambda turn: turn[0]),
        ("max_waiting_user_turns", limits.max_waiting_user_turns, lambda turn: turn[0].user),
        ("max_waiting_turns", limits.max_waiting_turns, lambda turn: None),
    ]


def _bounds(given: Crowd, requests: Sequence[Request]) -> Iterator[str]:
    """At no time more turns wait in a line than may.

    Those do not count that a Runner had taken which was lost: they may be there, and go on.
    """
    taken = {request.turn for request in requests if not request.has_reply}
    requests = [request for request in requests if request.waits and request.turn not in taken]
    for name, bound, owner_of in _lines(given):
        for request in requests:
            if request.waits:
                owner, now_s = (request.runner, owner_of(request.turn)), request.begins_s
                there = {
                    other.turn
                    for other in requests
                    if (other.runner, owner_of(other.turn)) == owner and other.waits and other.begins_s <= now_s < other.ends_s
                }
                if len(there) > bound:
                    yield f"{len(there)} turns wait, and {name} is {bound}"


def _refusals(given: Crowd, requests: Sequence[Request]) -> Iterator[str]:
    """Who is refused comes to a line that is full."""
    for request in requests:
        if request.refusal is None:
            continue
        name = str(request.refusal.args[2])
        bound, owner_of = next((bound, owner_of) for each, bound, owner_of in _lines(given) if each == name)
        there = {
            other.turn
            for other in requests
            if owner_of(other.turn) == owner_of(request.turn)
            and other.refusal is None
            and other.begins_s <= request.ends_s
            and other.ends_s >= request.begins_s
        }
        if len(there) < bound:
            yield f"turn {request.turn[1]} was refused by {name}, {bound}, when {len(there)} waited"


def _joined(requests: Sequence[Request]) -> Iterator[str]:
    """Who asks for a turn that is there joins it, however many wait."""
    for request in requests:
        if request.refusal and any(
            other.was_opened and other.turn == request.turn and other.ends_s < request.begins_s for other in requests
        ):
            yield f"turn {request.turn[1]} is there, and a request for it was refused"


def _openings(trace: Trace) -> dict[TurnKey, float]:
    """When each turn was opened first, in the order of that."""
    found: dict[TurnKey, float] = {}
    for now_s, what, sent, _ in trace.entries:
        if what == "sent" and isinstance(sent, Sent) and sent.kind == "OpenTurn":
            message = decode_message(sent.raw)
            assert isinstance(message, p.OpenTurn)
            found.setdefault((message.key, message.invocation_id), now_s)
    return found


def _fairness(given: Crowd, requests: Sequence[Request], trace: Trace) -> Iterator[str]:
    """While a turn of one user waits, each other user has at most one more opened than that one; so for sessions of a user.

    Users with weights have so many opened for each time that the other one's row ends.
    """
    opened = _openings(trace)
    repeats = Counter(request.turn for request in requests)
    of_users = given.limits.user_weights
    levels: Sequence[tuple[Callable[[TurnKey], Hashable], Callable[[TurnKey], Hashable], Mapping[str, int]]] = [
        (lambda turn: None, lambda turn: turn[0].user, of_users),
        (lambda turn: turn[0].user, lambda turn: turn[0].session, {}),
    ]
    first = {request.turn: request for request in _asked_once(requests)}
    for turn, until_s in opened.items():
        if turn not in first:
            continue
        for group_of, owner_of, weights in levels:
            served: Counter[Hashable] = Counter()
            for other, other_s in opened.items():
                if first[turn].begins_s < other_s < until_s and group_of(other) == group_of(turn):
                    served[owner_of(other)] += 1
            # The places of those who ask for a turn that is there are not seen from here.
            again = sum(
                owner_of(other.turn) == owner_of(turn) and other.begins_s < until_s and first[turn].begins_s < other.ends_s
                for other in requests
                if repeats[other.turn] > 1
            )
            mine = served.pop(owner_of(turn), 0) + again + 1
            rows = 1 + (mine - 1) // weights.get(str(owner_of(turn)), 1)
            for owner, often in served.items():
                if often > rows * weights.get(str(owner), 1) + given.most_at_once:
                    yield f"{owner} had {often} turns opened while {turn[1]} waited, whose owner had {mine}"


def _rows(given: Crowd, requests: Sequence[Request], trace: Trace) -> Iterator[str]:
    """A user is served as often in a row as its weight says: not more often while another one waits, and not less while it waits.

    Rows are those of turns that had to wait: one that comes when there is room is opened at once, and has no place in a row.
    Crowds in which requests leave the line before their turn are left out, since from here nobody sees when they do.
    """
    if any(wish.again_after_s or wish.cancelled_after_s for wish in given.wishes):
        return
    came = {request.turn: request.begins_s for request in requests}
    left = {request.turn: request.ends_s for request in requests}
    opened = _openings(trace)
    order, weight_of = list(opened), given.limits.user_weights

    def waited(user: str, since: int, until_s: float, is_of: bool) -> bool:
        """A turn of the user, or of another one, that was opened later was there by then."""
        return any((turn[0].user == user) == is_of and came[turn] < until_s for turn in order[since:])

    row: list[TurnKey] = []
    for place, turn in enumerate(order):
        user, now_s = turn[0].user, opened[turn]
        if sum(left[other] >= now_s for other in order[:place]) < given.most_at_once:
            row = []
            continue
        if row and row[-1][0].user == user:
            row.append(turn)
            weight = weight_of.get(user, 1)
            if len(row) > weight and waited(user, place + 1, opened[row[0]], is_of=False):
                yield f"{user}, whose weight is {weight}, had {len(row)} turns opened in a row while others waited"
            continue
        if row:
            before = row[-1][0].user
            weight = weight_of.get(before, 1)
            if len(row) < weight and waited(before, place + 1, opened[row[0]], is_of=True):
                yield f"{before}, whose weight is {weight}, had {len(row)} turns opened in a row, and more of its waited"
        row = [turn]


def _order(requests: Sequence[Request], trace: Trace) -> Iterator[str]:
    """Turns of one session are opened in the order in which they were asked for."""
    opened = list(_openings(trace))
    asked: dict[Hashable, list[TurnKey]] = defaultdict(list)
    for request in sorted(_asked_once(requests), key=lambda each: each.begins_s):
        asked[request.turn[0]].append(request.turn)
    for turns in asked.values():
        mine = [turn for turn in opened if turn in turns]
        if mine != turns:
            yield f"turns were opened as {[turn[1] for turn in mine]}, asked for as {[turn[1] for turn in turns]}"


def _asked_once(requests: Sequence[Request]) -> Iterator[Request]:
    """The requests that opened a turn for which there was no other one, such as one that was cancelled before."""
    often = Counter(request.turn for request in requests)
    yield from (request for request in requests if request.was_opened and often[request.turn] == 1)
