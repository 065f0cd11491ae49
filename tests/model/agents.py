"""5 The LLM agent, and custom agents: what they do in a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import cycle
from typing import Any

from actors import Event, FunctionCall, FunctionResponse, Part
from tests.model.runs import MODEL_CALLS, Ended, FailedError, Run, StoppedError, Turn, Waits, run
from tests.model.shown import shown
from tests.model.story import CANCELLED, fold
from tests.simulation.scenarios import Node
from tests.simulation.scripts import ScriptError, described, scripted, usage

OWN_TOOLS = 8
"""So many tools an agent of a conversation has, beside those that are agents."""

MAY_WAIT = frozenset({"ask", "confirm"})
"""Tools whose response may come in a later turn."""


def llm(turn: Turn, node: Node, branch: str | None) -> Run:
    """5.1 The step loop: the agent calls its model, runs the tools, and begins again, until an event is a final response."""
    begin_llm(turn, node, branch)
    return (yield from steps(turn, node, branch))


def begin_llm(turn: Turn, node: Node, branch: str | None) -> None:
    """5.5 Callbacks: `before_agent` is called when a run begins. State that it writes rides on an event."""
    if node.fails or node.counts:
        _count(turn, node, branch, "begun")


def end_llm(turn: Turn, node: Node, branch: str | None, ended: Ended) -> None:
    """5.5 Callbacks: `after_agent` is called when a run is over, and not when it hands over, fails or waits."""
    if node.counts and not ended.to:
        _count(turn, node, branch, "ended")


def _count(turn: Turn, node: Node, branch: str | None, what: str) -> None:
    key = f"{node.name}_{what}"
    turn.say(turn.event(node.name, branch, state_delta={key: fold(turn.seen(node.name, branch)).get(key, 0) + 1}))


def with_consent(turn: Turn, node: Node, branch: str | None, *, calls: Sequence[FunctionCall], is_new: bool) -> Run:
    """5.6 Confirmation: a decision on calls that were cancelled with their turn decides nothing. Their agent says so once more.

    Args:
        is_new: its run begins, and does not go on.
    """
    if is_new:
        begin_llm(turn, node, branch)
    turn.say(turn.event(node.name, branch, *(_response(call, CANCELLED) for call in calls), role="user"))
    return (yield from steps(turn, node, branch))


def with_decision(turn: Turn, node: Node, branch: str | None, *, calls: Sequence[FunctionCall], message: Event) -> Run:
    """5.6 Confirmation: a decision on calls that are open, though their turn is over: a run of their agent begins with it.

    Args:
        message: the user's, with the decision.
    """
    begin_llm(turn, node, branch)
    yield from _decided(turn, node, branch, calls, message)
    return (yield from steps(turn, node, branch))


def steps(turn: Turn, node: Node, branch: str | None, seen: Callable[[], Sequence[Event]] | None = None) -> Run:
    """5.1: the steps of a run, from the next model call on. 4 Supervision: an escalation counts, also when its author fails.

    Args:
        seen: what it sees, if that is not the log.
    """
    escalated = False
    try:
        while True:
            if _is_late(turn, node, branch):
                _linger(turn, node, branch)
            said = _step(turn, node, branch, seen)
            calls = list(said.function_calls())
            escalated |= any(call.name == "escalate" for call in calls)
            ended = (yield from _tools(turn, node, branch, calls)) if calls else Ended(said=said.text)
            if ended is not None:
                end_llm(turn, node, branch, ended)
                return ended._replace(escalated=ended.escalated or escalated)
    except FailedError as failed:
        failed.escalated |= escalated
        raise


def _step(turn: Turn, node: Node, branch: str | None, seen: Callable[[], Sequence[Event]] | None) -> Event:
    """A model call, and its answer. The model, or a callback before it, may fail."""
    log = turn.seen(node.name, branch)
    if not node.is_late and _is_of_first(node, log):
        raise FailedError(node.name, "ValueError")
    if seen is not None:
        log = seen()
    if "hooked" in node.manners and not (asked := _counted(turn, node, branch, "asked")) % 4:
        return turn.say(_itself(turn, node, branch, asked))
    try:
        turn.use(MODEL_CALLS, node.name, branch)
    except FailedError:
        # It was made before if it was lost then with its process: it counts.
        turn.refused.append((node.name, shown(log, node.name, branch)))
        raise
    try:
        return turn.say(_answer(turn, node, branch, log))
    except ScriptError:
        turn.may_have_failed(node.name, branch)
        raise FailedError(node.name, "ScriptError") from None


def _is_of_first(node: Node, log: Sequence[Event]) -> bool:
    """True for the first runs of an agent, which fail, or take too long."""
    return bool(node.fails) and fold(log).get(f"{node.name}_begun", 0) <= node.fails


def _is_late(turn: Turn, node: Node, branch: str | None) -> bool:
    return node.is_late and _is_of_first(node, turn.seen(node.name, branch))


def _linger(turn: Turn, node: Node, branch: str | None) -> None:
    """The run of an agent that is late: a callback takes the place of its model, and has it call a tool again and again, until
    the agent that waits for it has it stopped. The log says when. 2 Cancellation: nothing of it is stored after that.

    Raises:
        StoppedError: always.
    """
    call = FunctionCall(id=turn.new_id(), name="linger", args={})
    for parts in cycle([[Part(function_call=call)], []]):
        turn.may_have_failed(node.name, branch)
        if (found := turn.following(node.name, branch)) is None or found.author != node.name or found.error_code:
            turn.is_cut = True
            raise StoppedError(node.name)
        if parts:
            said = turn.say(turn.event(node.name, branch, *parts))
            turn.ran += [each.id or "" for each in said.function_calls()]
        else:
            responses = [_response(each, {"result": "later"}) for each in said.function_calls()]
            turn.say(turn.event(node.name, branch, *responses, role="user"))


def _answer(turn: Turn, node: Node, branch: str | None, seen: Sequence[Event]) -> Event:
    """One answer of the model. 5.6: calls that may wait are listed on the event, and those that need consent."""
    contents = turn.show(node.name, branch, seen)
    parts = [_with_id(turn, part) for part in scripted(node, contents, told=_told(turn, node, branch))]
    calls = [part.function_call for part in parts if part.function_call is not None]
    waiting = [call.id for call in calls if call.name in MAY_WAIT]
    consent = {call.id: {"confirmed": False} for call in calls if call.name == "confirm"}
    more: dict[str, Any] = {"state_delta": {} if calls else _kept(node, parts[0].text or "")}
    if "hooked" in node.manners:
        heard = _counted(turn, node, branch, "heard")
        more["state_delta"] |= {f"{node.name}_asked": _counted(turn, node, branch, "asked"), f"{node.name}_heard": heard}
        more["custom_metadata"] = {"heard": heard}
    more |= {"long_running_tool_ids": tuple(waiting), "requested_tool_confirmations": consent}
    return turn.event(node.name, branch, *parts, usage=usage(node, contents), **more)


def _itself(turn: Turn, node: Node, branch: str | None, asked: int) -> Event:
    """5.5 Callbacks: what `before_model` returns takes the call's place, and does not count for `max_llm_calls`."""
    text = f'["{node.name} answers itself"]'
    return turn.event(node.name, branch, Part(text=text), state_delta={f"{node.name}_asked": asked, **_kept(node, text)})


