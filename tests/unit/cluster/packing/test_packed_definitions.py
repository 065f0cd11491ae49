"""Definitions are packed in the driver, passed on by the Runner and unpacked in the agents' processes."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray import cloudpickle

from actors import (
    AgentTool,
    BaseAgent,
    CustomAgent,
    Event,
    Flow,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Placement,
    Plugin,
    SequentialAgent,
    Supervision,
    Task,
    tool,
)
from actors.definitions.spec import AgentSpec
from actors.errors import DefinitionError, UnknownAgentError
from actors.layers.custom.definitions import InvocationContext
from actors.layers.flows.definitions import FlowAgent
from actors.layers.trees.tree import AgentTree
from actors.testing import PatternModel
from runtime.cluster.packing import definitions
from runtime.cluster.packing.definitions import PackedDefinitions, pack_tree, unpack
from runtime.cluster.packing.pickling import from_chunks, to_chunks


class Answer(pydantic.BaseModel):
    """A schema."""

    score: int


class Counting(CustomAgent):
    """A custom agent with data of all kinds."""

    step: int = 1
    names: tuple[str, ...] = ("a",)
    _seen: list[int] = pydantic.PrivateAttr(default_factory=lambda: [7])

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Yield no event."""
        none: list[Event] = []
        for event in none:
            yield event


class Sealed(CustomAgent):
    """A definition that pickles in a way of its own."""

    secret: str = ""

    def __getstate__(self) -> dict[str, Any]:
        """Keep the secret."""
        state = super().__getstate__()
        return {**state, "__dict__": {**state["__dict__"], "secret": "sealed"}}


class Trimmed(CustomAgent):
    """A definition that leaves something out when it travels."""

    notes: str = ""

    def alone(self) -> BaseAgent:
        """Without the notes."""
        return self.model_copy(update={"sub_agents": (), "notes": "left out"})


