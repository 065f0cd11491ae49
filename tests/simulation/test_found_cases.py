"""Cases that seeds have found, made small, as `python -m tests.simulation SEED` prints them: they stay when seeds draw others."""

from __future__ import annotations

import msgspec
import pytest

from actors.messages.config import Limits
from tests.simulation.background.errands import Doing, Errands, Hand, Talker
from tests.simulation.background.play import play as play_errands
from tests.simulation.crowds.crowd import Crowd
from tests.simulation.faults import Fault, FaultPlan, Network
from tests.simulation.nodes.weather import Asked, Change, Weather
from tests.simulation.programs import Wish
from tests.simulation.scenarios import Act, Node, Scenario, Step
from tests.simulation.schedules.timetable import Timetable, Wanted
from tests.simulation.simulate import Case, check
from tests.simulation.steering.play import play as talk
from tests.simulation.steering.talk import Said, Talk
from tests.simulation.updates.edition import Asked as AskedTurn
from tests.simulation.updates.edition import Edit, Edition
from tests.simulation.worlds import WORLDS


def llm(name: str, *steps: Step, thinks_s: float = 0.0, fails: int = 0) -> Node:
    return Node(kind="llm", name=name, steps=steps, thinks_s=thinks_s, fails=fails)


hands = Node(kind="llm", name="hands", steps=[Step(does="hand", to="helper")], children=[llm("helper", fails=1)])
"""An agent that asks the user and hands over to one that fails."""

beside = Node(kind="par", name="beside", children=[llm("asks", Step(does="ask")), llm("fails", thinks_s=0.1, fails=1)])
"""An agent that asks the user beside one that fails."""


def test_agents_below_the_selected_one_do_not_work_on_a_log_without_its_message() -> None:
    steps = [llm("n4", thinks_s=0.5), Node(kind="says", name="n5")]
    works = llm("n6", Step(does="work"), Step(does="work", takes_s=2.0))
    inner = Node(kind="par", name="n2", children=[Node(kind="seq", name="n3", children=steps), works])
    turns = [[Act(deed="enqueue", after_s=0.88)]]
    scenario = Scenario(root=Node(kind="par", name="n1", children=[inner]), turns=turns)
    faults = [Fault(what="kill", who="session", kind="Commit", nth=23, for_s=0.07)]
    network = Network(brings_early=True, seed=1680, slow=4, slow_s=0.3)
    assert check(Case(1680, scenario, FaultPlan(faults=faults, network=network, store_timeout_s=0.5)))[0] == []


def test_a_turn_that_a_request_finds_in_the_store_goes_on_when_the_store_takes_something_again() -> None:
    loop = Node(kind="loop", name="n3", children=[Node(kind="says", name="n4")], times=2, absorbs=True)
    root = Node(kind="seq", name="n1", children=[Node(kind="par", name="n2", children=[loop])])
    scenario = Scenario(root=root, turns=[[Act(deed="attach", after_s=0.1806013237065462)]])
    faults = [
        Fault(what="kill", who="session", kind="Commit", nth=13, for_s=0.06345151971064132),
        Fault(what="store unsure", kind="Commit AddEvent", nth=4, for_s=6.658650585202926),
        Fault(what="store unsure", kind="Commit AddEvent", nth=1, for_s=2.4263148432602955),
    ]
    plan = FaultPlan(faults=faults, network=Network(seed=2991, slow_s=0.05), store_timeout_s=0.5)
    assert check(Case(2991, scenario, plan))[0] == []


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(Node(kind="custom", name="n2", children=[llm("n3", Step(does="work"))]), id="after it has finished"),
        pytest.param(Node(kind="flow", name="n3", tasks=[[], [0]]), id="after a flow has failed"),
    ],
)
@pytest.mark.parametrize("deed", ["rerun", "retry"])
def test_a_turn_at_its_limit_of_model_calls_comes_to_it_once_more(root: Node, deed: str) -> None:
    max_calls = 1 if root.kind == "custom" else 2
    between = [[Act(deed=deed, after_s=0.35, share=0.5)]]  # type: ignore[arg-type]
    assert check(Case(1772, Scenario(root=root, between=between, max_calls=max_calls), FaultPlan()))[0] == []


def test_a_late_answer_to_a_question_below_a_tool_goes_to_the_root() -> None:
    expert = llm("n4", Step(does="ask"))
    asks = Node(kind="llm", name="n3", steps=[Step(does="expert", to="n4")], experts=[expert], fails=1)
    root = Node(kind="par", name="n1", children=[asks], supervision="restart")
    between = [[Act(deed="late", after_s=14.0, waits=True, share=0.51)]]
    assert check(Case(1892, Scenario(root=root, between=between), FaultPlan()))[0] == []