def _counted(turn: Turn, node: Node, branch: str | None, what: str) -> int:
    return int(fold(turn.seen(node.name, branch)).get(f"{node.name}_{what}", 0)) + 1


def _kept(node: Node, text: str) -> dict[str, Any]:
    """5.7 Output: the final response is stored under `output_key`, with a schema as data."""
    if "lists" in node.manners:
        return {f"{node.name}_out": json.loads(text)}
    return {f"{node.name}_out": text} if "keeps" in node.manners else {}


def _told(turn: Turn, node: Node, branch: str | None) -> str:
    """5.2 System instruction: the root's global one, its own, its identity, and 3 the targets; 5.3 with values of the state."""
    state, targets = fold(turn.seen(node.name, branch)), turn.tree.targets(node.name)
    root, parent = turn.tree.root, turn.tree.parents.get(node.name)
    is_global = root.kind == "llm" and root.told and not turn.tree.is_tool(node.name)
    marks = [f"<<all {state.get('asked_1', '')}>>"] if is_global else []
    marks += [f"<<{'|'.join(str(state.get(key, '')) for key in node.told)}>>", f'"{node.name}"', f'"knows_{node.name}"']
    marks += [f"- {target}" for target in targets]
    marks += [f"parent agent, `{parent.name}`"] if parent is not None and parent.name in targets else []
    return described(marks, OWN_TOOLS + len(node.experts) + bool(targets), targets)


