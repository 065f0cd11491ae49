"""A turn says the same whichever actor is lost, and at whichever message, and no model is asked again for what the log has
(docs/architecture.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors import AgentTool, Content, Event, Flow, LlmAgent, LlmRequest, LlmResponse, RunConfig, ToolContext
from actors.messages import protocol as p
from actors.messages.event import USER, decode_event
from actors.testing import PatternModel, ScriptedModel
from runtime.driver.runtime import Runtime
from tests.acceptance.losses.scenes import SAID, SCENES, Agents, Then
from tests.acceptance.losses.trees import TREES, calls
from tests.support.agents.failing_agents import decisions_in
from tests.support.agents.workflow_agents import answer, short
from tests.support.fixtures.lossy_engine import Loss, LossyEngine, Process, Victim, lossy_runtime
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import run_turn, stored, stored_state
from tests.support.stores.logged_usage import check_usage
from tests.support.tries import tries

PLACES = 3
"""How many messages of each tree each actor is lost at. All messages were tried once; every run tries these."""


def play(rt: Runtime, then: Then | None = None) -> list[Event]:
    """All turns after "go". Without `then` it is one more, which answers the open calls or sends one more message."""
    with rt:
        config = RunConfig(timeout=30)
        told = run_turn(rt, "go", run_config=config, invocation_id="e-first")
        if then is None:
            waits = any(event.long_running_tool_ids or event.actions.requested_inputs for event in told)
            told += run_turn(rt, answer(rt, "h") if waits else "more", run_config=config)
        for each in then or ():
            assert bool(rt.turns.list(state="paused")) != isinstance(each, Flow)
            if isinstance(each, Flow):
                told += list(rt.run_flow(each, user_id="ada", session_id="s1"))
            else:
                told += run_turn(rt, each if isinstance(each, str) else answer(rt, *each), run_config=config)
        log = stored(rt)
        assert [event.seq for event in log] == list(range(1, len(log) + 1))
        assert len({event.id for event in log}) == len(log)
        assert [event.id for event in told] == [event.id for event in log if event.author != USER]
        assert [value for key, value in stored_state(rt).items() if key.startswith("temp:")] == []
        check_usage(rt, log)
        return log


def is_note(event: Event) -> bool:
    """True for what says nothing: a note of a workflow, or of a flow, which a loss may make unnecessary."""
    is_bare = event.flow is not None and not words_of(event)
    return is_bare or (event.actions.agent_state is not None and not decisions_in([event]))


def told(log: list[Event]) -> Any:
    """A log without ids and times, branch by branch, since parallel branches may interleave in any order.

    Decisions about different children may interleave as well; those about one child may not.
    """
    branches: dict[str | None, list[str]] = {}
    for event in log:
        if not is_note(event):
            branches.setdefault(about(event), []).append(_told(event))
    return branches


def about(event: Event) -> str | None:
    """The branch of an event, without the random ends of calls' ids; of a decision, the child that it is about."""
    if decisions_in([event]):
        return " about ".join(decisions_in([event])[0].split()[0:3:2])
    # The workers of a flow share a branch.
    branch = event.branch or (event.author if event.flow is not None else None)
    return _RANDOM_END.sub("", branch) if branch is not None else None


_RANDOM_END = re.compile(r"-[0-9a-f]{10}\b")


def _told(event: Event) -> str:
    if event.node_info is not None:
        said = f"{event.node_info} {event.text} {event.output} {event.actions} {event.error_code}"
        return _RANDOM_END.sub("", said)
    if event.text:
        return short([event])[0]
    if decisions_in([event]):
        return decisions_in([event])[0]
    calls = [(call.name, dict(call.args or {})) for call in event.function_calls()]
    answers = [response.response for response in event.function_responses()]
    questions = [asked.question for asked in event.actions.requested_inputs.values()]
    return f"{event.author} {calls} {answers} {event.error_code} {dict(event.actions.state_delta)}{questions}"


def said(log: Sequence[Event]) -> dict[str, str]:
    """What each branch says. Decisions about children that run side by side may come in any order, so these stand apart."""
    branches: dict[str, list[Sequence[str]]] = {}
    for event in log:
        if decided := decisions_in([event]):
            branches.setdefault("decided", []).append(decided[0].split(" ", 1))
        elif words := words_of(event):
            branches.setdefault(about(event) or "", []).append((event.author, words))
    return {branch: _text(lines) for branch, lines in branches.items()}


def _text(lines: Sequence[Sequence[str]]) -> str:
    """What the authors say, one after the other."""
    by_author = groupby(lines, key=itemgetter(0))
    return " | ".join(f"{author}: {', '.join(words for _, words in each)}" for author, each in by_author)


def words_of(event: Event) -> str:
    """What an event says; "" of a note."""
    made = [f"{call.name}()" for call in event.function_calls()]
    results = [f"{each.name}={(each.response or {}).get('result', 'yes')}" for each in event.function_responses()]
    ends = ["escalates"] if event.actions.escalate else []
    failed = [event.error_code] if event.error_code else []
    output = [f"gives {event.output}"] if event.output is not None else []
    return ", ".join([*([event.text] if event.text else []), *made, *results, *ends, *failed, *output])


def asked_again(log: Sequence[Event], happened: Sequence[tuple[str, str]]) -> list[str]:
    """The agents whose models were asked once more when all their answers were in the log."""
    by_model = [event for event in log if event.author != USER and not any(event.function_responses())]
    answers = {event.id: event.author for event in by_model if event.content is not None or event.error_code}
    left, again = Counter(answers.values()), []
    for what, name in happened:
        if what == "stored" and name in answers:
            left[answers.pop(name)] -= 1
        elif what == "asked" and not left[name]:
            again.append(name)
    return again


