"""What has to hold of turns: how they begin, follow each other and end (docs/semantics.md section 2, and pauses of section 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from actors import Event
from tests.model.history import NEVER, Ask, History, Moment
from tests.model.story import CANCELLED, USER, Story, Turn, by_agents, is_message, is_seal, seqs, takes_back

STATUS = {"Finished": "finished", "Paused": "paused", "TurnCancelledError": "cancelled", "TurnTimeoutError": "cancelled"}
"""The status of a turn by what programs are told; by any other TurnError it is "failed"."""

INTERNAL = ("FencedError", "ActorRestartsError", "WriterReplacedError", "UserElsewhereError", "UserArrivingError")
"""Errors between actors, of which programs hear nothing."""

MOST_ATTEMPTS = 4
"""A call is made again after a loss, and then three times in a process of its own at most."""


def one_message(story: Story) -> Iterator[str]:
    """2 Ids and repeats: the same id again joins the same turn, and never starts a second one: one message begins a turn."""
    appended = {ask.result.invocation_id for ask in story.asks if ask.what == "append_event" and ask.result is not None}
    for turn in story.turns.values():
        begun = [e for e in turn.messages if not list(e.function_responses()) and e.node_info is None]
        if len(begun) != 1 and turn.id not in appended:
            yield f"turn {turn.id} has {len(begun)} messages that begin it: {seqs(begun)}"


def other_requests(story: Story) -> Iterator[str]:
    """2 Ids and repeats: the same id with another fingerprint is refused with RepeatMismatchError. One without is joined."""
    for ask in story.asks:
        others = [other for other in story.of_turn(ask.turn) if other.fingerprint not in ("", ask.fingerprint)]
        if ask.ended == "RepeatMismatchError" and not (ask.fingerprint and others):
            yield f"{ask} was refused, and its turn began with no other request"
        turn = story.turns.get(ask.turn)
        kept = (turn.messages[0].custom_metadata or {}).get("raygrove:fingerprint") if turn and turn.messages else None
        has_ended = ask.kind == "end" and ask.ended != "TurnCancelledError"
        if kept is None and turn and turn.messages and ask.message and ask.begins and ask.message.text != turn.messages[0].text:
            kept = next((each.fingerprint for each in others if ask.fingerprint), None)
        if kept and ask.fingerprint not in ("", kept) and (has_ended or ask.events):
            yield f"{ask} was given {seqs(ask.events)} and {ask.ended} of a turn that began with another request"


def message_is_kept(story: Story) -> Iterator[str]:
    """2 Messages: the Runner stores a copy of the message, with the role `user`; it is the first event of its turn."""
    for turn in story.turns.values():
        sent = {ask.message.text for ask in story.of_turn(turn.id) if ask.begins and not ask.steers and ask.message}
        if sent and turn.messages and turn.messages[0].text not in sent:
            yield f"turn {turn.id} began with {turn.messages[0].text!r}, and {sorted(sent)} were sent"
        deltas = [ask.given.get("state_delta", {}) for ask in story.of_turn(turn.id) if ask.begins and ask.message]
        plain = [{key: value for key, value in delta.items() if not key.startswith("temp:")} for delta in deltas]
        if sent and turn.messages and turn.messages[0].actions.state_delta not in plain:
            yield f"turn {turn.id} began with the changes {turn.messages[0].actions.state_delta}, and {plain} were sent"
        if sent and turn.events[0] not in turn.messages:
            yield f"turn {turn.id} has event {turn.events[0].seq} before its message"
        for event in turn.messages:
            if event.content is not None and event.content.role != USER:
                yield f"message {event.seq} has the role {event.content.role}"


def refused_is_not_stored(story: Story) -> Iterator[str]:
    """2 Order of a turn: a request that is refused in steps 1 to 4 leaves neither an event nor a session.

    One whose turn was taken back is told InvocationNotFoundError, too, and was not refused.
    """
    for turn in story.turns.values():
        asks = [ask for ask in story.of_turn(turn.id) if ask.begins and turn.events[0].id in story.shown]
        if asks and all(ask.kind == "refusal" for ask in asks):
            yield f"turn {turn.id} is in the log, and {asks[0]} was refused with {asks[0].ended}"


def wrong_is_refused(story: Story) -> Iterator[str]:
    """2 Order of a turn: a message without content, for an agent that there is not, or to an unknown call is refused."""
    for ask in story.asks:
        if ask.how == "wrong" and ask.ended and ask.kind not in ("refusal", "store", "cluster"):
            yield f"{ask} came to {ask.ended}, and must be refused"


def record_says_the_end(story: Story) -> Iterator[str]:
    """2 Order of a turn: the record of the turn says how it ended: none is left open, and all that read it to its end agree."""
    for turn in story.turns.values():
        record = story.found.turns.get(turn.id)
        if record is None or not turn.messages:
            continue
        if record.status == "running":
            yield f"turn {turn.id} is open at the end"
        last = turn.messages[-1]
        said = [event.seq for event in by_agents(turn.events)][-1:]
        for ask in story.of_turn(turn.id):
            has_all = seqs(ask.events[-1:]) == said and ask.ended_at > story.known(last)
            status = STATUS.get(ask.ended, "failed")
            is_it = record.status == status or (status, record.status) == ("paused", "cancelled")
            # The pause before an answer to which no agent has said anything yet, of which this program hears later.
            is_it |= status == "paused" and not ask.goes_on and said < [last.seq] and ask.began < story.known(last)
            if ask.kind == "end" and has_all and turn.id not in story.retried and not is_it:
                yield f"{ask} came to {ask.ended}, and the record says {record.status}"


def every_ask_ends(history: History) -> Iterator[str]:
    """2 Concurrent turns: a turn waits for those before it and begins when they have ended: no program waits for ever."""
    lost = {process for _, process in history.lost}
    for ask in history.asks:
        if not ask.ended and ask.program not in lost:
            yield f"{ask} was never answered"


def nothing_internal(history: History) -> Iterator[str]:
    """2 Lost processes: runs go on elsewhere: what actors say to each other about losses and moves is an error of no request."""
    yield from (f"{ask} failed with {ask.ended}: {ask.error}" for ask in history.asks if ask.ended in INTERNAL)


def one_turn_at_a_time(story: Story) -> Iterator[str]:
    """2 Concurrent turns: one turn of a session runs at a time: another one that speaks begins, goes on by an answer, or ends."""
    before = ""
    for event in story.log:
        goes_on = is_message(event) or is_seal(event) or takes_back(event) or event.invocation_id in story.retried
        turn = story.turns.get(event.invocation_id)
        if event.invocation_id != before and not goes_on and turn is not None and turn.messages:
            yield f"event {event.seq} of turn {turn.id} stands in the midst of turn {before}"
        before = event.invocation_id


def order_of_turns(story: Story) -> Iterator[str]:
    """2 Concurrent turns: first come, first served: a turn that any program knew of before another was asked stands before it."""
    begun = [(turn, _asked(story, turn)) for turn in story.turns.values() if turn.messages]
    earliest: Moment = NEVER
    first = ""
    for turn, asked in reversed(begun):
        if earliest < asked < NEVER:
            yield f"turn {turn.id} was asked for when turn {first} was there, and stands before it"
        if (known := story.known(turn.messages[0])) < earliest:
            earliest, first = known, turn.id


def _asked(story: Story, turn: Turn) -> Moment:
    return min((ask.began for ask in story.of_turn(turn.id) if ask.begins), default=NEVER)


def line_of_a_program(story: Story) -> Iterator[str]:
    """2 Concurrent turns: turns that one program starts without waiting come in the order in which it has started them.

    After a loss of the Runner or the Session actor one that was sent again may come after the next. A turn that is asked for
    again was started before.
    """
    if story.history.lost or story.history.faults:
        return
    places = {turn: place for place, turn in enumerate(story.turns)}
    last: dict[str, Ask] = {}
    for ask in story.asks:
        if not ask.begins or ask.turn not in places or ask.steers or ask.config.on_concurrent_turn == "interrupt":
            continue
        if ask.began > _asked(story, story.turns[ask.turn]):
            continue
        before = last.get(ask.program)
        if before is not None and places[before.turn] > places[ask.turn]:
            yield f"turn {ask.turn} stands before turn {before.turn}, which {ask.program} had started before"
        last[ask.program] = ask


def _may_end_later(story: Story, ask: Ask) -> bool:
    """True if the store may not have taken the end of a turn when a program heard of it."""
    return ask.kind == "store" or (ask.ended == "TurnCancelledError" and story.history.store_failed)


def _is_stored_late(story: Story, turn: str, before: Moment) -> bool:
    """True if a message of a turn was stored when all that was asked of it had ended."""
    heard = max((each.ended_at for each in story.of_turn(turn)), default=NEVER)
    return any(heard < story.known(e) < before for e in story.whole if e.invocation_id == turn and is_message(e))


def busy_for_a_reason(story: Story) -> Iterator[str]:
    """2 Concurrent turns: SessionBusyError is the answer only while another request of the session may be under way.

    One that has failed by the store, or was cancelled without it, may be: its end is stored when the store is back. So may one
    whose message is stored after its program has heard the end of an earlier life of its turn.
    """
    for ask in story.asks:
        if ask.ended == "SessionBusyError" and not any(
            other is not ask
            and other.began < ask.ended_at
            and (other.ended_at > ask.began or _may_end_later(story, other) or _is_stored_late(story, other.turn, ask.ended_at))
            for other in story.asks
        ):
            by_schedule = any(turn.messages and not story.of_turn(turn.id) for turn in story.turns.values())
            if not by_schedule:
                yield f"{ask} was refused as the session was busy, and nothing else was asked of it then"


def model_calls(story: Story) -> Iterator[str]:
    """2 Limits of a turn: `max_llm_calls` counts the model calls of all agents; the call beyond it is refused before it is made.

    An answer begins the count anew. A call that was lost is made again, and may count twice.
    """
    made = Counter(call.turn for call in story.history.models)
    for turn in story.turns.values():
        limits = [ask.config.max_llm_calls for ask in story.of_turn(turn.id) if ask.begins or ask.goes_on]
        if not limits or min(limits) <= 0:
            continue
        answers = [event for event in turn.events if _is_of_model(event) and event.id in story.shown]
        most = max(_since_messages(turn, answers).values(), default=0)
        if len(turn.messages) == 1 and not story.history.lost and turn.id not in story.retried:
            most = max(most, made[turn.id])
        if most > max(limits):
            yield f"turn {turn.id} has made {most} model calls since a message, and may make {max(limits)}"


def _since_messages(turn: Turn, events: Sequence[Event]) -> Counter[int]:
    """How many of the events there are behind each message."""
    return Counter(opener.seq for event in events if (opener := turn.opener(event)) is not None)


def _is_of_model(event: Event) -> bool:
    return event.author != USER and (event.model_version is not None or event.usage is not None)


def transfers(story: Story) -> Iterator[str]:
    """2 Limits of a turn: `max_transfers` counts the transfers of the turn; the next one fails it."""
    for turn in story.turns.values():
        limits = [ask.config.max_transfers for ask in story.of_turn(turn.id) if ask.begins or ask.goes_on]
        made = _since_messages(turn, [event for event in turn.events if event.actions.transfer_to_agent])
        if limits and made and max(made.values()) > max(limits) + 1:
            yield f"turn {turn.id} has {max(made.values())} transfers since a message, and may have {max(limits)}"


def timeouts(story: Story) -> Iterator[str]:
    """2 Limits of a turn: `timeout` cancels the turn after so many seconds, not before. Waiting in line and pauses do not count:
    an answer begins the time anew. It runs while the message is being stored."""
    for ask in story.asks:
        if ask.ended != "TurnTimeoutError":
            continue
        given = [other.config.timeout for other in story.of_turn(ask.turn) if other.config.timeout]
        logs = [story.whole, *(events for session, events in story.history.removed if session == story.id)]
        # It begins when it was asked for, and what stands before its message is stored, which may take long itself.
        asked = min(other.began for other in story.of_turn(ask.turn))
        begun = [
            max([asked, *({story.known(before) for before in log[:place][-1:]} - {NEVER})])
            for log in logs
            for place, event in enumerate(log)
            if event.invocation_id == ask.turn and is_message(event)
        ]
        turn = story.turns.get(ask.turn)
        has_answered = turn is not None and any(
            response.id in ask.responses for event in turn.messages for response in event.function_responses()
        )
        began = ask.began if has_answered else min(begun, default=ask.began)
        # What a Session actor was storing that was lost is stored again.
        storing_s = story.history.store_s * (1 + sum(process.startswith("session") for _, process in story.history.lost))
        if not given or ask.ended_at[0] - began[0] < min(given) - 0.001 - storing_s:
            yield f"{ask} timed out {ask.ended_at[0] - began[0]:.3f} s after it began, and has {given} s"


def used(story: Story) -> Iterator[str]:
    """2 Limits of a turn: what a turn has used is the sum of what the events in its log say, also of those that were taken back.

    What a fork has copied counts where it was used. A turn that ends while the store is away may have no sums in its record:
    they are made from the log when they are wanted.
    """
    for turn in story.turns.values():
        record = story.found.turns.get(turn.id)
        if record is None or record.status == "running" or not story.is_whole:
            continue
        sums = _sums([event for event in turn.events if event.id not in story.copied])
        if record.used is not None and {name: record.used.get(name, 0) for name in sums} != sums:
            yield f"turn {turn.id} has used {dict(record.used)}, and its events {sums}"
        if record.used is None and not story.history.store_failed:
            yield f"turn {turn.id} has no sums of what it has used"


def _sums(events: Sequence[Event]) -> dict[str, int]:
    sums = dict.fromkeys(("llm_calls", "tool_calls", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"), 0)
    for event in events:
        if event.author == USER:
            continue
        sums["llm_calls"] += _is_of_model(event)
        sums["tool_calls"] += len({call.id for call in event.function_calls() if call.name != "raygrove_request_budget"})
        if (usage := event.usage) is not None:
            sums["input_tokens"] += (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
            sums["cached_tokens"] += usage.cached_content_token_count or 0
            sums["output_tokens"] += usage.candidates_token_count or 0
            sums["reasoning_tokens"] += usage.thoughts_token_count or 0
    return sums


def failures_leave_an_event(story: Story) -> Iterator[str]:
    """2 Failures: an agent that fails leaves an event with the error and without content: a failed turn has one."""
    for turn in story.turns.values():
        record = story.found.turns.get(turn.id)
        if record is None or record.status != "failed" or story.history.store_failed or not turn.messages:
            continue
        if not any(event.error_code and event.content is None and event.seq > turn.messages[-1].seq for event in turn.events):
            yield f"turn {turn.id} has failed, and no event says why"


def ended_calls_stay_ended(story: Story) -> Iterator[str]:
    """2 Lost processes: a run goes on from what the log has: only calls that had not ended are made again.

    A process that lives on when its Runner is lost may not know what has ended since. One that hears of a cancellation late may
    begin a call that the log has as cancelled.
    """
    ended: dict[str, tuple[Moment, Event]] = {}
    often = Counter(run.call_id for run in story.history.tools)
    if story.changed_at < NEVER:
        return
    for turn in story.turns.values():
        for call_id, answers in turn.answers.items():
            for event, response in answers:
                late = any(later.author == USER and later.seq > event.seq for later, _ in answers)
                late |= often[call_id] == 1
                if event.author != USER and not (late and response.response == CANCELLED) and event.id not in story.copied:
                    ended.setdefault(call_id, (story.known(event), event))
    for run in story.history.tools:
        if run.call_id in ended and ended[run.call_id][0] < min(run.began, story.history.given_up(run.runner)):
            yield f"call {run.call_id} was made again, and event {ended[run.call_id][1].seq} has its result"


def calls_are_the_logs(story: Story) -> Iterator[str]:
    """5.1 The step loop: an agent stores the response, then runs the tools: each call is in one event of the log."""
    made = Counter(
        call_id
        for turn in story.turns.values()
        for event in turn.events
        for call in event.function_calls()
        for call_id in [call.id]
    )
    yield from (f"call {each} is made by {often} events" for each, often in made.items() if often > 1)
    if len(story.history.found) == 1 and story.changed_at == NEVER:
        yield from (
            f"a tool ran for call {run.call_id}, which is not in the log"
            for run in story.history.tools
            if run.call_id not in made
        )


def _has_tools(history: History, agent: str, at: Moment) -> bool:
    """True if a call of an agent had no result then whose tool is no agent."""
    begun = {run.call_id for run in history.tools if run.began < at and not run.asks}
    for log in history.logs:
        calls = {call.id for event in log if event.author == agent for call in event.function_calls()} & begun
        known = (event for event in log if history.known[event.id] < at)
        if calls - {response.id for event in known for response in event.function_responses()}:
            return True
    return False


def alone_for_a_reason(history: History) -> Iterator[str]:
    """2 Lost processes: a run goes on alone whose process was lost while code of it ran, or was lost again, or whose Runner was
    lost again without a new event of the turn between, or that went on alone and has stored nothing since. One that waits for
    another run is not charged with a loss."""
    for at, turn, agent in history.alone:
        lost = [loss for loss in history.losses if (loss.turn, loss.agent) == (turn, agent) and loss.at < at]
        own = [loss for loss in lost if not loss.with_runner]
        resumed = [(moment, runner) for moment, resumed, runner in history.resumed if resumed == turn and moment < at]
        last = max((moment for moment, _ in resumed), default=at)
        events = [event for log in history.logs for event in by_agents(log) if event.invocation_id == turn]
        said = [event for event in events if event.author == agent]
        # Of a call that was under way each time only its agent's events tell that the run has gone on.
        news = said if any(any(event.function_calls()) for event in said) else events
        since = _newest(history, news, last)
        runners = {runner for moment, runner in resumed if moment > since}
        ran_code = any(not loss.waits or _has_tools(history, agent, loss.at) for loss in own)
        own_news = _newest(history, said, last)
        has_begun = any(own_news < moment < at for moment, *run in history.alone if run == [turn, agent])
        if len(own) + len(runners) < 2 and not ran_code and not has_begun:
            yield f"a run of {agent} in {turn} went on alone, and was lost {len(own)} times, and {len(runners)} Runners"


def _newest(history: History, events: Sequence[Event], before: Moment) -> Moment:
    """When the newest of some events that were stored before a moment was stored."""
    return max((history.known[event.id] for event in events if history.known[event.id] < before), default=(0.0, 0))


def last_write_counts(story: Story) -> Iterator[str]:
    """5.6 Tools: the calls of a response have one state: of a key the value that was written last is stored."""
    runs = {run.call_id: run for run in story.history.tools}
    often = Counter(run.call_id for run in story.history.tools)
    for turn in story.turns.values():
        for event in turn.events:
            calls = [call.id or "" for call in event.function_calls()]
            answers = [answer.seq for call_id in calls for answer, _ in turn.answers.get(call_id, ())]
            wrote = sorted(each for call_id in calls if call_id in runs for each in runs[call_id].wrote)
            if not calls or len(answers) != len(calls) or any(often[call_id] > 1 for call_id in calls):
                continue
            deltas = [each.actions.state_delta for each in turn.events if event.seq < each.seq <= max(answers)]
            stored = {key: value for delta in deltas for key, value in delta.items()}
            for key, value in {key: value for _, key, value in wrote}.items():
                if key in stored and stored[key] != value:
                    yield f"the calls of event {event.seq} have set {key} to {value} last, and {stored[key]} is stored"


def attempts(history: History) -> Iterator[str]:
    """2 Lost processes: the third loss of a process of its own fails the run. Each loss of a Runner may add an attempt.

    So may what turns of other users do, which run in the same processes.
    """
    if len({ask.user for ask in history.asks}) > 1:
        return
    runners = sum(process.startswith("runner") for _, process in history.lost)
    for call_id, often in Counter(run.call_id for run in history.tools).items():
        if often > MOST_ATTEMPTS + runners:
            yield f"call {call_id} was made {often} times, with {runners} losses of a Runner"


def lost_for_a_reason(story: Story) -> Iterator[str]:
    """2 Lost processes: a run fails with ActorLostError at the third loss, and not before."""
    for event in story.whole:
        if event.error_code == "ActorLostError" and story.history.lost_runs[event.author] < 3:
            yield f"{event.author} has failed by losses at {event.seq}, after {story.history.lost_runs[event.author]} of them"


def nothing_after_the_end(story: Story) -> Iterator[str]:
    """2 Cancellation: a turn that has ended stays as it is, and what comes later is dropped, until it is answered or retried."""
    for turn in story.turns.values():
        if turn.id in story.retried or story.history.store_failed:
            continue
        for event in by_agents(turn.events):
            opener = turn.opener(event)
            over = [
                ask
                for ask in story.of_turn(turn.id)
                if opener and _ends(story, ask, opener) and ask.ended_at < story.known(event)
            ]
            if over and not (over[0].ended == "Paused" and is_seal(event)):
                yield f"event {event.seq} of turn {turn.id} came after {over[0]} had come to {over[0].ended}"


def _ends(story: Story, ask: Ask, opener: Event) -> bool:
    """True if what a program was told is the end of what begins with a message, and not of what was before."""
    if ask.what == "cancel":
        return ask.kind == "done" and story.known(opener) < ask.began
    return ask.kind == "end" and bool(ask.events) and ask.events[-1].seq > opener.seq


def cancelled_for_a_reason(story: Story) -> Iterator[str]:
    """2 Cancellation: `cancel`, an interruption and the deletion of the user cancel a turn. A program that dies does not."""
    for ask in story.asks:
        if ask.ended != "TurnCancelledError":
            continue
        if not any(other.began < ask.ended_at and _cancels(other, ask) for other in story.history.asks if other.user == ask.user):
            yield f"{ask} was told that its turn was cancelled, and nothing has cancelled it"


def _cancels(other: Ask, ask: Ask) -> bool:
    if other.what == "users.delete":
        return True
    is_here = other.session == ask.session
    interrupts = other.config.on_concurrent_turn == "interrupt" and other.turn != ask.turn
    return is_here and (interrupts or (other.what in ("cancel", "leave") and other.turn == ask.turn))


def calls_are_answered(story: Story) -> Iterator[str]:
    """2 Cancellation: each call of a turn that is over has one response, of its agent and on its branch; if it was
    cancelled at least the error "cancelled".

    While the store takes nothing a cancelled turn ends all the same, and its calls stay without one. So does a question below an
    agent that is a tool, which cannot pause the turn, and the call of a run that has failed, or was stopped by a failure, where
    the agent above goes on; the tool `linger` is one of runs that are stopped.
    """
    over = ("finished",) if story.history.store_failed else ("finished", "cancelled")
    for turn in story.turns.values():
        record = story.found.turns.get(turn.id)
        for call_id, answers in turn.answers.items():
            late = [event.seq for event, _ in answers if event.author == USER]
            own = [
                event for event, _ in answers if event.author != USER and not (is_seal(event) and late and late[-1] > event.seq)
            ]
            asked = turn.calls.get(call_id)
            # One that the user has answered late may go on alone, outside the workflow that has failed.
            if asked and not late and (wrong := [each for each in own if _place(each) != _place(asked[0])]):
                yield f"events {seqs(wrong)} answer call {call_id}, which is of {_place(asked[0])}"
            if len(own) > 1 and story.changed_at == NEVER:
                yield f"call {call_id} has {len(own)} responses of its agent: {seqs(own)}"
        if record is None or record.status not in over:
            continue
        for call_id, (event, call) in turn.calls.items():
            asks_below = call_id in event.long_running_tool_ids and event.branch is not None
            is_open = call_id not in turn.answers and not asks_below and call.name != "linger"
            if is_open and event.id in story.shown and not _was_given_up(story, turn, event):
                yield f"call {call.name} of {event.author} at {event.seq} has no response in a turn that is {record.status}"


def _place(event: Event) -> tuple[str, str | None]:
    return event.author, event.branch


def _was_given_up(story: Story, turn: Turn, event: Event) -> bool:
    """True if a run has failed after the event, before the agent of the event has said more than results; or one that runs beside
    it has, whose failure may not have come to what stops the others when the event was stored.

    While the store takes nothing, all that is left of a run that is a tool and has failed is the error that its call got."""
    for later in turn.events:
        is_failure = later.error_code or (story.history.store_failed and _has_failed_as_tool(event, later))
        if later.seq > event.seq and is_failure:
            return True
        is_own = (later.author, later.branch) == (event.author, event.branch)
        if later.seq > event.seq and is_own and not list(later.function_responses()):
            return False
    opener = turn.opener(event)
    return any(
        before.error_code and before.seq < event.seq and _are_beside(before, event) and turn.opener(before) is opener
        for before in turn.events
    )


def _has_failed_as_tool(event: Event, later: Event) -> bool:
    """True if a later event has an error as the response to the call that has the agent of the event as its tool."""
    calls = {segment.partition(":")[2] for segment in (event.branch or "").split(".") if segment.startswith("@")}
    return any("error" in response.response and response.id in calls for response in later.function_responses())


def _are_beside(one: Event, other: Event) -> bool:
    """True for events on two branches of one parallel, or below these: their branches part behind a name that both have."""
    names, others = (one.branch or "").split("."), (other.branch or "").split(".")
    return names != others and names[0] == others[0] != ""


def one_answer(story: Story) -> Iterator[str]:
    """4 Pauses: a call takes one answer of the user; so it is with consent, and with a question until its tool asks again."""
    asked = Counter(call for event in story.whole for call in event.actions.requested_inputs)
    # A message may come behind an answer, when the turn of that is over.
    later = Counter(call for ask in story.asks if ask.what == "run" for call in ask.responses)
    answered = {call for ask in story.asks if ask.what == "answer" for call in ask.responses}
    for turn in story.turns.values():
        for call_id, answers in turn.answers.items():
            given = [event for event, _ in answers if event.author == USER]
            # Those that a fork has copied count where they were given.
            first = sum(event.id in story.copied for event in given) or (call_id in answered)
            if len(given) > max(1, asked[call_id], first + later[call_id]) and story.changed_at == NEVER:
                yield f"call {call_id} is answered {len(given)} times by the user: {seqs(given)}"


def declined_is_not_run(story: Story) -> Iterator[str]:
    """5.6 Tools: `{"confirmed": true}` runs the function; anything else answers the call with an error."""
    ran = {run.call_id for run in story.history.tools}
    for turn in story.turns.values():
        for call_id in turn.answers.keys() & ran:
            no = [r.response for e, r in turn.answers[call_id] if e.author == USER and r.response.get("confirmed") is False]
            if no and not turn.calls[call_id][0].actions.requested_inputs:
                yield f"a tool ran for call {call_id}, to which the user has said no"


def answers_are_kept(story: Story) -> Iterator[str]:
    """4 Pauses: of two answers that stand in line the second is refused with TurnStateError: one that was taken is in the log."""
    kept = {(r.id, _plain(r.response)) for event in story.whole if event.author == USER for r in event.function_responses()}
    answered = {call_id for call_id, _ in kept}
    for ask in story.asks:
        if not ask.responses:
            continue
        lacks = [call for call, response in ask.responses.items() if (call, _plain(response)) not in kept]
        if ask.ended in ("Finished", "Paused") and lacks and story.changed_at == NEVER:
            yield f"{ask} came to {ask.ended}, and its answer is not in the log"
        record, turn = story.found.turns.get(ask.turn), story.turns.get(ask.turn)
        is_refused = ask.ended in ("TurnStateError", "TurnCancelledError") and not ask.events
        # It may have been cancelled then, and wait again since it was run again from a step.
        is_refused = is_refused and not any(
            other.what == "retry" and other.ended_at > ask.began for other in story.of_turn(ask.turn)
        )
        if is_refused and record is not None and record.status == "paused" and turn and not answered & ask.responses.keys():
            yield f"{ask} was refused with {ask.ended}, and turn {ask.turn} still waits for the answer"


def _plain(response: Any) -> str:
    return repr(sorted(response.items())) if isinstance(response, Mapping) else repr([("result", response)])


def rewound(story: Story) -> Iterator[str]:
    """2 Rewind: readers see the log as before that turn, and the state as it was then; keys that were added since are gone."""
    state: dict[str, Any] = {}
    before: list[Event] = []
    for event in story.log:
        delta = {key: value for key, value in event.actions.state_delta.items() if ":" not in key}
        gone = event.actions.rewind_before_invocation_id
        if takes_back(event) and any(state.get(key) != value for key, value in delta.items()):
            yield f"event {event.seq} takes turns back, and makes the state {delta} that was {state} before them"
        if gone and (left := [other for other in before if other.invocation_id == gone]):
            yield f"turn {gone} was rewound at {event.seq}, and {seqs(left)} are shown"
        state.update(delta)
        before.append(event)


def run_again_from(story: Story) -> Iterator[str]:
    """2 Run again from a step: all events of the turn after that one are hidden; one event more names the turn and the event."""
    for event, before in zip(story.log[1:], story.log, strict=False):
        reset: Any = (event.custom_metadata or {}).get("raygrove:reset")
        if reset and before.id != reset["eventId"] and not takes_back(before):
            yield f"turn {reset['invocationId']} was run again from {reset['eventId']}, and event {before.seq} stands behind that"


def retries(story: Story) -> Iterator[str]:
    """2 Failures: a failed turn that is retried is open again. One that has failed, and was not retried since, is not refused."""
    for ask in story.asks:
        others = [
            o for o in story.of_turn(ask.turn) if o is not ask and (o.goes_on or o.what == "cancel") and o.ended_at > ask.began
        ]
        told = [o for o in story.of_turn(ask.turn) if o.kind == "end" and o.ended_at < ask.began]
        failed = bool(told) and STATUS.get(max(told, key=lambda o: o.ended_at).ended, "failed") == "failed"
        if ask.what == "retry" and ask.ended == "TurnStateError" and not ask.given and failed and not others:
            yield f"{ask} was refused, and its turn had failed"


def forked(history: History) -> Iterator[str]:
    """2 Fork: a fork has what readers see of the other session up to the last event of the turn, with the same positions."""
    for ask in history.asks:
        fork = history.found.get((ask.user, str(ask.given.get("fork_id"))))
        source = history.stored.get((ask.user, ask.session)) or history.found.get((ask.user, ask.session), fork)
        if ask.what != "fork" or ask.kind != "done" or fork is None or source is None:
            continue
        log = source if isinstance(source, list) else source.log
        if log is not source and Story(history, (ask.user, ask.session)).changed_at < NEVER:
            continue
        if any(ask.began < each.ended_at for each in Story(history, (ask.user, ask.given["fork_id"])).deletions):
            continue
        ids = {event.seq: event.id for event in log}
        of_turn = (event for event in log if event.invocation_id == ask.turn)
        # Of a turn that has gone on since it has less.
        until = max((event.seq for event in of_turn if history.known.get(event.id, NEVER) < ask.began), default=0)
        differs = [event.seq for event in fork.log if event.seq <= until and ids.get(event.seq) != event.id]
        if differs or (fork.log and fork.log[-1].seq < until):
            yield f"{ask}: the fork differs at {differs or until} from the session up to {until}"


def one_turn_a_due_time(history: History) -> Iterator[str]:
    """schedules.md What cannot happen: there is no moment at which a loss could make a due time's turn twice."""
    due = Counter(
        (story[0], metadata["schedule"], metadata["due"])
        for story, log in {session: history.stored.get(session) or found.log for session, found in history.found.items()}.items()
        for event in log
        if is_message(event) and "due" in (metadata := event.custom_metadata or {})
    )
    yield from (
        f"due time {when} of schedule {name} of {user} made {often} turns"
        for (user, name, when), often in due.items()
        if often > 1
    )


TURN_RULES = (
    one_message,
    other_requests,
    message_is_kept,
    refused_is_not_stored,
    wrong_is_refused,
    record_says_the_end,
    one_turn_at_a_time,
    order_of_turns,
    line_of_a_program,
    busy_for_a_reason,
    model_calls,
    transfers,
    timeouts,
    used,
    failures_leave_an_event,
    ended_calls_stay_ended,
    calls_are_the_logs,
    last_write_counts,
    lost_for_a_reason,
    nothing_after_the_end,
    cancelled_for_a_reason,
    calls_are_answered,
    one_answer,
    declined_is_not_run,
    answers_are_kept,
    rewound,
    run_again_from,
    retries,
)
RUN_RULES = (every_ask_ends, nothing_internal, attempts, alone_for_a_reason, forked, one_turn_a_due_time)
