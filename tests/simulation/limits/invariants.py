"""What has to hold for a traffic: permits stay within limits, each call is let in, users take turns, and changes last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from actors.layers.limiter.limits import ModelLimits, limits_of
from actors.layers.limiter.messages import AcquirePermit, PermitReply, ReleasePermit
from actors.layers.limiter.rate_limiter import LEASE_S, MINUTE_S, RENEW_S
from actors.messages.session import SessionKey
from tests.model.history import Ask
from tests.simulation.faults import Network
from tests.simulation.limits.play import Limited, Made
from tests.simulation.limits.traffic import MODELS, Change, Traffic
from tests.support.any_message import decode_message

COUNTS_S = LEASE_S - RENEW_S
"""For so long at least a call of a process that is lost counts: its lease was renewed by then."""

ROUNDING_S = 1e-6

ENOUGH_LOSSES = 3
"""So many losses of an agent's runs in a turn end it."""


class Grant(msgspec.Struct):
    """A permit that an actor has granted.

    Attributes:
        actor: the process of the actor.
        came_s: when it was asked for.
        at_s: when the reply went out.
    """

    actor: str
    permit: str
    model: str
    session: SessionKey
    attempt: int
    came_s: float
    at_s: float


def problems(given: Traffic, left: Limited) -> list[str]:
    grants = grants_in(left)
    limits = LimitsInTime(given, left)
    found = [*(f"a call of {each.model} is made without a permit" for each in left.made if not each.has_permit)]
    found += [*_turns(left), *_changes(given, left)]
    found += [*_at_once(left, limits), *_by_the_minute(left, grants, limits), *_tokens(left, grants, limits)]
    if given.is_plain:
        found += _fairness(given, grants)
    return found


def grants_in(left: Limited) -> list[Grant]:
    """The permits that were granted, in the order of the replies."""
    came: dict[tuple[str, str, int], float] = {}
    found: dict[tuple[str, str, int], Grant] = {}
    for now_s, what, sent, raw in left.trace.entries:
        if sent is None or sent.kind != "AcquirePermit" or sent.receiver is None or what not in ("arrived", "handled"):
            continue
        message = decode_message(sent.raw)
        assert isinstance(message, AcquirePermit)
        key = (sent.receiver.name, message.permit, message.attempt)
        if what == "arrived":
            came.setdefault(key, now_s)
            continue
        reply = decode_message(raw)
        if isinstance(reply, PermitReply) and reply.granted and key not in found:
            actor, permit, attempt = key
            found[key] = Grant(actor, permit, message.model, message.session, attempt, came[key], now_s)
    return list(found.values())


class LimitsInTime:
    """Which limits may have held at a time: those kept last, and those before as long as nothing says that others hold."""

    def __init__(self, given: Traffic, left: Limited) -> None:
        self._settings = given.limits
        self._history: Sequence[tuple[float, Mapping[str, ModelLimits]]] = left.world.kept.history
        applied = [now_s for now_s, what, sent, _ in left.trace.entries if what == "handled" and sent and sent.kind == _CHANGE]
        # An actor that is started again begins with what is kept.
        self._applied = sorted([*applied, *(life.begun_s for life in left.world.lives)])

    def highest(self, model: str, field: str, from_s: float, until_s: float) -> float:
        """The highest value of a field that may have held at any time in between; no limit is infinite."""
        return max(self._value(model, field, changed) for changed in self._held(from_s, until_s))

    def _held(self, from_s: float, until_s: float) -> Iterator[Mapping[str, ModelLimits]]:
        since_s = max((each for each in self._applied if each <= from_s), default=0.0)
        before = [changed for kept_s, changed in self._history if kept_s <= since_s]
        yield before[-1] if before else {}
        yield from (changed for kept_s, changed in self._history if since_s < kept_s <= until_s)

    def _value(self, model: str, field: str, changed: Mapping[str, ModelLimits]) -> float:
        found = changed.get(model) or limits_of(model, {**self._settings, **changed})
        value = getattr(found, field)
        return float("inf") if value is None else value


_CHANGE = "ChangeModelLimits"