def _with_id(turn: Turn, part: Part) -> Part:
    call = part.function_call
    return part if call is None else Part(function_call=FunctionCall(id=turn.new_id(), name=call.name, args=call.args))


def _tools(turn: Turn, node: Node, branch: str | None, calls: Sequence[FunctionCall]) -> Any:
    """5.6 Tools: calls of one answer run concurrently and share one event, in the order of the calls. Actions are merged. Gives
    how the run has ended; None: it goes on."""
    waiting = [call for call in calls if call.name in MAY_WAIT]
    responses: list[Part] = []
    actions: dict[str, Any] = {"state_delta": {}}
    for call in calls:
        if call not in waiting:
            response, acts = _made(turn, node, branch, call)
            responses.append(_response(call, response))
            actions |= {**acts, "state_delta": {**actions["state_delta"], **acts.get("state_delta", {})}}
    if responses:
        turn.say(turn.event(node.name, branch, *responses, role="user", **actions))
    if to := actions.get("transfer_to_agent", ""):
        return Ended(to=to, left=partial(_answered, calls=waiting) if waiting else None)
    if actions.get("skip_summarization"):
        return Ended(escalated=bool(actions.get("escalate")))
    return (yield from _decided(turn, node, branch, waiting)) if waiting else None


def _answered(turn: Turn, node: Node, branch: str | None, calls: Sequence[FunctionCall]) -> Run:
    """The rest of a run that has handed over, when the user has answered these calls."""
    yield from _decided(turn, node, branch, calls)
    return (yield from steps(turn, node, branch))


def _decided(
    turn: Turn, node: Node, branch: str | None, calls: Sequence[FunctionCall], message: Event | None = None
) -> Generator[Waits, Event, None]:
    """5.6 Confirmation: consent runs the function; anything else answers the call with an error. No call is run before all are
    decided. A long-running call has the user's response.

    Args:
        message: has answers already.
    """
    answers = {each.id: each.response for each in message.function_responses()} if message is not None else {}
    while left := [call.id or "" for call in calls if call.id not in answers]:
        message = yield Waits(left)
        answers |= {each.id: each.response for each in message.function_responses()}
    responses: list[Part] = []
    written: dict[str, Any] = {}
    for call in calls:
        if call.name == "confirm" and answers[call.id].get("confirmed") is True:
            response, acts = _made(turn, node, branch, call)
            responses.append(_response(call, response))
            written |= acts.get("state_delta", {})
        elif call.name == "confirm":
            responses.append(_response(call, {"error": "rejected"}))
    if responses:
        turn.say(turn.event(node.name, branch, *responses, role="user", state_delta=written))


def _response(call: FunctionCall, response: dict[str, Any]) -> Part:
    return Part(function_response=FunctionResponse(id=call.id, name=call.name, response=response))