def test_an_agent_may_call_a_tool_when_one_beside_it_has_just_failed() -> None:
    beside = Node(kind="par", name="n4", children=[llm("n5", Step(does="work"), thinks_s=0.01), llm("n6", fails=1)])
    root = Node(kind="seq", name="n1", children=[Node(kind="custom", name="n2", children=[llm("n3"), beside])])
    plan = FaultPlan(network=Network(seed=2379, usual_s=0.005))
    assert check(Case(2379, Scenario(root=root), plan))[0] == []


def test_an_agent_asks_its_model_while_one_beside_it_comes_to_the_limit_of_calls() -> None:
    root = Node(kind="par", name="beside", children=[llm("fails"), Node(kind="llm", name="works0", pieces=5)])
    assert check(Case(2948, Scenario(root=root, max_calls=1, streams=True), FaultPlan()))[0] == []


def test_a_turn_may_be_rewound_while_a_retry_of_it_is_on_its_way() -> None:
    between = [[Act(deed="rewind", after_s=0.0053), Act(deed="retry", after_s=0.0018)]]
    scenario = Scenario(root=Node(kind="seq", name="n1", children=[llm("n2")]), between=between, streams=True)
    assert check(Case(2372, scenario, FaultPlan(network=Network(seed=2372, usual_s=0.03))))[0] == []


def test_a_cancel_that_comes_while_another_ends_the_turn_and_the_store_is_full_does_not_fail() -> None:
    turns = [[Act(deed="leave", after_s=0.0), Act(deed="again", after_s=0.0042)]]
    between = [[Act(deed="late", after_s=0.0, waits=True), Act(deed="cancel", after_s=0.1)]]
    scenario = Scenario(root=llm("first", Step(does="confirm")), turns=turns, between=between)
    faults = [Fault(what="kill", who="runner", kind="Append", nth=3), Fault(what="commits fail", for_s=4.2)]
    network = Network(brings_early=True, seed=2686, slow=10, slow_s=1.5)
    assert check(Case(2686, scenario, FaultPlan(faults=faults, network=network, store_s=0.2, store_timeout_s=0.5)))[0] == []


def test_an_answer_that_is_sent_twice_is_not_in_line_behind_itself() -> None:
    scenario = Scenario(
        root=llm("first", Step(does="work"), Step(does="confirm")),
        turns=[[Act(deed="leave", after_s=0.0)]],
        between=[[Act(deed="late", after_s=0.0, share=0.41)]],
        is_hasty=True,
        writes=True,
        opened_at_once=1,
    )
    network = Network(brings_early=True, seed=2808, slow=4, slow_s=1.5)
    faults = [Fault(what="break", kind="OpenTurn", nth=2, after_s=0.0006)]
    assert check(Case(2808, scenario, FaultPlan(network=network, faults=faults)))[0] == []


def test_a_turn_whose_request_was_sent_again_while_it_was_in_line_is_run() -> None:
    scenario = Scenario(root=llm("first", thinks_s=0.5), turns=[[Act(deed="enqueue", after_s=0.1)]])
    faults = [Fault(what="break", kind="OpenTurn", nth=2, after_s=0.001)]
    assert check(Case(471, scenario, FaultPlan(faults=faults)))[0] == []


def test_an_answer_to_a_question_that_a_late_answer_has_led_to_continues_no_workflow() -> None:
    root = Node(kind="custom", name="root", children=[llm("helper", Step(does="ask"), Step(does="ask")), llm("last")])
    scenario = Scenario(root=root, turns=[[Act(deed="cancel", after_s=0.26)]], thinks_s=2.0)
    assert check(Case(1104, scenario, FaultPlan()))[0] == []


def test_a_turn_that_was_resumed_while_it_was_being_stored_ends_in_a_store_that_has_only_its_beginning() -> None:
    root = llm("first", Step(does="confirm"), thinks_s=0.01)
    between = [[Act(deed="rerun", after_s=0.0), Act(deed="rewind", after_s=0.1)]]
    faults = [
        Fault(what="kill", who="session", kind="Append", nth=2, phase="handled"),
        Fault(what="replace", who="runner", kind="Append", nth=3, for_s=0.05),
        Fault(what="store unsure", after_s=0.012758275256013795, for_s=4.844777632854591),
    ]
    turns = [[Act(deed="leave", after_s=0.0)], [Act(deed="leave", after_s=0.0)]]
    plan = FaultPlan(faults=faults, network=Network(seed=229, usual_s=0.005), store_timeout_s=0.5)
    assert check(Case(229, Scenario(root=root, turns=turns, between=between), plan))[0] == []


def test_a_turn_whose_end_only_a_lost_session_actor_knew_is_taken_up() -> None:
    faults = [
        Fault(what="store unsure", kind="Commit PutTurn >running", nth=1, for_s=6.7),
        Fault(what="kill", who="session", after_s=1.4),
    ]
    scenario = Scenario(root=llm("n3"), turns=[[]])
    assert check(Case(1711, scenario, FaultPlan(faults=faults, store_timeout_s=0.5)))[0] == []