def _turns(left: Limited) -> Iterator[str]:
    """Each turn ends, with an answer of each agent."""
    may_fail = any(often >= ENOUGH_LOSSES for often in left.history.lost_runs.values())
    for wish, ask in left.asked:
        if ask.ended == "Finished":
            log = [event for event in left.history.found[ask.user, ask.session].log if event.invocation_id == ask.turn]
            done = Counter(event.author for event in log if event.text.endswith("is done"))
            authors = {event.author for event in log if event.author not in ("user", "all")}
            if not done or set(done) != authors or max(done.values()) > 1:
                yield f"turn {ask.turn} has the answers {dict(done)} of {sorted(authors)}"
        elif not may_fail and not (wish.cancelled_after_s and ask.ended in ("Cancelled", "TurnCancelledError")):
            yield f"turn {ask.turn} ends with {ask.ended!r}: {ask.error}"


def _changes(given: Traffic, left: Limited) -> Iterator[str]:
    """At the end those limits hold that programs have set last, and where they were reset, those of the settings."""
    yield from (f"a change of {ask.how} fails: {ask.ended}" for _, ask in left.changed if ask.ended not in ("done", ""))
    for name in {"alpha", "beta-*", *(change.name for change, _ in left.changed)}:
        mine = [each for each in left.changed if each[0].name == name]
        fields = left.listed.get(name)
        for field in ("max_concurrency", "requests_per_minute", "tokens_per_minute"):
            may_hold = set(_last_values(given, name, field, mine, left))
            shown = fields[field] if fields is not None else _NOTHING
            if shown not in may_hold:
                yield f"{field} of {name} is {shown} at the end, and may be {sorted(map(str, may_hold))}"


_NOTHING = "nothing"
"""What a name shows that is in no settings, and was reset."""


def _last_values(given: Traffic, name: str, field: str, mine: Sequence[tuple[Change, Ask]], left: Limited) -> Iterator[Any]:
    """What a field may be by the changes that are over, or were never known to be."""
    touching = [(change, ask) for change, ask in mine if change.fields is None or field in change.fields]
    in_settings = name in given.limits
    for change, ask in touching:
        if any(other.ended == "done" and other.began > ask.ended_at for _, other in touching):
            continue
        if change.fields is not None:
            yield change.fields[field]
        elif in_settings:
            yield getattr(given.limits[name], field)
        else:
            yield _NOTHING
    if not any(ask.ended == "done" for _, ask in touching) or not in_settings:
        # A name that is in no settings begins with what its pattern has then.
        if in_settings:
            yield getattr(given.limits[name], field)
        else:
            yield _NOTHING
            yield from _of_pattern(given, field, left)


def _of_pattern(given: Traffic, field: str, left: Limited) -> Iterator[Any]:
    yield getattr(given.limits["beta-*"], field)
    for change, _ in left.changed:
        if change.name == "beta-*" and change.fields is not None and field in change.fields:
            yield change.fields[field]


def _at_once(left: Limited, limits: LimitsInTime) -> Iterator[str]:
    """No call begins beside as many others as may run, but within seconds of a loss of the actor."""
    late_s, long_stopped = _late_s(left), _long_stopped(left)
    spans = [(each, _until_s(left, each)) for each in left.made if each.process not in long_stopped]
    for each, _ in spans:
        begun_s = each.begun_s
        if _is_in_doubt(left, begun_s, late_s):
            continue
        running = sum(
            other.model == each.model and other.begun_s <= begun_s < until_s for other, until_s in spans if other is not each
        )
        most = limits.highest(each.model, "max_concurrency", begun_s - late_s - _stopped_s(left), begun_s)
        if running + 1 > most:
            yield f"{running + 1} calls of {each.model} run at {begun_s:.3f}, and {most:g} may"


def _until_s(left: Limited, made: Made) -> float:
    """Until when a call counts: that of a lost process for some seconds, if its actor is not lost as well."""
    died_s: float | None = left.world.died_s.get(made.process)
    if died_s is None or died_s >= made.ended_s:
        return min(made.ended_s, made.begun_s + made.takes_s)
    known_s = died_s - RENEW_S - _late_s(left)
    lost: list[float] = [life.ended_s for life in left.world.lives if life.ended_s > known_s]
    return min(made.begun_s + made.takes_s, died_s + COUNTS_S, *lost)


