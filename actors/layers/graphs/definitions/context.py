"""What a function is given that is a node of a graph: its context, the state of the session, and questions to the user.

ADK shares one session object among functions: what one has written the others read before it is stored. Here the log is the
truth: what was not stored has never happened after a loss, and is taken back when what has written it ends without storing it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

import msgspec
import pydantic

from actors.definitions.tools.context import CallbackContext, ToolContext
from actors.definitions.tools.state import State, ThreadTurns
from actors.errors import DefinitionError
from actors.errors.hints import explains_wrong_calls
from actors.messages.codec import plain
from actors.messages.event import Event
from actors.messages.graph import Route, Unstored
from actors.messages.json_types import JsonMapping, JsonObject, JsonValue, StateDelta
from actors.messages.shown import shown

RunNode = Callable[..., Awaitable[JsonValue]]

_NOTHING = object()


class NodeContext(CallbackContext):
    """The run of a node that is a function. State, route and output that it writes go with the next event of the node.

    Attributes:
        node_path: the runs from the outermost graph to the node, such as `wf@1/a@2`.
        run_id: the number of this run of the node, as text.
        attempt_count: of the run, from 1.
        resume_inputs: the user's answers to the questions of this run, by their ids; empty before the first.
        route: the route or routes that the graph takes from the node; None: only edges without a route, or DEFAULT_ROUTE.
    """

    def __init__(
        self,
        *,
        node_path: str,
        run_id: str,
        attempt_count: int,
        resume_inputs: JsonMapping,
        run_node: RunNode,
        tool_context: Callable[[], ToolContext],
        **where: Any,
    ) -> None:
        super().__init__(**where)
        self.node_path = node_path
        self.run_id = run_id
        self.attempt_count = attempt_count
        self.resume_inputs = resume_inputs
        self._run_node = run_node
        self._tool_context = tool_context
        self.route: Route | list[Route] | None = None
        self._output: object = _NOTHING

    async def run_node(
        self,
        node: Any,
        node_input: Any = None,
        *,
        use_as_output: bool = False,
        run_id: str | None = None,
        use_sub_branch: bool = False,
        override_branch: str | None = None,
    ) -> JsonValue:
        """Run a node below this one, and return its output.

        The function has to be a node with `rerun_on_resume`: after an answer or a loss it runs again from its start, and a run
        that was over gives what it gave. So what comes before has to ask for the same runs again.

        Args:
            node: a function, a FunctionNode; or an agent of the graph, itself or by its name: one that stands in its edges, or in
                its sub_agents.
            node_input: the input: plain data, or a Content.
            use_as_output: its output is that of this node, too.
            run_id: names the run in place of its number: asked for again, it is not run again.
            use_sub_branch: its events are on a branch of their own.
            override_branch: the branch of its events.

        Raises:
            DynamicNodeFailError: the run has failed.
            ValueError: this node has no `rerun_on_resume`, `run_id` is a number, or `use_as_output` is given twice.
            UnknownAgentError: the graph has no such agent.
        """
        return await self._run_node(
            node,
            node_input,
            use_as_output=use_as_output,
            run_id=run_id,
            use_sub_branch=use_sub_branch,
            override_branch=override_branch,
        )

    def tool_context(self) -> ToolContext:
        """The context of a tool that is the node: what it writes is the node's."""
        return self._tool_context()

    @property
    def output(self) -> JsonValue:
        """The value for the nodes after it; None so far. It is set once."""
        return None if self._output is _NOTHING else self._output

    @output.setter
    def output(self, value: JsonValue) -> None:
        if self._output is not _NOTHING:
            raise ValueError(f"the output of {self.node_path} is set already: a run of a node gives one output")
        self._output = value

    @property
    def has_output(self) -> bool:
        """True once the output was set, also to None."""
        return self._output is not _NOTHING


class RequestInput:
    """What a function yields or returns to ask the user: the turn pauses when nothing else of the graph can run.

    Args:
        interrupt_id: the id of the call that the user answers; by default one that no other question has.
        message: the question.
        payload: plain data for whatever shows the question.
        response_schema: what the answer has to be: a type that pydantic knows, or a JSON schema. An answer that is not is
            refused, and the question asked again.

    Raises:
        DefinitionError: `response_schema` is neither.
    """

    @explains_wrong_calls
    def __init__(
        self,
        *,
        interrupt_id: str | None = None,
        message: str | None = None,
        payload: Any = None,
        response_schema: type | JsonMapping | None = None,
    ) -> None:
        self.interrupt_id = interrupt_id
        self.message = message
        self.payload: JsonValue = plain(payload)
        self.response_schema = _json_schema(response_schema)

    @property
    def args(self) -> JsonObject:
        """The arguments of the call that the user answers."""
        given = {"message": self.message, "payload": self.payload, "response_schema": self.response_schema}
        return {name: value for name, value in given.items() if value is not None}