def test_a_request_that_is_repeated_after_a_failure_is_given_the_turn_from_its_first_event() -> None:
    root = Node(kind="loop", name="root", times=2, children=[llm("works", Step(does="work", takes_s=2.0))])
    scenario = Scenario(root=root, turns=[[Act(deed="again", after_s=2.39), Act(deed="repeat", after_s=3.03)]])
    faults = [
        Fault(what="kill", who="runner", kind="Append", nth=1, for_s=0.05),
        Fault(what="store unsure", after_s=0.01, for_s=2.5),
    ]
    assert check(Case(3040, scenario, FaultPlan(faults=faults, store_timeout_s=0.5)))[0] == []


def test_an_answer_is_not_refused_while_another_one_that_fails_by_the_store_is_under_way() -> None:
    confirms = llm("second", Step(does="work", takes_s=0.3), Step(does="confirm"))
    asks = llm("first", Step(does="work"), Step(does="ask"), thinks_s=0.5)
    works = llm("last", Step(does="work", takes_s=0.3), Step(does="work"))
    root = Node(kind="par", name="root", children=[asks, confirms, works])
    late = [Act(deed="late", after_s=0.0, waits=True, share=0.3), Act(deed="late", after_s=0.1)]
    turns = [[Act(deed="leave", after_s=0.0)], [Act(deed="leave", after_s=0.0)]]
    scenario = Scenario(root=root, turns=turns, between=[[Act(deed="cancel", after_s=0.0)], late])
    faults = [
        Fault(what="lose reply", kind="Append", nth=12),
        Fault(what="kill", who="agents", after_s=1.2691209847609364),
        Fault(what="store hangs", kind="Commit", nth=21, for_s=1.9696740149776322),
        Fault(what="store fails", kind="Commit PutTurn running>paused", nth=2, for_s=0.48309550931333506),
        Fault(what="kill", who="sender", kind="RunChild", nth=9, after_s=0.07563255309226358),
    ]
    plan = FaultPlan(faults=faults, network=Network(seed=517, slow=10, slow_s=0.05), store_s=0.02)
    assert check(Case(517, scenario, plan))[0] == []


def test_an_agent_that_is_lost_before_it_gets_the_end_of_its_child_has_run_no_code() -> None:
    steps = Node(kind="seq", name="n2", children=[llm("n3")])
    scenario = Scenario(root=Node(kind="custom", name="n1", children=[steps]), turns=[[]], groups=2)
    faults = [
        Fault(what="freeze", who="runner", kind="Invoke", nth=2, phase="handled", for_s=0.82),
        Fault(what="kill", who="agent n3"),
    ]
    assert check(Case(7226, scenario, FaultPlan(faults=faults)))[0] == []


def test_who_follows_a_session_learns_that_it_is_gone_though_the_store_could_not_say_so() -> None:
    acts = [
        Act(deed="attach", after_s=0.09401110073441989),
        Act(deed="repeat", after_s=0.0015393266079089497),
        Act(deed="elsewhere", after_s=0.01616870300708245),
        Act(deed="withdraw", after_s=0.0021735467465284837),
        Act(deed="withdraw", after_s=0.9678454737526702),
        Act(deed="delete", after_s=0.25800504719283207),
    ]
    scenario = Scenario(root=Node(kind="flow", name="n3", tasks=[()]), turns=[acts])
    faults = [Fault(what="kill", who="runner", kind="Append", nth=1), Fault(what="store unsure", for_s=2.5290159547718325)]
    assert check(Case(1871, scenario, FaultPlan(faults=faults, store_timeout_s=0.5)))[0] == []


def test_an_answer_whose_turn_is_known_while_its_program_subscribes_again_is_followed() -> None:
    root = llm("n1", Step(does="confirm"), Step(), Step(does="work"))
    turns = [
        [Act(deed="attach", after_s=0.083), Act(deed="cancel", after_s=0.011), Act(deed="answer", after_s=0.013, waits=True)]
    ]
    faults = [Fault(what="kill", who="session", kind="Commit", nth=10)]
    plan = FaultPlan(faults=faults, network=Network(seed=14545, slow=10, slow_s=1.5))
    assert check(Case(14545, Scenario(root=root, turns=turns), plan))[0] == []