class Played(NamedTuple):
    """The log, what it tells, the agents whose models were asked for what the log had, and the engine."""

    log: list[Event]
    told: Any
    again: list[str]
    engine: LossyEngine


def played(name: str, losses: Sequence[Loss] = ()) -> Played:
    """All turns of a tree or of a scene."""
    happened: list[tuple[str, str]] = []
    then: Then | None = None
    if name in SCENES:
        scene, then = SCENES[name]
        root = scene(Agents(happened))
    else:
        root = TREES[name]()

    async def see(sender: Process, message: p.Message, handled: bool) -> None:
        if handled and isinstance(message, p.Append):
            happened.extend(("stored", decode_event(raw, 0).id) for raw in message.events)

    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder), losses)
        engine.meddler = see
        log = play(rt, then)
    return Played(log, told(log), asked_again(log, happened), engine)


@cache
def undisturbed(name: str) -> tuple[Any, int, int]:
    found = played(name)
    return found.told, found.engine.messages, len(found.engine.decisions)


def with_losses(name: str, losses: list[Loss]) -> tuple[Any, LossyEngine]:
    found = played(name, losses)
    assert found.again == [], (losses, found.engine.lost)
    return found.told, found.engine


@pytest.mark.parametrize("name", SCENES)
def test_each_branch_says_what_it_should_and_no_model_is_asked_again(name: str) -> None:
    found = played(name)
    assert found.again == []
    assert name not in SAID or said(found.log) == SAID[name]


@pytest.mark.sampled(29, full=17)
@pytest.mark.parametrize("name", [*TREES, *SCENES])
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_turn_says_the_same(name: str, who: Victim) -> None:
    expected, messages, _ = undisturbed(name)
    lost: Counter[str] = Counter()
    for number, at in enumerate(range(0, messages, max(1, messages // PLACES))):
        # Before one message and after the next; of the actors half begin with before.
        before = (number + get_args(Victim).index(who)) % 2 == 0
        said, engine = with_losses(name, [Loss(at, who, before)])
        assert said == expected, (at, before, engine.lost)
        lost.update(engine.lost)
    assert lost


@pytest.mark.sampled(5)
@pytest.mark.parametrize("who", get_args(Victim))
def test_whoever_is_lost_at_whichever_message_the_model_is_asked_once_more_at_most(who: Victim) -> None:
    def asked(*losses: Loss) -> tuple[int, int]:
        model = ScriptedModel(["hi"] * 9)
        with quick_folder() as folder:
            rt, engine = lossy_runtime(LlmAgent(name="root", model=model), Path(folder), losses)
            play(rt)
            return len(model.requests), engine.messages

    undisturbed_asks, messages = asked()
    for at in range(messages):
        for before in (True, False):
            assert asked(Loss(at, who, before))[0] <= undisturbed_asks + 1, (at, before)


@pytest.mark.full
@pytest.mark.parametrize("name", ["supervised", "supervised_side_by_side"])
@pytest.mark.parametrize("before", [True, False])
def test_what_a_supervisor_decides_is_decided_once_though_it_is_lost_just_then(name: str, before: bool) -> None:
    expected, _, decisions = undisturbed(name)
    assert decisions
    for at in range(decisions):
        said, engine = with_losses(name, [Loss(at, "agents", before, of_decisions=True)])
        assert (said, bool(engine.lost)) == (expected, True), (at, engine.lost)


@pytest.mark.full
@settings(max_examples=tries(40))
@given(
    name=st.sampled_from([*TREES, *SCENES]),
    losses=st.lists(
        st.builds(Loss, at=st.integers(0, 60), who=st.sampled_from(get_args(Victim)), before=st.booleans()),
        min_size=1,
        max_size=2,
    ),
)
# Two runs of one agent share the process that is lost: that is one loss, not two.
@example(name="asking", losses=[Loss(14, "agents", before=False), Loss(23, "sender", before=False)])
def test_two_losses_are_as_good_as_none(name: str, losses: list[Loss]) -> None:
    assert with_losses(name, losses)[0] == undisturbed(name)[0]


@pytest.mark.full
@pytest.mark.sampled(full=61)
@pytest.mark.parametrize("who", get_args(Victim))
@pytest.mark.parametrize("name", SCENES)
def test_so_it_is_at_every_message_of_a_workflow(name: str, who: Victim) -> None:
    expected, messages, _ = undisturbed(name)
    for at in range(messages):
        for before in (True, False):
            assert with_losses(name, [Loss(at, who, before)])[0] == expected, (at, before)


def test_an_agent_that_is_asked_otherwise_after_a_loss_answers_the_new_question() -> None:
    """A callback words the question anew when the call is made again."""
    asked: list[str] = []

    def word(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["request"] = f"question {len(asked) + 1}"

    class Expert:
        async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
            asked.append(request.contents[-1].text)
            if len(asked) == 1:
                await engine.lose("agents")
            yield LlmResponse(content=Content.of_text(f"answer to {request.contents[-1].text}", role="model"))

    model = PatternModel([("tool:", "done")], default=calls("expert"))
    expert = LlmAgent(name="expert", model=Expert())
    root = LlmAgent(name="root", model=model, tools=[AgentTool(expert)], before_tool_callback=word)
    with quick_folder() as folder:
        rt, engine = lossy_runtime(root, Path(folder))
        with rt:
            events = run_turn(rt, "go")
    assert asked == ["question 1", "question 2"]
    assert [response.response for event in events for response in event.function_responses()] == [
        {"result": "answer to question 2"}
    ]
