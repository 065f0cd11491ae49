"""Definitions become a tree: which ones are refused, and what each agent is given (semantics.md section 2)."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from actors import (
    AgentTool,
    BaseAgent,
    CustomAgent,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    ParallelAgent,
    Placement,
    Plugin,
    SequentialAgent,
    Supervision,
    tool,
)
from actors.definitions.agents.callbacks import UserCallback, hooks
from actors.errors import AgentTreeError, DefinitionError
from actors.layers.trees.tree import AgentTree
from actors.messages.flow import CONTROLLER
from actors.messages.topology import AgentNode
from actors.testing import PatternModel, ScriptedModel


class ReturningModel:
    """Its method returns a response."""

    async def generate(self, request: LlmRequest, *, stream: bool) -> LlmResponse:
        return LlmResponse()


class SyncModel:
    """Its method is a generator, but not an async one."""

    def generate(self, request: LlmRequest, *, stream: bool) -> Iterator[LlmResponse]:
        yield LlmResponse()


def llm(name: str, *children: BaseAgent, **more: Any) -> LlmAgent:
    return LlmAgent(name=name, sub_agents=list(children), **more)


def defined(tree: AgentTree) -> list[AgentNode]:
    """The nodes of the agents that a user has defined."""
    *nodes, controller = tree.topology.nodes
    assert controller.name == CONTROLLER
    assert tree.topology.is_beside(CONTROLLER)
    return nodes


def test_the_root_comes_first_and_parents_before_their_children() -> None:
    steps = SequentialAgent(name="s", sub_agents=[llm("s1"), LoopAgent(name="l"), ParallelAgent(name="p")])
    tree = AgentTree(llm("root", llm("a", llm("a1")), steps, CustomAgent(name="c")))
    assert [(node.name, node.kind, node.parent) for node in defined(tree)] == [
        ("root", "llm", None),
        ("a", "llm", "root"),
        ("s", "sequential", "root"),
        ("c", "custom", "root"),
        ("a1", "llm", "a"),
        ("s1", "llm", "s"),
        ("l", "loop", "s"),
        ("p", "parallel", "s"),
    ]
    assert tree.topology["root"].children == ("a", "s", "c")


def test_flags_and_descriptions_are_on_the_map() -> None:
    tree = AgentTree(
        llm("root", llm("a", description="helps", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True))
    )
    node = tree.topology["a"]
    assert (node.description, node.disallow_transfer_to_parent, node.disallow_transfer_to_peers) == ("helps", True, True)


def test_no_root_agent_is_an_error() -> None:
    with pytest.raises(DefinitionError, match=r"^root agent is required$"):
        AgentTree(None)
    with pytest.raises(DefinitionError, match=r"must be an agent: .root. is no agent, but a str"):
        AgentTree("root")  # type: ignore[arg-type]


def shared() -> BaseAgent:
    both = llm("both")
    return llm("root", llm("left", both), llm("right", both))


def twice() -> BaseAgent:
    same = llm("same")
    return llm("root", same, same)


def cycle() -> BaseAgent:
    children: list[BaseAgent] = []
    loop = llm("loop")
    root = llm("root", loop)
    assert isinstance(loop.sub_agents, list)
    loop.sub_agents.append(root)
    return root if not children else loop


@pytest.mark.parametrize(
    ("root", "words"),
    [
        (lambda: llm("root", llm("left", llm("x")), llm("right", llm("x"))), ["'x'", "'left'", "'right'"]),
        (lambda: llm("root", llm("root")), ["'root'"]),
        (shared, ["'both'", "'left'", "'right'", "two parents"]),
        (twice, ["'same'", "twice"]),
        (cycle, ["'root'"]),
    ],
)
def test_what_is_no_tree_is_refused_and_the_agent_is_named(root: Any, words: list[str]) -> None:
    with pytest.raises(AgentTreeError, match=r"^failed to create agent tree: ") as raised:
        AgentTree(root())
    for word in words:
        assert word in str(raised.value)


def test_a_model_is_inherited_from_the_nearest_llm_agent_above() -> None:
    own = PatternModel([])
    tree = AgentTree(
        llm("root", SequentialAgent(name="s", sub_agents=[llm("a", llm("b"), model=own), llm("c")]), model="gemini-2.5-flash")
    )
    assert tree.model("b") is own
    assert tree.model("c") == "gemini-2.5-flash"
    assert tree.model("s") == ""


def test_an_agent_without_any_model_is_named() -> None:
    with pytest.raises(DefinitionError, match="agent 'a' has no model"):
        AgentTree(SequentialAgent(name="s", sub_agents=[llm("a")])).model("a")


def test_agents_that_are_given_the_same_function_share_one_tool_as_long_as_they_live() -> None:
    def count(words: str) -> int:
        """Count words."""
        return len(words.split())

    first, second = llm("a", tools=[count]), llm("b", tools=[count])
    assert first.tools[0] is second.tools[0]
    count.__doc__ = "Count them."
    third = llm("c", tools=[count])
    assert [agent.tools[0].description for agent in (first, third)] == ["Count words.", "Count them."]
    known = weakref.ref(first.tools[0])
    del first, second
    assert known() is None


def test_a_model_is_found_however_deep_an_agent_stands() -> None:
    agent = llm("a3000")
    for number in range(2_999, 0, -1):
        agent = llm(f"a{number}", agent, model="gemini-2.5-flash" if number == 1_500 else "")
    tree = AgentTree(llm("root", agent, model=PatternModel([])))
    assert (tree.model("a3000"), tree.model("a1500")) == ("gemini-2.5-flash", "gemini-2.5-flash")
    assert tree.model("a1499") is tree.model("root")


def test_an_agents_actor_is_given_its_own_definition_and_nothing_of_the_rest_of_the_tree() -> None:
    root = llm(
        "root",
        llm("a", llm("a1"), instruction="I am a", global_instruction="not mine"),
        llm("b"),
        model="m",
        global_instruction="all",
    )
    spec = AgentTree(root).spec("a")
    assert (spec.name, spec.children, spec.global_instruction, spec.model) == ("a", ("a1",), "all", "m")
    assert [target.name for target in spec.targets] == ["a1", "root", "b"]
    assert spec.definition.sub_agents == ()
    assert isinstance(spec.definition, LlmAgent)
    assert spec.definition.instruction == "I am a"
    assert root.sub_agents[0].sub_agents != ()


def lookup(order: str) -> str:
    """Look an order up."""
    return order


def transfer_to_agent(agent_name: str) -> str:
    return agent_name


class Nameless:
    def __call__(self, x: int) -> int:
        return x


# As a program without types would call them.
LLM: Any = LlmAgent
LOOP: Any = LoopAgent


@pytest.mark.parametrize(
    ("define", "words"),
    [
        (lambda: LLM(), ["name", "LlmAgent"]),
        (lambda: LLM(name="a", instructions="x"), ["instructions", "'a'"]),
        (lambda: LlmAgent(name="a", model=7), ["model", "int"]),
        (lambda: LlmAgent(name="a", model=ReturningModel()), ["model", "ReturningModel.generate", "async def", "yield"]),
        (lambda: LlmAgent(name="a", model=SyncModel()), ["model", "SyncModel.generate", "async def", "yield"]),
        (lambda: LlmAgent(name="a", model=ScriptedModel), ["model", "ScriptedModel(…)"]),
        (lambda: LLM(name="a", include_contents="some"), ["include_contents"]),
        (lambda: LlmAgent(name="a", tools=[lookup, lookup]), ["two tools", "'lookup'"]),
        (lambda: LlmAgent(name="a", tools=[transfer_to_agent]), ["'transfer_to_agent'"]),
        (lambda: LlmAgent(name="a", tools=[tool(name="transfer_to_agent")(lookup)]), ["'transfer_to_agent'"]),
        (lambda: LlmAgent(name="a", tools=["lookup"]), ["tool", "str"]),
        (lambda: LlmAgent(name="a", tools=[Nameless()]), ["needs a name"]),
        (lambda: LlmAgent(name="a", generate_content_config=3), ["generate_content_config", "int"]),
        (lambda: LlmAgent(name="a", generate_content_config={"tools": [lookup]}), ["generate_content_config.tools", "tools"]),
        (lambda: LlmAgent(name="a", generate_content_config={"system_instruction": "x"}), ["instruction"]),
        (lambda: LoopAgent(name="l", max_iterations=-1), ["max_iterations"]),
        (lambda: LOOP(name="l", on_escalate="stop"), ["on_escalate"]),
        (lambda: BaseAgent(name="a"), ["one of the kinds"]),
        (lambda: LLM(name="a", sub_agents=["b"]), ["sub_agents"]),
        (lambda: AgentTool("expert"), ["AgentTool needs an agent"]),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_definition_is_refused_at_once_and_names_the_field(define: Any, words: list[str]) -> None:
    with pytest.raises(DefinitionError) as raised:
        define()
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("user", ["'user'"]),
        ("my-agent", ["'my-agent'", "identifier"]),
        ("", ["''", "identifier"]),
        ("1st", ["'1st'", "identifier"]),
        ("a b", ["'a b'", "identifier"]),
        (CONTROLLER, [f"'{CONTROLLER}'", "identifier"]),
        ("a" * 257, ["257 characters"]),
    ],
)
@pytest.mark.parametrize("kind", [LlmAgent, LoopAgent])
def test_a_name_that_no_agent_can_have_is_refused_at_once(kind: Any, name: str, words: list[str]) -> None:
    with pytest.raises(AgentTreeError, match=r"^failed to create agent tree: ") as raised:
        kind(name=name)
    for word in words:
        assert word in str(raised.value)


def test_agents_that_are_tools_stand_beside_the_tree_once_however_many_have_them() -> None:
    deep = llm("deep", model="gemini-2.5-flash")
    expert = llm("expert", llm("helper", tools=[AgentTool(deep)]))
    tree = AgentTree(llm("root", llm("a", tools=[AgentTool(expert)]), tools=[AgentTool(expert)], model="gemini-2.5-pro"))
    assert [(node.name, node.parent, node.tool_agents) for node in defined(tree)] == [
        ("root", None, ("expert",)),
        ("a", "root", ("expert",)),
        ("expert", None, ()),
        ("helper", "expert", ("deep",)),
        ("deep", None, ()),
    ]
    assert [name for name in ("root", "a", "expert", "helper", "deep") if tree.topology.is_beside(name)] == [
        "expert",
        "helper",
        "deep",
    ]
    assert tree.model("helper") == "gemini-2.5-pro"
    assert [target.name for target in tree.spec("a").targets] == ["root"]
    assert [target.name for target in tree.spec("helper").targets] == ["expert"]


def test_an_agent_travels_with_its_tools_but_not_with_what_is_behind_them() -> None:
    expert = llm("expert", llm("helper"), model=ScriptedModel(["x"]))
    (travels,) = AgentTree(llm("root", tools=[AgentTool(expert)], model=ScriptedModel([]))).spec("root").definition.tools  # type: ignore[attr-defined]
    assert (travels.agent.sub_agents, travels.agent.model) == ((), "")
    assert travels.declaration() == AgentTool(expert).declaration()


def test_an_agent_may_be_in_the_tree_and_a_tool() -> None:
    a = llm("a", llm("deep"))
    tree = AgentTree(llm("root", a, llm("b", tools=[AgentTool(a)]), tools=[AgentTool(a)], model="m"))
    assert [agent.name for agent in tree if agent.name != CONTROLLER] == ["root", "a", "b", "deep"]
    assert not tree.topology.is_beside("a")
    assert tree.topology["b"].tool_agents == ("a",)
    spec = tree.spec("a")
    assert [target.name for target in spec.targets] == ["deep", "root", "b"]
    assert [target.name for target in spec.as_tool.targets] == ["deep"]
    assert tree.spec("deep").as_tool.targets == ()


def test_two_agents_cannot_share_a_name() -> None:
    a = llm("a")
    with pytest.raises(AgentTreeError, match="the name 'a' is given twice, to a child of 'root' and to a tool of 'root'"):
        AgentTree(llm("root", a, tools=[AgentTool(llm("a"))]))
    with pytest.raises(AgentTreeError, match=r"the name 'a' is given twice, to the root and to a child of 'a': .*rename one"):
        AgentTree(llm("a", a))
    with pytest.raises(AgentTreeError, match="the name 'a' is given twice, to a tool of 'root' and to a tool of 'b'"):
        AgentTree(llm("root", llm("b", tools=[AgentTool(llm("a"))]), tools=[AgentTool(a)]))


@pytest.mark.parametrize("kind", [LlmAgent, SequentialAgent, Placement, Supervision])
def test_fields_are_given_by_name(kind: Any) -> None:
    with pytest.raises(DefinitionError, match=rf"{kind.__name__}\(\w+='helper', …\) instead of {kind.__name__}\('helper', …\)"):
        kind("helper", "gemini-2.5-flash")


class Quiet(Plugin):
    def __init__(self) -> None:
        """Leaves out what the base class does."""


class Loud(Plugin):
    def before_agent_callback(self, context: Any) -> None:
        """Do nothing."""


def functions(found: Sequence[UserCallback]) -> list[Any]:
    return [callback.function for callback in found]


def test_only_hooks_that_are_overridden_are_called() -> None:
    loud = Loud()
    assert functions(hooks([Quiet(), loud, Plugin()], "before_agent_callback")) == [loud.before_agent_callback]
    assert hooks([loud], "before_model_callback") == []


def test_an_agent_calls_the_hooks_before_its_own_callbacks() -> None:
    loud = Loud()
    root = LlmAgent(name="root", model=ScriptedModel([]), before_agent_callback=[print, repr])
    spec = AgentTree(root, [loud]).spec("root")
    assert functions(spec.hooks("before_agent_callback")) == [loud.before_agent_callback, print, repr]


@pytest.mark.parametrize(
    ("plugins", "told"),
    [
        ([Loud(), Loud()], "two plugins are called 'Loud'"),
        ([Quiet(), Plugin("Quiet")], "two plugins are called 'Quiet'"),
        ([Loud], "instance of a subclass of Plugin"),
    ],
)
def test_plugins_that_cannot_be_used_together_are_refused(plugins: list[Any], told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        AgentTree(LlmAgent(name="root", model=ScriptedModel([])), plugins)