def test_a_turn_that_its_runner_is_given_twice_goes_on() -> None:
    helper = Node(
        kind="llm", name="helper", steps=[Step(does="work", takes_s=2.0), Step(does="confirm")], counts=True, thinks_s=0.5
    )
    steps = [Step(does="transfer", to="helper"), Step(does="work"), Step(does="work")]
    desk = Node(kind="llm", name="desk", children=[helper], steps=steps, counts=True, thinks_s=0.5)
    works = [Step(does="work", takes_s=0.3), Step(does="work", takes_s=0.02)]
    last = Node(kind="llm", name="last", steps=works, counts=True, thinks_s=0.5)
    scenario = Scenario(
        root=Node(kind="seq", name="root", children=[last, desk]),
        turns=[[Act(deed="withdraw", after_s=0.03336698477174143, waits=True, share=0.5775289640306952)], []],
        between=[
            [Act(deed="late", after_s=5.344862664451402), Act(deed="elsewhere", after_s=0.17490383084228786, waits=True)],
        ],
        streams=True,
    )
    faults = [
        Fault(what="lose reply", kind="TellPartial", nth=1),
        Fault(what="kill", who="sender", kind="StopRun", nth=2, for_s=7.058784369150541),
        Fault(what="kill", who="session", kind="Commit", nth=34, phase="handled", for_s=0.2738678573000398),
        Fault(what="store fails", kind="Commit AddEvent", nth=42, for_s=0.03338632056928889),
        Fault(what="break", kind="ResumeTurn", nth=1, after_s=0.037351750372219474),
    ]
    plan = FaultPlan(faults=faults, network=Network(seed=7846, slow=10, slow_s=1.5))
    assert check(Case(7846, scenario, plan))[0] == []


def test_messages_of_one_program_that_were_read_before_they_are_sent_again_are_answered() -> None:
    root = Node(kind="seq", name="n1", children=[Node(kind="flow", name="n2", tasks=[()])])
    said = [
        Said(turn="t0"),
        Said(turn="m0", again_after_s=0.0076, steers=True, program=1),
        Said(turn="m1", at_s=0.43, steers=True, program=1),
        Said(turn="m3", at_s=0.0075, steers=True, program=1),
    ]
    plan = FaultPlan(faults=[Fault(what="kill", who="runner", kind="Append", nth=3)], store_s=0.2)
    assert talk(Talk(root=root, said=said, plan=plan), 129).problems == []


def test_a_message_that_comes_at_the_end_of_a_turn_stays_behind_one_that_no_agent_has_read() -> None:
    said = [
        Said(turn="t0"),
        Said(turn="m2", steers=True, program=1),
        Said(turn="m3", at_s=0.015, steers=True, program=1),
    ]
    assert talk(Talk(root=llm("root", Step(does="exit")), said=said), 2559).problems == []


def test_a_turn_whose_opening_is_asked_for_again_while_the_store_is_away_runs_when_it_is_back() -> None:
    wanted = [Wanted(name=name, session="s0", every_s=every_s) for name, every_s in (("n1", 10), ("n2", 0), ("n3", 25))]
    faults = [
        Fault(what="store away", kind="AwaitDue", nth=7, phase="handled", for_s=3.4),
        Fault(what="lose reply", kind="OpenTurn", nth=3),
    ]
    plan = FaultPlan(faults=faults, store_timeout_s=0.5)
    given = Timetable(wanted=wanted, thinks_s=15.0, talks=[], clears=[], plan=plan)
    assert WORLDS["schedules"].play(given, 1519).problems == []


def test_a_schedule_that_is_paused_as_its_turn_is_about_to_begin_makes_none() -> None:
    wanted = [Wanted(name="n0", session="s0", every_s=13, paused_s=33.75), Wanted(name="n1", session="s0", every_s=13)]
    faults = [Fault(what="kill", who="session", after_s=32.581971518926785, for_s=6.421137166738122)]
    plan = FaultPlan(network=Network(brings_early=True, seed=1840, usual_s=0.03), faults=faults)
    given = Timetable(wanted=wanted, thinks_s=0.3, talks=[], clears=[], plan=plan)
    assert WORLDS["schedules"].play(given, 1840).problems == []


def test_messages_that_wait_begin_their_turns_in_order_also_while_agents_are_notified_of_the_first() -> None:
    said = [
        Said(turn="t0", session="r"),
        Said(turn="m0", session="r", at_s=0.0045, steers=True, program=1),
        Said(turn="m1", session="r", steers=True, program=1),
    ]
    plan = FaultPlan(network=Network(usual_s=0.005))
    assert play_errands(Errands(chief=Hand(name="h0"), said=said, plan=plan), 52096).problems == []


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(Node(kind="custom", name="root", children=[hands]), id="that its supervisor has caught"),
        pytest.param(Node(kind="seq", name="root", children=[hands, llm("last")], supervision="skip"), id="that was skipped"),
        pytest.param(Node(kind="seq", name="root", children=[beside, llm("last")], supervision="skip"), id="that has stopped it"),
    ],
)
def test_a_turn_does_not_wait_for_the_calls_of_a_run_that_has_failed_before_a_loss(root: Node) -> None:
    faults = [Fault(what="kill", who="runner", kind="Append", nth=5, for_s=0.05)]
    scenario = Scenario(root=root, turns=[[Act(deed="leave", after_s=0.0)]])
    assert check(Case(11011, scenario, FaultPlan(faults=faults)))[0] == []


