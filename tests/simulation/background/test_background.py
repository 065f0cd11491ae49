"""Cases that seeds of errands have found, made small: they stay when seeds draw others."""

from __future__ import annotations

from tests.simulation.background.errands import Doing, Errands, Hand, Talker
from tests.simulation.background.play import play
from tests.simulation.faults import Fault, FaultPlan, Network
from tests.simulation.steering.talk import Said

TO_DESK = Hand(name="chief", steps=[Doing(does="hand", to="desk")])


def sends(name: str, *to: str) -> Talker:
    return Talker(name=name, steps=[Doing(does="send", to=each) for each in to])


def hears(name: str, messages: int) -> Talker:
    return Talker(name=name, steps=[Doing(does="hear")] * messages)


def test_a_run_says_its_last_words_though_the_session_actor_was_lost_since() -> None:
    helper = Hand(name="h0", pair=[sends("h0a", "h0b"), hears("h0b", 1)])
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0")], helpers=[helper])
    plan = FaultPlan(faults=[Fault(what="kill", who="session", kind="CloseTurn", nth=1)])
    assert play(Errands(chief=chief, said=[Said(turn="t0")], plan=plan), 0).problems == []


def test_code_is_given_what_it_has_read_though_the_reply_was_lost() -> None:
    faults = [Fault(what="kill", who="session", kind="Commit RemoveSchedule", nth=1, phase="handled")]
    given = Errands(chief=TO_DESK, desk=[sends("a", "b"), hears("b", 1)], said=[Said(turn="t0")], plan=FaultPlan(faults=faults))
    assert play(given, 0).problems == []


def test_what_a_child_has_read_stands_behind_the_note_that_it_begins() -> None:
    desk = [sends("a", "b"), Talker(name="b", steps=[Doing(does="hear"), Doing(does="work", takes_s=2.0)])]
    network = Network(seed=7, usual_s=0.03, slow=3, slow_s=0.3)
    faults = [Fault(what="kill", who="runner", kind="ReadMessages", nth=1, phase="handled", after_s=1.0)]
    plan = FaultPlan(network=network, faults=faults)
    assert play(Errands(chief=TO_DESK, desk=desk, beside=False, said=[Said(turn="t0")], plan=plan), 7).problems == []


def test_no_more_is_read_than_code_takes_though_the_reply_was_lost() -> None:
    faults = [Fault(what="lose reply", kind="ReadMessages", nth=1, phase="handled")]
    desk = [sends("a", "b", "b"), Talker(name="b", steps=[Doing(does="work", takes_s=2.0), Doing(does="hear")])]
    given = Errands(chief=TO_DESK, desk=desk, said=[Said(turn="t0")], plan=FaultPlan(faults=faults))
    assert play(given, 0).problems == []


def test_code_is_given_what_a_request_reads_whose_connection_broke() -> None:
    def talker(name: str, *does: str) -> Talker:
        of = {"hear": Doing(does="hear"), "work": Doing(does="work", takes_s=2.0)}
        return Talker(name=name, steps=[of.get(each) or Doing(does="send", to=each) for each in does])

    pair = [
        talker("h0a", "hear", "h0b", "hear", "hear", "h0b", "h0b", "h0b"),
        talker("h0b", "h0a", "work", "h0a", "h0a", "hear", "hear", "hear", "hear"),
    ]
    chief = Hand(name="chief", steps=[Doing(does="check"), Doing(does="start", to="h0")], helpers=[Hand(name="h0", pair=pair)])
    faults = [
        Fault(what="kill", who="runner", after_s=0.046),
        Fault(what="break", kind="ReadMessages", nth=6, after_s=0.004),
    ]
    given = Errands(chief=chief, said=[Said(turn="t0", session="r")], plan=FaultPlan(faults=faults))
    assert play(given, 1044).problems == []


def test_messages_that_begin_turns_begin_them_in_their_order() -> None:
    desk = [sends("a", "clerk", "clerk", "clerk")]
    for nth in (2, 3, 4):
        # One that could not be opened is tried again later.
        faults, seed = [Fault(what="store fails", kind="OpenTurn", nth=nth, for_s=0.3)], 1
        plan = FaultPlan(faults=faults, network=Network(seed=seed, usual_s=0.03))
        given = Errands(chief=TO_DESK, desk=desk, has_clerk=True, said=[Said(turn="t0")], plan=plan)
        assert play(given, seed).problems == []


def test_an_end_is_told_though_the_answer_that_has_it_could_not_be_stored() -> None:
    pair = [sends("h0a", "h0b", "h0b", "h0b", "h0b"), hears("h0b", 3)]
    chief = Hand(
        name="chief",
        steps=[Doing(does="wait", takes_s=300.0, nth=1), Doing(does="start", to="h0")],
        helpers=[Hand(name="h0", pair=pair)],
    )
    faults = [Fault(what="store unsure", kind="NotifyRuns", nth=4, for_s=2.1946540259745695)]
    plan = FaultPlan(faults=faults, store_timeout_s=0.5)
    assert play(Errands(chief=chief, said=[Said(turn="t0"), Said(turn="t1")], plan=plan), 381).problems == []


def test_a_run_that_ends_while_it_is_cancelled_has_ended() -> None:
    steps = [Doing(does="start", to="h0"), Doing(does="cancel")]
    chief = Hand(name="chief", steps=steps, helpers=[Hand(name="h0", thinks_s=0.01)], thinks_s=0.5)
    for seed in range(5):
        assert play(Errands(chief=chief, said=[Said(turn="t0")], plan=FaultPlan(store_s=0.2)), seed).problems == []


def test_a_change_of_the_state_is_no_message() -> None:
    helper = Hand(name="h0", on_done="state")
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0"), *TO_DESK.steps], helpers=[helper])
    a = Talker(name="a", steps=[Doing(does="work", takes_s=2.0), Doing(does="send", to="b")])
    assert play(Errands(chief=chief, desk=[a, hears("b", 1)], said=[Said(turn="t0")]), 0).problems == []


def test_what_waits_is_read_though_the_store_is_away_for_longer_than_many_turns_take_to_fail() -> None:
    helper = Hand(name="h0", on_done="wait", steps=[Doing(does="work", takes_s=2.0)])
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0")], helpers=[helper])
    plan = FaultPlan(faults=[Fault(what="store away", kind="StartTurn", nth=2, for_s=5.0)], store_timeout_s=0.5)
    assert play(Errands(chief=chief, said=[Said(turn="t0")], plan=plan), 0).problems == []
