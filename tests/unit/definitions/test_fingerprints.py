"""Fingerprints of definitions: the same in every process, and others when anything of the user's is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock, create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from actors import FunctionTool, LlmAgent, Plugin
from actors.layers.trees import fingerprints
from actors.layers.trees.fingerprints import Fingerprints, likeness
from actors.layers.trees.tree import AgentTree
from actors.layers.updates.rules import tree_difference
from actors.testing import PatternModel, ScriptedModel

MODEL = PatternModel([], default="ok")


def of(value: object) -> bytes | str:
    return Fingerprints().of(value)


def compiled(code: str, name: str = "users_module", **names: object) -> Any:
    """What some code of a user defines as `made`."""
    module = ModuleType(name)
    vars(module).update(names)
    exec(compile(code, f"{name}.py", "exec"), vars(module))
    return module.made


def tree(*agents: LlmAgent, **fields: Any) -> AgentTree:
    return AgentTree(LlmAgent(name="root", model=MODEL, sub_agents=agents, **fields))


def leaf(name: str, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, **{"model": MODEL} | fields)


FUNCTION = (
    "LIMIT = {limit}\ndef helper(x):\n    return x + LIMIT\ndef made(x):\n    'Add.'\n    return [helper(each) for each in x]"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FUNCTION.format(limit=3), FUNCTION.format(limit=4)),
        (FUNCTION.format(limit=3), FUNCTION.format(limit=3).replace("x + LIMIT", "x - LIMIT")),
        (FUNCTION.format(limit=3), FUNCTION.format(limit=3).replace("'Add.'", "'Adds.'")),
        ("def made(x=1): pass", "def made(x=2): pass"),
        ("def made(x: int): pass", "def made(x: str): pass"),
        ("def made(*, x=1): pass", "def made(*, x=2): pass"),
        ("def outer(y):\n    return lambda: y\nmade = outer(1)", "def outer(y):\n    return lambda: y\nmade = outer(2)"),
        ("class C:\n    def f(self): return 1\nmade = C()", "class C:\n    def f(self): return 2\nmade = C()"),
        ("class C:\n    x = 1\nmade = C()", "class C:\n    x = 2\nmade = C()"),
        ("class B:\n    x = 1\nclass C(B): pass\nmade = C", "class B:\n    x = 2\nclass C(B): pass\nmade = C"),
        ("class C: pass\nmade = C()\nmade.x = 1", "class C: pass\nmade = C()\nmade.x = 2"),
        ("class C:\n    __slots__ = ('x',)\nmade = C()\nmade.x = 1", "class C:\n    __slots__ = ('x',)\nmade = C()\nmade.x = 2"),
        ("made = {'a': [1, (2, {3, 4})]}", "made = {'a': [1, (2, {3, 5})]}"),
        ("made = 1", "made = 1.0"),
        ("made = [1]", "made = ['1']"),
    ],
)
def test_what_differs_has_another_fingerprint(before: str, after: str) -> None:
    assert of(compiled(before)) == of(compiled(before)) != of(compiled(after))


IN_USE = {
    "logger": ("logging.getLogger('made')", "made().debug('x'); logging.getLogger('made.child'); made().setLevel(10)"),
    "root logger": ("logging.getLogger()", "made().addHandler(logging.NullHandler())"),
    "logger with facts": ("logging.LoggerAdapter(logging.getLogger('made'), {})", "made().info('x')"),
    "lock": ("threading.Lock()", "made().acquire()"),
    "reentrant lock": ("threading.RLock()", "made().acquire()"),
    "condition": ("threading.Condition()", "made().acquire()"),
    "event": ("threading.Event()", "made().set()"),
    "asyncio lock": ("asyncio.Lock()", "asyncio.run(made().acquire())"),
    "queue": ("queue.Queue()", "made().put(1)"),
    "local": ("threading.local()", "made().x = 1"),
    "random": ("random.Random(1)", "made().gauss(0, 1)"),
    "counter": ("itertools.count()", "next(made())"),
    "threads": ("concurrent.futures.ThreadPoolExecutor(1)", "made().submit(int).result()"),
    "cache": ("functools.lru_cache(8)(lambda x: x)", "made()(1)"),
    "weak dictionary": ("weakref.WeakValueDictionary()", "made()['x'] = threading.current_thread()"),
    "context variable": ("contextvars.ContextVar('x', default=1)", "made().set(2)"),
    "client": ("httpx2.Client(base_url='http://127.0.0.1:9')", "made().headers['x'] = 'y'; made().close()"),
    "asynchronous client": ("httpx2.AsyncClient()", "asyncio.run(made().aclose())"),
    "openai": ("openai.AsyncOpenAI(api_key='x')", "made().models; asyncio.run(made().close())"),
    "module": ("logging", "made().made_up = 1"),
    "pattern": ("re.compile('a')", "made().match('a')"),
    "annotation": ("Annotated[int, pydantic.AfterValidator(lambda x: x)]", "made()"),
}
"""What a module of a user may have, and what is done with it."""

MODULES = (
    "asyncio,concurrent.futures,contextvars,functools,httpx2,itertools,logging,openai,pydantic,queue,random,re,threading,weakref"
)


@pytest.mark.parametrize("kind", IN_USE)
def test_what_was_done_with_a_thing_does_not_count(kind: str) -> None:
    thing, use = IN_USE[kind]
    code = f"import {MODULES}\nfrom typing import Annotated\nTHING = {thing}\ndef made(x: THING = 1):\n    return THING"
    module = ModuleType("users_module")
    exec(compile(code, "users_module.py", "exec"), vars(module))
    before = of(vars(module)["made"])
    exec(use, vars(module))
    assert of(vars(module)["made"]) == before == of(compiled(code))


def test_the_name_of_a_logger_a_pattern_and_a_template_count() -> None:
    for thing, other in (
        ("logging.getLogger('a')", "logging.getLogger('b')"),
        (f"re.compile({'a' * 300!r})", f"re.compile({'a' * 300 + 'b'!r})"),
        ("re.compile('a')", "re.compile('a', re.IGNORECASE)"),
        ("string.Template('Help $x')", "string.Template('Serve $x')"),
        ("types.SimpleNamespace(limit=3)", "types.SimpleNamespace(limit=4)"),
        ("functools.lru_cache(lambda x: x)", "functools.lru_cache(lambda x: x + 1)"),
    ):
        code = "import functools, logging, re, string, types\nmade = "
        assert of(compiled(code + thing)) == of(compiled(code + thing)) != of(compiled(code + other))


def test_what_a_function_takes_from_a_module_of_the_user_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import its_helpers\ndef made(x):\n    return its_helpers.used(x)"
    monkeypatch.syspath_prepend(str(tmp_path))

    def print_with(text: str) -> bytes | str:
        helpers = ModuleType("its_helpers")
        exec(text, vars(helpers))
        monkeypatch.setitem(sys.modules, "its_helpers", helpers)
        return of(compiled(code))

    first = print_with("def used(x): return x\ndef other(): pass")
    assert print_with("def used(x): return x\ndef other(): return 1") == first
    assert print_with("def used(x): return x + 1\ndef other(): pass") != first


def test_of_what_is_installed_the_name_counts_and_what_a_model_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def print_of(code: str) -> bytes | str:
        module = ModuleType("its_package")
        module.__file__ = "/lib/site-packages/its_package.py"
        exec(code, vars(module))
        monkeypatch.setitem(sys.modules, "its_package", module)
        return of(module.made)

    first = print_of("def made(x: int = 1):\n    'Add.'\n    return x + 1")
    assert print_of("def made(x: int = 1):\n    'Add.'\n    return x + 2") == first
    for other in (
        "made(x: int = 2):\n 'Add.'",
        "made(x: str = 1):\n 'Add.'",
        "made(y: int = 1):\n 'Add.'",
        "made(x: int = 1): 'Adds.'",
    ):
        assert print_of(f"def {other}") != first


def test_where_code_stands_does_not_count() -> None:
    assert of(compiled(FUNCTION.format(limit=3))) == of(compiled("\n\n# moved\n" + FUNCTION.format(limit=3), "another_module"))


def test_what_refers_to_itself_has_a_fingerprint() -> None:
    first, second = compiled("made = {}\nmade['me'] = made"), compiled("made = {}\nmade['me'] = made")
    assert of(first) == of(second)
    assert of(compiled("def made(n): return made(n - 1)")) == of(compiled("def made(n): return made(n - 1)"))


def test_what_only_claims_a_class_has_a_fingerprint() -> None:
    def callback(word: str) -> None: ...

    assert of(create_autospec(callback))
    assert of(MagicMock(spec=callback))


class Order(BaseModel):
    """An order."""

    what: str
    count: int = 1


class Audit(Plugin):
    """A plugin."""

    def __init__(self, level: int) -> None:
        self.level = level


@pytest.mark.parametrize(
    "change",
    [
        {"instruction": "Be brief."},
        {"description": "Another."},
        {"tools": [FunctionTool(of)]},
        {"output_schema": Order},
        {"generate_content_config": {"temperature": 0.5}},
        {"before_model_callback": lambda context, request: None},
        {"model": "gemini-2.5-flash"},
        {"model": ScriptedModel(["x"])},
    ],
)
def test_each_field_of_a_definition_counts(change: dict[str, Any]) -> None:
    changed: dict[str, Any] = {"name": "a", "model": MODEL} | change
    before, after = tree(leaf("a", description="One."), leaf("b")), tree(LlmAgent(**changed), leaf("b"))
    assert tree_difference(before.version, after.version).changed == ["a"]


def test_a_tree_that_is_made_again_is_the_same_version() -> None:
    def made() -> AgentTree:
        return tree(leaf("a", tools=[FunctionTool(of)], output_schema=Order), leaf("b", model=PatternModel([], default="x")))

    assert made().version.id == made().version.id


def test_a_model_that_was_asked_is_the_same() -> None:
    model = ScriptedModel(["one", "two"])
    before = of(model)
    model._taken = 1
    assert of(model) == before != of(ScriptedModel(["one", "three"]))


def test_agents_around_a_changed_one_are_touched_where_they_see_it() -> None:
    before = tree(leaf("a", description="One."), leaf("b"), leaf("c", disallow_transfer_to_peers=False))
    assert tree_difference(before.version, tree(leaf("a", description="Two."), leaf("b"), leaf("c")).version).touched == [
        "b",
        "c",
        "root",
    ]
    assert not tree_difference(
        tree(leaf("a", instruction="One."), leaf("b")).version, tree(leaf("a", instruction="Two."), leaf("b")).version
    ).touched


def test_a_plugin_touches_every_agent() -> None:
    root = LlmAgent(name="root", model=MODEL, sub_agents=[leaf("a")])
    versions = [AgentTree(root, [Audit(level)]).version for level in (1, 2)]
    found = tree_difference(*versions)
    assert (found.changed, [name for name in found.touched if "@" not in name]) == ([], ["a", "root"])


PROGRAM = """
from tests.unit.definitions.test_fingerprints import Audit, Order, leaf, of, tree
from actors import FunctionTool
print(tree(leaf("a", tools=[FunctionTool(of)], output_schema=Order), leaf("b")).version.id, of({"x", "y", "z"}).hex())
"""


def test_a_version_has_the_same_name_in_every_process() -> None:
    def run(seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert run("1") == run("2") != ""


def test_a_class_that_many_models_share_is_walked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = compiled(
        "class made:\n    def __init__(self, name):\n        self.name = name\n    def say(self):\n        return self.name"
    )
    models = [kind(f"model {number}") for number in range(10)]
    expected, walked = [of(model) for model in models], []
    of_class = fingerprints._Walk._of_class

    def noted(walk: Any, kind: type) -> bytes:
        walked.append(kind)
        return of_class(walk, kind)

    monkeypatch.setattr(fingerprints._Walk, "_of_class", noted)
    prints = Fingerprints()
    assert [prints.of(model) for model in models] == expected
    assert walked == [kind]
    assert len(set(expected)) == 10


def test_what_is_nested_too_deep_counts_by_what_is_around_it() -> None:
    def nested(value: object, depth: int) -> object:
        for _ in range(depth):
            value = [value]
        return value

    assert Fingerprints().of({"deep": nested(1, 30_000)}) == Fingerprints().of({"deep": nested(2, 30_000)})
    assert Fingerprints().of({"deep": nested(1, 20)}) != Fingerprints().of({"deep": nested(2, 20)})


class Plain:
    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Other(Plain):
    pass


class Slotted(Plain):
    __slots__ = ("hidden",)


class Pickled(Plain):
    def __getstate__(self) -> dict[str, Any]:
        return {}


def made(number: int = 1) -> Plain:
    return Plain(name="a", heat=0.5, limits=[number, 2], extra={"top": None}, is_on=True, raw=b"x", pair=(1, "b"))


def test_objects_of_one_class_with_equal_data_are_alike() -> None:
    assert likeness(made()) == likeness(made()) is not None
    assert likeness(Plain()) == likeness(Plain()) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (made(), made(3)),
        (Plain(a=1), Plain(a=True)),
        (Plain(a=1), Plain(a=1.0)),
        (Plain(a=0.0), Plain(a=-0.0)),
        (Plain(a="1"), Plain(a=b"1")),
        (Plain(a=[]), Plain(a=())),
        (Plain(a=[1]), Plain(a=[True])),
        (Plain(a={"b": 1}), Plain(a={"b": 2})),
        (Plain(a=1), Plain(b=1)),
        (Plain(a=1, b=2), Plain(b=2, a=1)),
        (Plain(a=1), Other(a=1)),
    ],
)
def test_others_are_not_alike(one: Plain, other: Plain) -> None:
    assert likeness(one) != likeness(other)


SHARED = [1]


@pytest.mark.parametrize(
    "given",
    [
        Plain(a=[[1]]),
        Plain(a=[bytearray(b"x")]),
        Plain(a=Plain()),
        Plain(a=print),
        Plain(a={1}),
        Plain(a=SHARED),
        Slotted(a=1),
        Pickled(a=1),
        Plain,
        print,
        [1],
        "text",
        None,
    ],
)
def test_what_may_be_more_than_its_data_is_like_nothing_else(given: object) -> None:
    assert likeness(given) is None


simple = st.sampled_from([None, True, 1, 1.0, 0.0, -0.0, "", "1", b"1"])
data = (
    simple
    | st.lists(simple, max_size=2)
    | st.tuples(simple)
    | st.dictionaries(st.sampled_from(["a", 1, True]), simple, max_size=2)
)
attributes = st.dictionaries(st.sampled_from(["a", "b"]), data, max_size=2)


@given(one=attributes, other=attributes)
def test_what_is_alike_has_one_fingerprint_and_one_text(one: dict[str, object], other: dict[str, object]) -> None:
    # Copies, to which nothing else refers.
    left, right = Plain(**eval(repr(one))), Plain(**eval(repr(other)))
    is_alike = likeness(left) == likeness(right)
    assert is_alike == (repr(list(vars(left).items())) == repr(list(vars(right).items())))
    if is_alike:
        assert Fingerprints().of(left) == Fingerprints().of(right)