def test_a_turn_that_is_answered_does_not_wait_for_the_calls_of_a_run_that_has_failed() -> None:
    root = Node(kind="seq", name="root", children=[hands, llm("asks", Step(does="ask"))], supervision="skip")
    assert check(Case(11011, Scenario(root=root, turns=[[]]), FaultPlan()))[0] == []


@pytest.mark.parametrize("differs", [True, False])
def test_a_late_decision_on_a_call_of_a_turn_that_has_failed_reaches_its_agent(differs: bool) -> None:
    asks = llm("asks", Step(does="confirm"), thinks_s=0.01)
    root = Node(kind="par", name="root", children=[asks, llm("fails", thinks_s=0.5, fails=1)])
    turns, late = [[Act(deed="leave", after_s=0.0)]], Act(deed="late", after_s=0.0, waits=True, differs=differs)
    assert check(Case(10526, Scenario(root=root, turns=turns, between=[[late]]), FaultPlan()))[0] == []


def test_a_paused_parallel_whose_note_the_store_does_not_take_waits_no_more() -> None:
    asks = llm("second", Step(does="work"), Step(does="confirm"))
    root = Node(kind="par", name="root", children=[llm("first", Step(does="work")), asks, llm("last")])
    turns, late = [[Act(deed="leave", after_s=0.0)]], Act(deed="late", after_s=0.0, waits=True)
    plan = FaultPlan(faults=[Fault(what="store hangs", kind="Commit", nth=8, for_s=5.2)], store_timeout_s=0.5)
    assert check(Case(10526, Scenario(root=root, turns=turns, between=[[late]]), plan))[0] == []


@pytest.mark.parametrize(("fails", "turns"), [(1, 1), (2, 3)])
def test_a_failure_whose_decision_the_store_does_not_take_is_void_when_the_turn_is_retried(fails: int, turns: int) -> None:
    asks = llm("asks", Step(does="confirm"), thinks_s=0.01)
    root = Node(kind="par", name="root", children=[asks, llm("fails", fails=fails)], supervision="skip")
    retry, later = Act(deed="retry", after_s=3.0, differs=True), Act(deed="archive", after_s=3.0)
    scenario = Scenario(root=root, turns=[[Act(deed="leave", after_s=0.0)]] * turns, between=[*[[later]] * (turns - 1), [retry]])
    faults = [Fault(what="commits fail", kind="Commit", nth=4, for_s=1.9)]
    assert check(Case(1, scenario, FaultPlan(faults=faults, store_timeout_s=0.5)))[0] == []


def test_a_turn_that_a_session_in_deletion_has_refused_once_is_followed_where_another_request_begins_it() -> None:
    acts = [
        Act(deed="delete", after_s=0.0064),
        Act(deed="withdraw", after_s=0.0023, share=0.5),
        Act(deed="again", after_s=0.0094),
    ]
    scenario = Scenario(root=llm("n1"), turns=[[], acts], opened_at_once=2)
    plan = FaultPlan(network=Network(seed=6, usual_s=0.03, slow=10, slow_s=0.3), store_s=0.02)
    assert check(Case(6, scenario, plan))[0] == []


def test_the_end_of_a_cancelled_turn_is_stored_unless_its_session_is_deleted_with_it() -> None:
    acts = [
        Act(deed="cancel", after_s=0.0021),
        Act(deed="repeat", after_s=0.0012),
        Act(deed="withdraw", after_s=0.057),
        Act(deed="withdraw", after_s=0.0095, share=0.99),
        Act(deed="delete", after_s=0.11),
    ]
    plan = FaultPlan(faults=[Fault(what="kill", who="session", kind="Commit", nth=5, for_s=0.071)])
    assert check(Case(10991, Scenario(root=llm("fails"), turns=[acts]), plan))[0] == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(what="kill", who="session", kind="Commit PutTurn finished>running", nth=1, phase="handled", for_s=0.8),
        Fault(what="kill", who="runner", kind="Invoke", nth=3, for_s=0.05),
    ],
    ids=["when it is stored", "before the agent has it"],
)
def test_a_late_answer_is_not_lost_with_an_actor(fault: Fault) -> None:
    asks = llm("n2", Step(does="ask"))
    root = Node(kind="llm", name="n1", steps=[Step(does="expert", to="n2")], experts=[asks])
    scenario = Scenario(root=root, turns=[[]], between=[[Act(deed="late", after_s=0.1, waits=True)]])
    assert check(Case(1, scenario, FaultPlan(faults=[fault])))[0] == []