def _late_s(left: Limited) -> float:
    """How long a message may take."""
    network: Network = left.world.wires._network
    slow: float = max((fault.for_s for _, fault in left.world.faults.fired if fault.what == "slow"), default=0.0)
    return max(network.usual_s, network.slow_s) + slow + 0.1


def _long_stopped(left: Limited) -> set[str]:
    """Processes that were stopped for so long that their lease may have ended."""
    return {name for name, from_s, until_s in left.world.frozen if until_s - from_s + _late_s(left) > COUNTS_S}


def _stopped_s(left: Limited) -> float:
    """For how long processes were stopped."""
    stopped: list[tuple[str, float, float]] = left.world.frozen
    return sum(until_s - from_s for _, from_s, until_s in stopped)


def _is_in_doubt(left: Limited, at_s: float, late_s: float) -> bool:
    """True if calls begin that were granted before a loss, or while an actor does not know yet what runs."""
    lives = left.world.lives
    return any(
        before.ended_s <= at_s <= life.begun_s + RENEW_S + 2 * late_s + _stopped_s(left) for before, life in pairwise(lives)
    )


def _by_the_minute(left: Limited, grants: Sequence[Grant], limits: LimitsInTime) -> Iterator[str]:
    """In no minute an actor lets more calls begin than may."""
    if any(name.startswith("limiter") for name, _, _ in left.world.frozen):
        # Its replies go out later than it has granted the permits.
        return
    for model in MODELS:
        for actor in {grant.actor for grant in grants}:
            times = [grant.at_s for grant in grants if (grant.model, grant.actor) == (model, actor)]
            for place, at_s in enumerate(times):
                often = sum(at_s - MINUTE_S + ROUNDING_S < each <= at_s for each in times[: place + 1])
                if often > limits.highest(model, "requests_per_minute", at_s, at_s):
                    yield f"{often} calls of {model} begin in the minute until {at_s:.3f}"


def _tokens(left: Limited, grants: Sequence[Grant], limits: LimitsInTime) -> Iterator[str]:
    """No call begins when those that ended in the last minute have used all tokens."""
    if any(name.startswith("limiter") for name, _, _ in left.world.frozen):
        return
    released = list(_releases(left, grants))
    for grant in grants:
        used = sum(
            tokens
            for actor, model, at_s, tokens in released
            if (actor, model) == (grant.actor, grant.model) and grant.at_s - MINUTE_S + ROUNDING_S < at_s < grant.at_s
        )
        if used >= limits.highest(grant.model, "tokens_per_minute", grant.at_s, grant.at_s):
            yield f"a call of {grant.model} begins at {grant.at_s:.3f}, and {used} tokens were used"


def _releases(left: Limited, grants: Sequence[Grant]) -> Iterator[tuple[str, str, float, int]]:
    """Calls that were answered: the actor, the model, when it has heard of that, and the tokens."""
    models = {(grant.actor, grant.permit): grant.model for grant in grants}
    for now_s, what, sent, _ in left.trace.entries:
        if what != "handled" or sent is None or sent.kind != "ReleasePermit" or sent.receiver is None:
            continue
        message = decode_message(sent.raw)
        assert isinstance(message, ReleasePermit)
        model = models.pop((sent.receiver.name, message.permit), None)
        if message.answered and model is not None:
            yield sent.receiver.name, model, now_s, message.tokens


def _fairness(given: Traffic, grants: Sequence[Grant]) -> Iterator[str]:
    """While a call of one user waits, others have their rows of calls for each row of that user; so for a user's sessions."""
    levels: Sequence[tuple[Callable[[Grant], Hashable], Callable[[Grant], str], Mapping[str, int]]] = [
        (lambda grant: grant.model, lambda grant: grant.session.user, given.weights),
        (lambda grant: (grant.model, grant.session.user), lambda grant: grant.session.session, {}),
    ]
    for place, mine in enumerate(grants):
        between = [each for each in grants[:place] if mine.came_s < each.at_s]
        for group_of, owner_of, weights in levels:
            served = Counter(owner_of(each) for each in between if group_of(each) == group_of(mine))
            own = served.pop(owner_of(mine), 0) + 1
            rows = 1 + (own - 1) // weights.get(owner_of(mine), 1)
            for owner, often in served.items():
                if often > rows * weights.get(owner, 1) + 1:
                    yield f"{owner} had {often} calls let in while one of {owner_of(mine)} waited, which had {own}"