def _result(turn: Turn, agent: str, branch: str | None, call: FunctionCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a tool returns, and what it does besides."""
    match call.name:
        case "work" | "confirm":
            turn.ran.append(call.id or "")
            key = call.args["key"]
            return {"result": key}, {"state_delta": {key: key}}
        case "exit_loop":
            return {"result": "the loop ends"}, {"escalate": True, "skip_summarization": True}
        case "linger":
            turn.ran.append(call.id or "")
            return {"result": "later"}, {}
        case "escalate":
            return {"result": None}, {"escalate": True}
        case "note":
            turn.ran.append(call.id or "")
            key = call.args["key"]
            return {"result": key}, {"state_delta": {f"{scope}{agent}_noted": key for scope in ("", "user:", "app:")}}
        case "break_down":
            return {"error": "it breaks down"}, {}
        case "transfer_to_agent" if call.args["agent_name"] not in turn.tree.targets(agent):
            # 3 Wrong transfers: the model gets an error, and goes on.
            return {"error": "it is no target"}, {}
        case "transfer_to_agent":
            return {"result": None}, {"transfer_to_agent": call.args["agent_name"]}
    return asked_as_tool(turn, agent, branch, call), {}


def _made(turn: Turn, node: Node, branch: str | None, call: FunctionCall) -> tuple[dict[str, Any], dict[str, Any]]:
    """5.5 Callbacks: `before_tool` takes the call's place, `after_tool` replaces its result, `on_tool_error` its error."""
    if "hooked" not in node.manners:
        return _result(turn, node.name, branch, call)
    if str((call.args or {}).get("key")).endswith("_1"):
        return {"result": "instead"}, {}
    response, acts = _result(turn, node.name, branch, call)
    if call.name == "break_down":
        return {"result": "mended"}, acts
    return ({"result": f"{response['result']}!"} if call.name == "note" else response), acts


def asked_as_tool(turn: Turn, agent: str, branch: str | None, call: FunctionCall) -> dict[str, Any]:
    """5.6 An agent as a tool runs on a branch of its own, and sees only what it is asked. Its final response is the result;
    with a schema it is data.

    Escalation does not leave it. A call below it that waits for the user, like its failure, is an error to the asking model.
    """
    own = ".".join(filter(None, [branch, f"@{agent}:{(call.id or '').replace('.', '_')}"]))
    turn.say(turn.event("user", own, Part(text=call.args["request"]), role="user"))
    runs = run(turn, turn.tree.nodes[call.name], own)
    try:
        next(runs)
    except StopIteration as end:
        # What an `after_agent` callback writes comes behind its final response.
        said = next(event.text for event in reversed(turn.log) if event.content is not None)
        if end.value.error:
            return {"error": end.value.error}
        return {"result": json.loads(said) if "lists" in turn.tree.nodes[call.name].manners else said}
    except StoppedError:
        return {"error": "it took too long"}
    runs.close()
    return {"error": "it waits for the answer to a long-running call"}


def says(turn: Turn, node: Node, branch: str | None) -> Run:
    """A custom agent that says so many texts, with a change of the state each."""
    yield from ()
    for number in range(node.times):
        turn.say(turn.event(node.name, branch, Part(text=f"{node.name} says {number}"), state_delta={f"{node.name}_{number}": 1}))
    return Ended()


def runs_children(turn: Turn, node: Node, branch: str | None) -> Run:
    """A custom agent that speaks, runs each of its children, and speaks again, unless one of them has failed or took too long."""
    escalated = False
    turn.say(turn.event(node.name, branch, Part(text=f"{node.name} begins")))
    for child in node.children:
        try:
            ended = yield from run(turn, child, branch)
        except StoppedError:
            # The store may have cut off the child, and then this run, too.
            turn.may_have_failed(node.name, branch)
            return Ended(escalated=escalated)
        escalated |= ended.escalated
        if ended.error:
            return Ended(escalated=escalated)
    state = fold(turn.seen(node.name, branch))
    text = " ".join((node.name, "ends", *(str(state.get(key)) for key in node.told)))
    turn.say(turn.event(node.name, branch, Part(text=text)))
    return Ended(escalated=escalated)