def test_messages_of_one_process_that_arrive_at_once_keep_their_order() -> None:
    first = llm("first", Step(does="work", takes_s=0.3), Step(does="work", takes_s=2.0), thinks_s=0.5)
    late = Node(kind="llm", name="late", steps=[Step(does="work")], fails=1, is_late=True, thinks_s=0.5, pieces=4)
    acts = [
        Act(deed="again", after_s=0.051622328691683),
        Act(deed="conflict", after_s=0.03723877188642779),
        Act(deed="withdraw", after_s=0.004685494734452311, share=0.11751139338942973),
        Act(deed="withdraw", after_s=0.007683749465492218, share=0.30778924306830713),
        Act(deed="unnamed", after_s=0.0031685067014072814),
        Act(deed="again", after_s=0.05390399852080692),
    ]
    root = Node(kind="graph", name="graph", children=[msgspec.structs.replace(first, pieces=5), late])
    scenario = Scenario(root=root, turns=[acts], streams=True)
    faults = [
        Fault(what="commits fail", for_s=3.4508417517934746),
        Fault(what="kill", after_s=2.7875020641142916),
        Fault(what="commit conflicts"),
    ]
    plan = FaultPlan(network=Network(seed=11976, usual_s=0.005, slow=4, slow_s=1.5), faults=faults)
    assert check(Case(11976, scenario, plan))[0] == []


def test_a_run_of_a_late_answer_that_was_lost_after_before_agent_does_what_the_answer_decides() -> None:
    root = Node(kind="llm", name="n1", steps=[Step(does="confirm")], counts=True)
    between = [[Act(deed="cancel", after_s=0.1), Act(deed="late", after_s=1.5, waits=True)]]
    scenario = Scenario(root=root, turns=[[Act(deed="leave", after_s=0.1)]], between=between)
    plan = FaultPlan(faults=[Fault(what="kill", who="sender", kind="Append", nth=3, phase="handled")])
    assert check(Case(16461, scenario, plan))[0] == []