class Mine:
    """User code that counts how often it is unpickled."""

    loaded = 0

    def __call__(self, context: Any) -> None:
        """Do nothing."""

    def __getstate__(self) -> dict[str, Any]:
        return {"some": "state"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        type(self).loaded += 1


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return order


def travelled(root: BaseAgent, *plugins: Plugin) -> tuple[AgentTree, PackedDefinitions]:
    tree = AgentTree(root, plugins)
    return tree, from_chunks(to_chunks("no", pack_tree(tree, lambda model: model)))


def arrived(root: BaseAgent, name: str) -> AgentSpec:
    return unpack(travelled(root)[1][name])


def everything() -> LlmAgent:
    expert = LlmAgent(name="expert", input_schema=Answer, sub_agents=[LlmAgent(name="aide")], global_instruction="Be right.")
    return LlmAgent(
        name="root",
        description="Does it all.",
        instruction="You are {user:name?}. Grüße 🦕",
        global_instruction=str,
        model="gemini-2.5-flash",
        tools=[look_up, AgentTool(expert)],
        output_schema=Answer,
        generate_content_config={"temperature": 0.5, "stop_sequences": ["END"]},
        before_model_callback=[print, max],
        disallow_transfer_to_peers=True,
        placement=Placement(num_cpus=0.5, resources={"gpu_box": 1}),
        sub_agents=[
            Counting(name="counter", step=2**70, names=("b", "c")),
            Counting(name="plain_counter"),
            Sealed(name="vault", secret="x"),
            Trimmed(name="trimmed", notes="x"),
            LoopAgent(
                name="loop", max_iterations=3, supervision=Supervision(strategy="restart"), sub_agents=[LlmAgent(name="a")]
            ),
            SequentialAgent(name="steps"),
            ParallelAgent(name="sides", sub_agents=[LlmAgent(name="b", include_contents="none", output_key="x")]),
            FlowAgent(Flow([Task("Do it.", agents=[LlmAgent(name="worker")])], name="work")),
        ],
    )


def test_every_kind_of_agent_arrives_as_it_was() -> None:
    tree, packed = travelled(everything())
    assert list(packed) == [agent.name for agent in tree]
    assert len(packed) == len(list(packed))
    for agent in tree:
        expected, spec = tree.spec(agent.name), unpack(packed[agent.name])
        assert type(spec.definition) is type(expected.definition)
        assert shown(spec.definition) == {**shown(expected.definition), **({"secret": "sealed"} if agent.name == "vault" else {})}
        assert (spec.children, spec.targets, spec.tool_agents) == (expected.children, expected.targets, expected.tool_agents)
        assert (spec.model, spec.global_instruction) == (expected.model, expected.global_instruction)
        assert (spec.plugins, spec.limits) == (expected.plugins, expected.limits)


def shown(definition: BaseAgent) -> dict[str, Any]:
    """The fields, with tools as their declarations: they compare by identity."""
    values = {name: getattr(definition, name) for name in type(definition).model_fields}
    values["private"] = definition.__pydantic_private__
    return {**values, "tools": [each.declaration() for each in values.get("tools", ())]}


def test_agents_that_differ_in_words_share_their_code() -> None:
    callbacks: list[Callable[..., Any]] = [print]
    children = [
        LlmAgent(
            name=f"a{number}",
            description=f"Does {number}.",
            instruction=f"You do {number}.",
            tools=[look_up],
            generate_content_config={"seed": number},
            after_model_callback=[*callbacks],
        )
        for number in range(100)
    ]
    _, packed = travelled(LlmAgent(name="root", model=PatternModel([]), sub_agents=children))
    # That of the children, of the root, and of the controller beside the tree.
    assert len(packed.codes) == 3
    assert [unpack(packed[f"a{number}"]).definition.description for number in (0, 99)] == ["Does 0.", "Does 99."]


def test_what_the_tools_and_callbacks_of_an_agent_have_in_common_stays_one_object() -> None:
    model = PatternModel([])
    shared: list[int] = []

    @tool
    def write() -> str:
        """Write."""
        shared.append(1)
        return str(id(model))

    def read(context: Any) -> tuple[int, str]:
        return len(shared), str(id(model))

    spec = arrived(LlmAgent(name="root", model=model, tools=[write], before_agent_callback=read), "root")
    definition = spec.definition
    assert isinstance(definition, LlmAgent)
    written = definition.tools[0]()
    assert definition.before_agent_callback is not None
    assert not isinstance(definition.before_agent_callback, list)
    assert definition.before_agent_callback(None) == (1, written)
    assert written == str(id(spec.model)) != str(id(model))


class Asking(PatternModel):
    """A model with a function of its user."""

    def __init__(self, ask: Callable[[], int]) -> None:
        super().__init__([])
        self.ask = ask


CELL = """
noted = 0
def note(text: str) -> int:
    "Note a text."
    global noted
    noted += 1
    return noted
def first():
    return noted
def second():
    return noted
"""
"""Functions as those of a notebook, which share its variables."""


def test_agents_that_differ_in_their_models_share_the_rest_of_their_code() -> None:
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL, cell)
    children = [LlmAgent(name=name, model=Asking(cell[name]), tools=[cell["note"]]) for name in ("first", "second")]
    _, packed = travelled(LlmAgent(name="root", model=PatternModel([]), sub_agents=children))
    # That of the children, of the root, and of the controller beside the tree.
    assert len(packed.codes) == 3
    for name in ("first", "second"):
        spec = unpack(packed[name])
        assert isinstance(spec.definition, LlmAgent)
        assert isinstance(spec.model, Asking)
        [note] = spec.definition.tools
        assert isinstance(note, FunctionTool)
        assert (spec.model.ask(), note("a"), note("b"), spec.model.ask()) == (0, 1, 2, 2), "they have one variable"


