"""What an agent is given that comes to a log in which it has not spoken: what another one has compiled that has not either."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors import Event
from actors.rules.prompt.history import History
from tests.support.fixtures.log_events import event, said
from tests.support.tries import tries
from tests.unit.rules.prompt.test_history_step_by_step import branches, conversations, logs


@settings(max_examples=tries(400))
@given(logs, logs, branches, st.sampled_from(["me", "B", "C", "new"]), st.booleans())
def test_a_newcomer_sees_the_same_as_if_it_had_read_everything(
    before: list[Event], after: list[Event], branch: str | None, agent: str, latest_only: bool
) -> None:
    said_before, warned, warned_anew = History("stranger", branch), list[str](), list[str]()
    anew = History(agent, branch, warned_anew.append)
    for each in before:
        said_before.add(each)
        anew.add(each)
    if latest_only:
        said_before.keep_latest()
        anew.keep_latest()
    shown = said_before.contents("none")
    newcomer = said_before.for_newcomer(agent, warned.append)
    assume(newcomer is not None)
    assert newcomer is not None
    for each in after:
        for history in (newcomer, anew):
            history.add(each)
            if latest_only:
                history.keep_latest()
        answered = [response.id for response in each.function_responses()]
        assert newcomer.contents("none") == anew.contents("none")
        assert newcomer.lacks(answered) == anew.lacks(answered)
        assert newcomer.still_open(answered) == anew.still_open(answered)
        assert newcomer.user_replies(answered) == anew.user_replies(answered)
        if not latest_only:
            assert newcomer.contents() == anew.contents()
    assert warned == warned_anew
    # Whoever comes next begins with the same.
    assert said_before.contents("none") == shown


@settings(max_examples=tries(100))
@given(conversations())
def test_who_has_spoken_is_no_newcomer(log: list[Event]) -> None:
    seen = History("stranger")
    for each in log:
        seen.add(each)
    speakers = {each.author for each in log if each.content is not None and not each.content.is_empty()} - {"user"}
    assert {agent for agent in ("me", "B", "C") if seen.for_newcomer(agent) is None} == speakers


def test_what_a_speaker_has_compiled_serves_no_one_else() -> None:
    history = History("me")
    history.add(event("me", said("hi")))
    assert history.for_newcomer("B") is None