@pytest.mark.parametrize("step", [Step(does="ask"), Step(does="confirm")], ids=["a question", "consent"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_late_answer_to_a_failed_turn_continues_no_workflow(step: Step, is_lost: bool) -> None:
    fails = llm("n3", Step(does="work", takes_s=0.3), Step(does="fail"))
    root = Node(kind="par", name="n1", children=[llm("n2", step, Step(does="ask")), fails])
    between = [[Act(deed="late", after_s=0.5, waits=True), Act(deed="late", after_s=2.0, waits=True, share=0.9)]]
    faults = [Fault(what="kill", who="session", kind="Commit PutTurn failed>running", nth=1, phase="handled")]
    plan = FaultPlan(faults=faults if is_lost else [])
    assert check(Case(17563, Scenario(root=root, between=between), plan))[0] == []


def test_what_a_stopped_run_has_sent_is_in_the_log_before_the_next_run_reads_it_or_never() -> None:
    late = Node(kind="llm", name="late", fails=9, is_late=True)
    desk = Node(
        kind="llm", name="desk", children=[late], steps=[Step(does="work", takes_s=2.0), Step(does="transfer", to="late")]
    )
    slow = llm("slow", Step(does="work"), Step(does="linger"))
    root = Node(kind="seq", name="root", children=[Node(kind="custom", name="custom", children=[desk]), llm("last"), slow])
    acts = [
        Act(deed="reject", after_s=0.16),
        Act(deed="repeat", after_s=0.15),
        Act(deed="unnamed", after_s=0.48),
        Act(deed="again", after_s=0.046),
    ]
    plan = FaultPlan(network=Network(seed=15969, usual_s=0.03, slow=30, slow_s=1.5))
    assert check(Case(15969, Scenario(root=root, turns=[acts], groups=2), plan))[0] == []


def test_a_process_that_lives_on_when_its_runner_is_lost_may_make_a_call_again() -> None:
    experts = [llm("first", thinks_s=0.5), llm("second", Step(does="work"))]
    steps = [Step(does="experts", to="first second", takes_s=4.0)]
    root = Node(kind="llm", name="asks", steps=steps, experts=experts, counts=True)
    faults = [Fault(what="replace", who="runner", kind="Append", nth=3, for_s=3.5)]
    plan = FaultPlan(faults=faults, network=Network(seed=1282, slow=30, slow_s=0.3), has_standby=True)
    assert check(Case(1282, Scenario(root=root, turns=[]), plan))[0] == []


def test_a_model_may_be_shown_the_log_by_a_process_that_lives_on_when_its_runner_is_lost() -> None:
    root = Node(kind="seq", name="n1", children=[Node(kind="par", name="n2", children=[llm("n3"), llm("n5")])])
    turns = [[Act(deed="answer", after_s=0.026), Act(deed="again", after_s=0.057)]]
    faults = [Fault(what="replace", who="runner", kind="Append", nth=2, for_s=6.7)]
    plan = FaultPlan(faults=faults, network=Network(seed=1304, slow=10, slow_s=1.5), has_standby=True)
    assert check(Case(1304, Scenario(root=root, turns=turns), plan))[0] == []


@pytest.mark.parametrize("seed", [2, 4])
def test_a_turn_that_goes_on_between_two_decisions_runs_what_was_not_decided_again(seed: int) -> None:
    children = [
        Node(kind="llm", name="fails", fails=2, counts=True),
        Node(kind="llm", name="works", fails=1, counts=True, thinks_s=0.5),
    ]
    beside = Node(kind="par", name="beside", children=children, supervision="skip")
    root = Node(
        kind="loop", name="root", children=[beside, Node(kind="llm", name="last", steps=[Step(does="work")], counts=True)]
    )
    scenario = Scenario(root=root, between=[[Act(deed="rerun", after_s=9.0, share=0.46)]], max_calls=1)
    plan = FaultPlan(network=Network(seed=seed, usual_s=0.03, slow=4, slow_s=0.3))
    assert check(Case(seed, scenario, plan))[0] == []


def test_requests_that_come_while_a_new_runner_asks_whether_it_drains_are_in_line_together() -> None:
    sessions = ["s", "s", "s1", "s0", "s1"]
    wishes = [Wish(turn=f"turn-{number}", user="d", session=session, at_s=0.5) for number, session in enumerate(sessions)]
    plan = FaultPlan(network=Network(seed=1015, slow=20, slow_s=0.05), faults=[Fault(what="kill", who="runner")])
    crowd = Crowd(wishes=wishes, limits=Limits(max_waiting_user_turns=4), at_once=1, thinks_s=0.0, plan=plan)
    assert WORLDS["crowds"].play(crowd, 1015).problems == []


def test_a_session_actor_that_was_replaced_leaves_when_it_would_store_the_end_that_it_owes() -> None:
    faults = [
        Fault(what="store fails", kind="Commit PutTurn running>paused", nth=1, for_s=0.9),
        Fault(what="replace", kind="OpenTurn", nth=3, for_s=0.9),
    ]
    scenario = Scenario(root=llm("root", Step(does="confirm")), turns=[[], []])
    assert check(Case(11010, scenario, FaultPlan(faults=faults, store_s=0.2)))[0] == []


def test_a_tool_need_not_see_what_agents_beside_its_own_wrote_before_one_of_them_read_a_message() -> None:
    works = [llm("n5", Step(does="work")), llm("n6", Step(does="work", takes_s=0.3), Step(does="work"))]
    children = [llm("n2", Step(does="work"), thinks_s=0.5), Node(kind="par", name="n4", children=works)]
    said = [Said(turn="t0", session="r"), Said(turn="m1", session="r", at_s=0.2, steers=True)]
    assert talk(Talk(root=Node(kind="par", name="n1", children=children), said=said), 2116).problems == []


@pytest.mark.parametrize(("is_late", "fails", "share"), [(True, 1, 0.5), (True, 2, 0.35), (False, 4, 0.43), (False, 5, 0.43)])
def test_a_node_is_tried_anew_as_often_when_its_turn_is_run_again_from_a_failure(is_late: bool, fails: int, share: float) -> None:
    node = Node(kind="llm", name="node", steps=[Step(does="work")], fails=fails, is_late=is_late)
    root = Node(kind="graph", name="graph", children=[node, llm("last")])
    scenario = Scenario(root=root, turns=[[]], between=[[Act(deed="rerun", after_s=9.0, share=share)]])
    assert check(Case(7, scenario, FaultPlan(network=Network(seed=7))))[0] == []


def test_a_process_is_ended_whose_agent_does_not_hear_in_time_that_a_run_is_to_stop() -> None:
    turns = [Asked(turn="t0", at_s=1.0, has_expert=True), Asked(turn="t1", session="s1", at_s=1.0, has_expert=True)]
    changes = [Change(what="ends", at_message=30, whose="agents")]
    network = Network(seed=7, usual_s=0.03, slow=3, slow_s=1.5)
    given = Weather(nodes=[2, 2], changes=changes, turns=turns, network=network, hosts=2)
    assert WORLDS["nodes"].play(given, 7).problems == []


def test_an_update_is_done_although_others_come_before_all_actors_hear_of_it() -> None:
    edits = [Edit(deed="update", at_s=at_s, number=number) for number, at_s in enumerate((2.0, 2.002, 2.054, 2.056), 1)]
    edits.insert(2, Edit(deed="rollback", at_s=2.052, number=9))
    faults = [Fault(what="kill", who="receiver", kind="UseVersions", nth=4, phase="sent", for_s=0.084)]
    plan = FaultPlan(network=Network(brings_early=True, seed=820, usual_s=0.001), faults=faults, store_s=0.002)
    wishes = [AskedTurn(turn="t0", session="s0", at_s=9.0)]
    assert WORLDS["updates"].play(Edition(wishes=wishes, edits=edits, works_s=0.0, plan=plan), 820).problems == []


TO_DESK = Hand(name="chief", steps=[Doing(does="hand", to="desk")])


def sends(name: str, *to: str) -> Talker:
    return Talker(name=name, steps=[Doing(does="send", to=each) for each in to])


def hears(name: str, messages: int) -> Talker:
    return Talker(name=name, steps=[Doing(does="hear")] * messages)


def test_a_run_says_its_last_words_though_the_session_actor_was_lost_since() -> None:
    helper = Hand(name="h0", pair=[sends("h0a", "h0b"), hears("h0b", 1)])
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0")], helpers=[helper])
    plan = FaultPlan(faults=[Fault(what="kill", who="session", kind="CloseTurn", nth=1)])
    assert play_errands(Errands(chief=chief, said=[Said(turn="t0")], plan=plan), 0).problems == []


def test_code_is_given_what_it_has_read_though_the_reply_was_lost() -> None:
    faults = [Fault(what="kill", who="session", kind="Commit RemoveSchedule", nth=1, phase="handled")]
    given = Errands(chief=TO_DESK, desk=[sends("a", "b"), hears("b", 1)], said=[Said(turn="t0")], plan=FaultPlan(faults=faults))
    assert play_errands(given, 0).problems == []


def test_what_a_child_has_read_stands_behind_the_note_that_it_begins() -> None:
    desk = [sends("a", "b"), Talker(name="b", steps=[Doing(does="hear"), Doing(does="work", takes_s=2.0)])]
    network = Network(seed=7, usual_s=0.03, slow=3, slow_s=0.3)
    faults = [Fault(what="kill", who="runner", kind="ReadMessages", nth=1, phase="handled", after_s=1.0)]
    plan = FaultPlan(network=network, faults=faults)
    assert play_errands(Errands(chief=TO_DESK, desk=desk, beside=False, said=[Said(turn="t0")], plan=plan), 7).problems == []


def test_no_more_is_read_than_code_takes_though_the_reply_was_lost() -> None:
    faults = [Fault(what="lose reply", kind="ReadMessages", nth=1, phase="handled")]
    desk = [sends("a", "b", "b"), Talker(name="b", steps=[Doing(does="work", takes_s=2.0), Doing(does="hear")])]
    given = Errands(chief=TO_DESK, desk=desk, said=[Said(turn="t0")], plan=FaultPlan(faults=faults))
    assert play_errands(given, 0).problems == []


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
    assert play_errands(given, 1044).problems == []


def test_messages_that_begin_turns_begin_them_in_their_order() -> None:
    desk = [sends("a", "clerk", "clerk", "clerk")]
    for nth in (2, 3, 4):
        # One that could not be opened is tried again later.
        faults, seed = [Fault(what="store fails", kind="OpenTurn", nth=nth, for_s=0.3)], 1
        plan = FaultPlan(faults=faults, network=Network(seed=seed, usual_s=0.03))
        given = Errands(chief=TO_DESK, desk=desk, has_clerk=True, said=[Said(turn="t0")], plan=plan)
        assert play_errands(given, seed).problems == []


def test_an_end_is_told_though_the_answer_that_has_it_could_not_be_stored() -> None:
    pair = [sends("h0a", "h0b", "h0b", "h0b", "h0b"), hears("h0b", 3)]
    chief = Hand(
        name="chief",
        steps=[Doing(does="wait", takes_s=300.0, nth=1), Doing(does="start", to="h0")],
        helpers=[Hand(name="h0", pair=pair)],
    )
    faults = [Fault(what="store unsure", kind="NotifyRuns", nth=4, for_s=2.1946540259745695)]
    plan = FaultPlan(faults=faults, store_timeout_s=0.5)
    assert play_errands(Errands(chief=chief, said=[Said(turn="t0"), Said(turn="t1")], plan=plan), 381).problems == []


def test_a_run_that_ends_while_it_is_cancelled_has_ended() -> None:
    steps = [Doing(does="start", to="h0"), Doing(does="cancel")]
    chief = Hand(name="chief", steps=steps, helpers=[Hand(name="h0", thinks_s=0.01)], thinks_s=0.5)
    for seed in range(5):
        assert play_errands(Errands(chief=chief, said=[Said(turn="t0")], plan=FaultPlan(store_s=0.2)), seed).problems == []


def test_a_change_of_the_state_is_no_message() -> None:
    helper = Hand(name="h0", on_done="state")
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0"), *TO_DESK.steps], helpers=[helper])
    a = Talker(name="a", steps=[Doing(does="work", takes_s=2.0), Doing(does="send", to="b")])
    assert play_errands(Errands(chief=chief, desk=[a, hears("b", 1)], said=[Said(turn="t0")]), 0).problems == []


def test_what_waits_is_read_though_the_store_is_away_for_longer_than_many_turns_take_to_fail() -> None:
    helper = Hand(name="h0", on_done="wait", steps=[Doing(does="work", takes_s=2.0)])
    chief = Hand(name="chief", steps=[Doing(does="start", to="h0")], helpers=[helper])
    plan = FaultPlan(faults=[Fault(what="store away", kind="StartTurn", nth=2, for_s=5.0)], store_timeout_s=0.5)
    assert play_errands(Errands(chief=chief, said=[Said(turn="t0")], plan=plan), 0).problems == []