def test_codes_of_which_there_are_too_many_to_keep_are_pickled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "KEPT", 1)
    callbacks = (print, repr)
    children = [
        LlmAgent(name=f"a{number}", model=PatternModel([], default=str(number)), after_agent_callback=callbacks[number % 2])
        for number in range(4)
    ]
    _, packed = travelled(LlmAgent(name="root", model="gemini-x", sub_agents=children))
    specs = [unpack(packed[f"a{number}"]) for number in range(4)]
    assert [spec.definition.after_agent_callback for spec in specs] == [print, repr, print, repr]
    assert len({id(spec.model) for spec in specs}) == 4


def test_a_model_that_cannot_travel_is_named_beside_one_that_can() -> None:
    children = [LlmAgent(name="can", model=PatternModel([])), LlmAgent(name="cannot", model=Asking(threading.Lock().locked))]
    with pytest.raises(DefinitionError, match=r"agent 'cannot' cannot travel to its actor: .*, which is in model\.ask"):
        pack_tree(AgentTree(LlmAgent(name="root", model="gemini-x", sub_agents=children)), lambda model: model)


def test_the_runner_hands_definitions_on_without_loading_them() -> None:
    root = LlmAgent(name="root", model="gemini-x", after_agent_callback=Mine(), placement=Placement(num_cpus=1))
    before = Mine.loaded
    _, packed = travelled(root)
    raw = packed["root"]
    assert Mine.loaded == before
    assert unpack(raw).definition.placement.num_cpus == 1
    assert Mine.loaded == before + 1


@pytest.mark.parametrize("where", ["root", "child"])
def test_an_agent_that_cannot_travel_is_named(where: str) -> None:
    lock = {where: threading.Lock()}

    def hold(context: Any) -> None:
        lock[where].acquire()

    child = LlmAgent(name="child", before_agent_callback=hold if where == "child" else None)
    root = LlmAgent(name="root", model="gemini-x", sub_agents=[child], before_agent_callback=hold if where == "root" else None)
    with pytest.raises(DefinitionError, match=f"agent '{where}' cannot travel to its actor: TypeError"):
        pack_tree(AgentTree(root), lambda model: model)


class Client:
    """A client of a service, with a lock that cannot be pickled."""

    def __init__(self) -> None:
        self.pool = {"https": [threading.RLock()]}

    def acquire(self) -> None:
        """Acquire a connection."""