def _json_schema(given: Any) -> JsonMapping | None:
    if given is None or isinstance(given, Mapping):
        return given
    try:
        return pydantic.TypeAdapter(given).json_schema()
    except pydantic.errors.PydanticUserError as error:
        raise DefinitionError(f"response_schema is a type that pydantic knows, or a JSON schema, not {shown(given)}") from error


_MISSING = object()


class _Entry:
    """A key whose value is not simply the stored one.

    Args:
        stored: the value in the log when the others were taken down; _MISSING for none.
        lent: the copy of a stored list or dictionary that functions have.

    Attributes:
        writes: what is not stored, by the function that has written it, the newest last.
    """

    __slots__ = ("lent", "stored", "writes")

    def __init__(self, stored: object, lent: JsonValue = None) -> None:
        self.stored = stored
        self.lent = lent
        self.writes: dict[int, JsonValue] = {}

    @property
    def value(self) -> JsonValue:
        return next(reversed(self.writes.values())) if self.writes else self.lent


class RunState(ThreadTurns):
    """What the functions of one run of a graph have written and not stored.

    Args:
        stored: gives the state as the run knows it from the log; none of its values is changed in place.

    Attributes:
        deleted: the keys that a function has deleted.
    """

    def __init__(self, stored: Callable[[], JsonMapping]) -> None:
        super().__init__()
        self._stored = stored
        self.deleted: set[str] = set()
        self._entries: dict[str, _Entry] = {}
        # How often functions have put another value in the place of one that others may have in their hands.
        self._replaced: Counter[str] = Counter()
        # Lists and dictionaries on their way to the log, by key: what functions have in their hands, and as it was sent.
        self._sent: dict[str, list[tuple[JsonValue, JsonValue]]] = {}
        # Functions run in threads, too.
        self._lock = threading.RLock()

    @property
    def stored(self) -> JsonMapping:
        """The state as the log has it, without a copy: its values must not be changed."""
        return self._stored()

    def state_over(self, base: JsonMapping, delta: StateDelta, writes: dict[str, int]) -> State:
        """The state as one function has it: see Sharing."""
        return StateOfNode(self, delta)

    def keys(self) -> Iterable[str]:
        """The keys of the state, those that are not stored last."""
        with self._lock:
            return dict.fromkeys([*self.stored, *(key for key, entry in self._entries.items() if entry.writes)])

    def replaced(self, key: str) -> int:
        """Count how often a function has put another value in the place of a key's."""
        return self._replaced[key]

    def newest(self, key: str) -> JsonValue:
        """The newest value of a key, one object for all functions. Raises KeyError."""
        with self._lock:
            entry = self._current(key)
            if entry is not None:
                return entry.value
            value = self.stored[key]
            if isinstance(value, dict | list):
                self._entries[key] = entry = _Entry(value, plain(value))
                return entry.lent
            return value

    def unstored(self, around: Mapping[str, Unstored]) -> dict[str, Unstored]:
        """Return what is written and not stored, as agents are given it that begin now.

        Args:
            around: what the functions of graphs around this one have written so: `stored` has it, too.
        """
        found = dict(around)
        with self._lock:
            for key in list(self._entries):
                entry = self._current(key)
                if entry is None or entry.value == entry.stored:
                    continue
                value = plain(entry.value)
                if key in around and entry.stored is around[key].value:
                    found[key] = msgspec.structs.replace(around[key], value=value)
                elif entry.stored is _MISSING:
                    found[key] = Unstored(value=value, is_new=True)
                else:
                    found[key] = Unstored(value=value, before=cast(JsonValue, entry.stored))
        return found

    def has(self, key: object) -> bool:
        """True for a key of the state."""
        with self._lock:
            return key in self.stored or (
                isinstance(key, str) and (entry := self._current(key)) is not None and bool(entry.writes)
            )

    def _current(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        stored = self.stored.get(key, _MISSING)
        if stored is entry.stored or stored == entry.stored:
            # A state that was read again has its values as new objects.
            entry.stored = stored
            return entry
        # What was stored since is newer than all that was written before.
        return self._settle(key, entry, stored, is_there=entry.value == stored)

    def _settle(self, key: str, entry: _Entry, stored: object, *, is_there: bool) -> _Entry | None:
        value = entry.value
        if isinstance(value, dict | list) and is_there:
            # It is the very list that functions have in their hands.
            self._entries[key] = entry = _Entry(stored, value)
            return entry
        del self._entries[key]
        return None

    def write(self, delta: StateDelta, key: str, value: JsonValue, *, replaces: bool) -> None:
        """Take in what a function has written.

        Args:
            delta: all that this function has written.
            replaces: it is another value than functions have in their hands, and not a change within that.
        """
        with self._lock:
            entry = self._current(key)
            if replaces and not (entry is not None and entry.value is value):
                self._replaced[key] += 1
            if entry is None:
                self._entries[key] = entry = _Entry(self.stored.get(key, _MISSING))
            entry.writes.pop(id(delta), None)
            entry.writes[id(delta)] = value

    def note_stored(self, *events: Event) -> None:
        """Events were stored: of each key that they set the log has the newest value now."""
        with self._lock:
            for key in {key for event in events for key in event.actions.state_delta}:
                stored = self.stored.get(key, _MISSING)
                is_sent = self._arrived(key, stored)
                if (entry := self._entries.get(key)) is not None:
                    self._settle(key, entry, stored, is_there=is_sent or entry.value == stored)

    def _arrived(self, key: str, stored: object) -> bool:
        """True when what is stored was sent as the value that functions have in their hands now."""
        sent, entry = self._sent.get(key, ()), self._entries.get(key)
        for index, (value, copied) in enumerate(sent):
            if copied == stored:
                self._sent[key] = list(sent[index + 1 :])
                return entry is not None and entry.value is value
        return False

    def send(self, key: str, value: JsonValue, copied: JsonValue) -> None:
        """A list or dictionary is on its way to the log.

        Args:
            copied: it, as it is sent.
        """
        self._sent.setdefault(key, []).append((value, copied))

    def take_back(self, delta: StateDelta, kept: Collection[str] = ()) -> None:
        """Take back what a function has written: it was not stored, and will not be.

        Args:
            delta: that of the function.
            kept: keys that will be.
        """
        writer = id(delta)
        with self._lock:
            for key in [key for key, entry in self._entries.items() if writer in entry.writes and key not in kept]:
                entry = self._entries[key]
                del entry.writes[writer]
                if not entry.writes:
                    del self._entries[key]


class _Held(NamedTuple):
    """A list or dictionary that a function has in its hands: as it was, and how often it was replaced until then."""

    before: JsonValue
    value: JsonValue
    replaced: int


class StateOfNode(State):
    """The state as one function of a graph has it: first what it has written since its last event, then what is newest.

    Args:
        shared: what all functions have written.
        delta: where the changes of this one go.
    """

    def __init__(self, shared: RunState, delta: StateDelta) -> None:
        super().__init__(shared.stored, delta, shared.deleted)
        self._shared = shared
        self._held: dict[str, _Held] = {}

    @property
    def stored(self) -> JsonMapping:
        """The state as the log has it: see State."""
        return self._shared.stored

    def _value(self, key: str) -> JsonValue:
        self._shared.enter()
        value = self.delta[key] if key in self.delta else self._shared.newest(key)
        if isinstance(value, dict | list):
            self._hold(key, value)
        return value

    def _hold(self, key: str, value: JsonValue) -> None:
        held, replaced = self._held.get(key), self._shared.replaced(key)
        if held is None or held.value is not value:
            self._held[key] = _Held(plain(value), value, replaced)

    def _set(self, key: str, value: JsonValue) -> None:
        self._shared.enter()
        self._held.pop(key, None)
        self.delta[key] = value
        self._shared.write(self.delta, key, value, replaces=True)

    def _has(self, key: object) -> bool:
        self._shared.enter()
        return key in self.delta or self._shared.has(key)

    def _keys(self) -> Iterable[str]:
        self._shared.enter()
        return dict.fromkeys([*self._shared.keys(), *self.delta])

    def record_changes(self) -> None:
        """Take the lists and dictionaries that were changed in place into `delta`, unless another function has replaced them."""
        for key, held in list(self._held.items()):
            is_own = key in self.delta
            is_there = self.delta[key] is held.value if is_own else self._shared.replaced(key) == held.replaced
            if is_there and held.value != held.before:
                self.delta[key] = held.value
                self._shared.write(self.delta, key, held.value, replaces=False)
                self._held[key] = held._replace(before=plain(held.value))

    def taken(self) -> None:
        """Note that what was written is on its way to the log: see State."""
        for key, value in self.delta.items():
            if isinstance(value, dict | list):
                copied: JsonValue = plain(value)
                self._held[key] = _Held(copied, value, self._shared.replaced(key))
                self._shared.send(key, value, copied)