class OwnModel:
    """A model with attributes of a user's choice."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)

    async def generate(self, request: LlmRequest, *, stream: bool) -> AsyncIterator[LlmResponse]:
        yield LlmResponse()


class Keeper(CustomAgent):
    """An agent with something private."""

    _lock: Any = None

    async def run(self, context: InvocationContext) -> AsyncIterator[Event]:
        """Yield no event."""
        none: list[Event] = []
        for event in none:
            yield event


def keeper() -> BaseAgent:
    made = Keeper(name="a")
    made._lock = threading.Lock()
    return made


def using_a_lock() -> BaseAgent:
    lock = threading.Lock()

    def look_up() -> str:
        """Look up."""
        return str(lock)

    return LlmAgent(name="a", model="gemini-x", tools=[FunctionTool(lambda: "fine", name="fine"), look_up])


def in_a_circle() -> BaseAgent:
    client = Client()
    client.__dict__["me"] = client
    return LlmAgent(name="a", model=OwnModel(client=client))


@pytest.mark.parametrize(
    ("make", "attribute"),
    [
        (lambda: LlmAgent(name="a", model=OwnModel(client=Client())), r"model\.client\.pool\['https'\]\[0\]"),
        (lambda: LlmAgent(name="a", model="gemini-x", tools=[Client().acquire]), r"tools\[0\]\.func\.__self__\.pool"),
        (using_a_lock, r"tools\[1\]\.func\.<variable lock>"),
        (in_a_circle, r"model\.client\.pool"),
        (keeper, r"private attributes\['_lock'\]"),
    ],
)
def test_what_cannot_travel_is_named_by_its_attribute(make: Callable[[], BaseAgent], attribute: str) -> None:
    with pytest.raises(DefinitionError, match=rf"agent 'a' cannot travel to its actor: TypeError: .*, which is in {attribute}"):
        pack_tree(AgentTree(make()), lambda model: model)


def test_an_attribute_of_a_model_that_looks_like_a_key_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    keyed = OwnModel(api_key="sesame", openai_api_key="", max_tokens="7", tokens=7, sort_key="x")
    children = [LlmAgent(name=f"a{number}", tools=[FunctionTool(lambda: 1, name="one")]) for number in range(3)]
    pack_tree(AgentTree(LlmAgent(name="root", model=keyed, sub_agents=children)), lambda model: model)
    (record,) = caplog.records
    assert "model.api_key looks like a key" in record.getMessage()
    assert "sesame" not in record.getMessage()


def test_a_model_is_replaced_where_another_stands_for_it() -> None:
    packed = pack_tree(
        AgentTree(LlmAgent(name="root", model=PatternModel([]), sub_agents=[LlmAgent(name="a")])), lambda model: "far away"
    )
    assert {unpack(packed[name]).model for name in ("root", "a")} == {"far away"}


def test_an_agent_that_is_not_there_is_an_error() -> None:
    _, packed = travelled(LlmAgent(name="root", model="gemini-x"))
    assert "root" in packed
    assert "rot" not in packed
    with pytest.raises(UnknownAgentError, match="Did you mean 'root'"):
        packed["rot"]


texts = st.text(st.characters(exclude_categories=()), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3) | st.tuples(inner),
    max_leaves=8,
)


@given(instruction=texts, config=st.dictionaries(texts, values, max_size=3))
def test_words_and_numbers_of_every_kind_arrive_as_they_were(instruction: str, config: dict[str, Any]) -> None:
    made = LlmAgent(name="root", model="gemini-x", instruction=instruction)
    # Set without the checks of the field: any value that it may hold.
    made.__dict__["generate_content_config"] = config
    definition = arrived(made, "root").definition
    assert isinstance(definition, LlmAgent)
    assert definition.instruction == instruction
    assert repr(definition.generate_content_config) == repr(config)


MAIN = """
from __future__ import annotations

from typing import Literal

from actors import ToolContext, tool


@tool(long_running=True)
def ask(size: Literal["small", "big"], times: int = 1, *, where: ToolContext) -> str:
    \"\"\"Ask somebody.

    Args:
        size: how much.
    \"\"\"
    return size * times
"""


def tools_of_main() -> tuple[FunctionTool, FunctionTool]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(MAIN, "main.py", "exec"), names)
    return names["ask"], cloudpickle.loads(cloudpickle.dumps(names["ask"]))  # type: ignore[no-untyped-call]


def test_a_tool_whose_annotations_are_texts_arrives_as_it_was() -> None:
    left, arrived = tools_of_main()
    assert arrived.declaration() == left.declaration()
    assert (type(arrived), arrived.is_long_running) == (type(left), True)
    assert arrived(size="big", times=2, where=None) == "bigbig"


def test_models_that_are_alike_are_pickled_once() -> None:
    def own_model(level: int, words: str) -> LlmAgent:
        below = [own_model(level - 1, "same") for _ in range(2)] if level else []
        return LlmAgent(name=f"a{next(numbers)}", model=OwnModel(limits=[1, 2], words=words), sub_agents=below)

    numbers = count()
    tree = AgentTree(own_model(3, "other"))
    packed = pack_tree(tree, lambda model: model)
    # Theirs, and that of the controller of flows, which has none.
    assert len(packed.models) == 3
    assert [vars(unpack(packed[name]).model) for name in tree.models] == list(map(vars, tree.models.values()))


def test_each_agent_is_named_whose_model_has_a_key(caplog: pytest.LogCaptureFixture) -> None:
    children = [LlmAgent(name=f"a{number}", model=OwnModel(api_key="sesame")) for number in range(2)]
    pack_tree(AgentTree(LlmAgent(name="root", model="gemini-x", sub_agents=children)), lambda model: model)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["agent 'a0'", "agent 'a1'"]
