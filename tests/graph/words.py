"""The functions that stand in the graphs of the notation, by their kind."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import create_model

from actors import Content, NodeContext
from actors.errors import WorkflowConfigurationError
from tests.graph.kit import Kit

Spec = Mapping[str, Any]

_TYPES: dict[str, Any] = {
    "int": int,
    "str": str,
    "float": float,
    "bool": bool,
    "list": list,
    "dict": dict,
    "list[int]": list[int],
    "list[str]": list[str],
}


class NotPlayable(Exception):
    """The notation has something that is not played yet. Argument: it."""


class BareError(Exception):
    """A node cannot be made, which google-adk says before there is a graph. Argument: the class of its error."""


def txt(value: object) -> str:
    """A value as the words of the notation show it."""
    value = plain(value)
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def plain(value: object) -> Any:
    """A value, the user's content as its text."""
    if isinstance(value, Content):
        return value.text
    if type(value).__name__ == "Content":
        # google-genai's.
        return "".join(part.text or "" for part in getattr(value, "parts", None) or ())
    return value


def type_of(given: Any, name: str = "Schema") -> Any:
    """A type of the notation: its name, or the fields of a class."""
    if isinstance(given, str):
        return _TYPES[given]
    fields: dict[str, Any] = {
        key: (type_of(each[0]), each[1]) if isinstance(each, list) else (type_of(each), ...) for key, each in given.items()
    }
    return create_model(name, **fields)


class Counted:
    """Counts runs in the life of a case, also those of processes that were lost: each is a line of a file.

    Attributes:
        kit: the classes of which the case is built.
    """

    def __init__(self, folder: Path, kit: Kit | None = None) -> None:
        self._folder = folder
        self.kit = kit or Kit()

    def next(self, name: str) -> int:
        """The number of this run, from 1."""
        path = self._folder / f"{name}.count"
        descriptor = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(descriptor, b".")
        finally:
            os.close(descriptor)
        return path.stat().st_size


def node_of(name: str, spec: Spec, counted: Counted, kids: Mapping[str, Any] | None = None) -> Any:
    """The node of a spec.

    Args:
        kids: the nodes that a `dyn` runs, by name.

    Raises:
        NotPlayable: of a kind that is not played yet.
    """
    kind = spec.get("k", "tag")
    if kind not in _MAKERS and kind != "dyn":
        raise NotPlayable(kind)
    try:
        return _function_node(name, spec, counted, kids, kind)
    except WorkflowConfigurationError as error:
        if not spec.get("confirm"):
            raise
        raise BareError(type(error).__name__) from error


def _function_node(name: str, spec: Spec, counted: Counted, kids: Mapping[str, Any] | None, kind: str) -> Any:
    return counted.kit.function_node(
        _dyn(name, spec, counted, kids or {}) if kind == "dyn" else _MAKERS[kind](name, spec, counted),
        name=name,
        retry_config=retry_of(spec, counted.kit),
        timeout=spec.get("timeout"),
        rerun_on_resume=spec.get("rerun", True if kind == "dyn" else None),
        require_confirmation=spec.get("confirm", False),
        wait_for_output=spec.get("wait", False),
    )


def retry_of(spec: Spec, kit: Kit) -> Any:
    """The retries of a node; None without any."""
    given = spec.get("retry")
    if given is None:
        return None
    named = {"max": "max_attempts", "delay": "initial_delay", "factor": "backoff_factor", "exc": "exceptions"}
    return kit.retry_config(**{"initial_delay": 0.01, "jitter": 0.0, **{named[key]: value for key, value in given.items()}})


def _tag(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def tag(node_input: Any) -> str:
        return f"{name}({txt(node_input)})"

    return tag


def _echo(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda node_input: plain(node_input)


def _upper(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda node_input: txt(node_input).upper()


def _raw(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda node_input: node_input


def _const(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda: spec.get("v")


def _model(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    made = create_model("Made", x=(Any, ...), y=(Any, None))
    return lambda: made(x=spec.get("v", 1))


def _say(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda node_input: counted.kit.content(f"{name} says {txt(node_input)}")


def _put(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def put(ctx: NodeContext, node_input: Any) -> Any:
        ctx.state[spec["key"]] = spec["v"] if "v" in spec else plain(node_input)
        return spec.get("out")

    return put


def _add(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def add(ctx: NodeContext) -> Any:
        ctx.state[spec["key"]] = ctx.state.get(spec["key"], 0) + spec.get("v", 1)
        return ctx.state[spec["key"]]

    return add


def _push(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def push(ctx: NodeContext, node_input: Any) -> Any:
        ctx.state[spec["key"]] = [*ctx.state.get(spec["key"], []), txt(node_input)]
        return plain(node_input)

    return push


def _read(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda ctx: f"{name}[{txt(ctx.state.get(spec['key']))}]"


def _where(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    return lambda ctx: {"path": ctx.node_path, "run": ctx.run_id, "attempt": ctx.attempt_count, "branch": ctx.branch}


def _out(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def out(ctx: NodeContext, node_input: Any) -> None:
        ctx.output = f"{name}({txt(node_input)})"

    return out


def _bind(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    parameters, arguments, names = [], {}, {}
    for index, (key, given) in enumerate(spec["params"].items()):
        names[f"t{index}"] = type_of(given[0] if isinstance(given, list) else given)
        parameters.append(f"{key}: t{index}" + (f" = d{index}" if isinstance(given, list) else ""))
        names[f"d{index}"] = given[1] if isinstance(given, list) else None
        arguments[key] = key
    source = f"def bound({', '.join(parameters)}):\n    return {{{', '.join(f'{key!r}: {key}' for key in arguments)}}}"
    exec(source, names)
    bound: Callable[..., Any] = names["bound"]
    return bound


def _typed(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def typed(node_input: Any) -> str:
        dump = getattr(node_input, "model_dump", None)
        return f"{name}({txt(dump() if dump is not None else node_input)})"

    typed.__annotations__["node_input"] = type_of(spec["in"])
    return typed


def _returns(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def returns() -> Any:
        return spec["v"]

    returns.__annotations__["return"] = type_of(spec["as"])
    return returns


def _route(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    def chosen(ctx: NodeContext, node_input: Any) -> Any:
        if "seq" in spec:
            number = ctx.state.get(f"n_{name}", 0)
            ctx.state[f"n_{name}"] = number + 1
            return spec["seq"][min(number, len(spec["seq"]) - 1)]
        by = spec.get("by")
        if by is None:
            return spec.get("to")
        if by == "input":
            return txt(node_input)
        return plain(node_input) if by == "value" else ctx.state.get(by)

    def route(ctx: NodeContext, node_input: Any) -> Any:
        to = chosen(ctx, node_input)
        output = spec["out"] if "out" in spec else plain(node_input)
        output = None if output is False else output
        if spec.get("ctx"):
            ctx.route = to
            return output
        return counted.kit.event(output=output, route=to)

    return route


def _fail(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:

    async def fail(ctx: NodeContext, node_input: Any) -> str:
        if "when" in spec and txt(node_input) != spec["when"]:
            await asyncio.sleep(spec.get("ms", 0) / 1_000)
            return f"{name}({txt(node_input)})"
        number = counted.next(name)
        if "key" in spec:
            ctx.state[spec["key"]] = number
        if number <= spec.get("times", 1):
            raise getattr(builtins, spec.get("error", "ValueError"))(f"boom {name}")
        await asyncio.sleep(spec.get("ms", 0) / 1_000)
        return f"{name}({txt(node_input)})"

    return fail


def _sleep(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    async def sleep(node_input: Any) -> str:
        await asyncio.sleep(spec["ms"] / 1_000)
        return f"{name}({txt(node_input)})"

    return sleep


def _gen(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    async def gen(ctx: NodeContext) -> AsyncIterator[Any]:
        for item in spec["items"]:
            if not isinstance(item, dict):
                yield item
            elif "raise" in item:
                raise ValueError(item["raise"])
            elif "ask" in item:
                yield counted.kit.request_input(interrupt_id=item["ask"])
            elif "set" in item:
                for key, value in item["set"].items():
                    ctx.state[key] = value
            else:
                yield _event(item, counted.kit)

    return gen


def _ask(name: str, spec: Spec, counted: Counted) -> Callable[..., Any]:
    schema = type_of(spec["schema"]) if "schema" in spec else None

    async def ask(ctx: NodeContext, node_input: Any) -> AsyncIterator[Any]:
        if spec.get("count"):
            ctx.state[f"runs_{name}"] = ctx.state.get(f"runs_{name}", 0) + 1
        ids = [each.replace("{run}", ctx.run_id) for each in spec.get("ids", [spec.get("id", name)])]
        given = ctx.resume_inputs
        missing = [each for each in ids if each not in given]
        if spec.get("rerun") and spec.get("until") is not None and given and txt(given[ids[0]]) != txt(spec["until"]):
            missing = ids[:1]
        missing = missing if spec.get("rerun") else ids
        for each in missing[:1] if spec.get("one") else missing:
            asked = spec.get("msg", f"{spec.get('ids', [spec.get('id', name)])[ids.index(each)]}?")
            yield counted.kit.request_input(interrupt_id=each, message=asked, payload=spec.get("payload"), response_schema=schema)
        if missing or spec.get("silent"):
            return
        if spec.get("as_route"):
            yield counted.kit.event(output=plain(node_input), route=txt(given[ids[0]]))
            return
        yield f"{name}({','.join(txt(given[each]) for each in ids)})"

    return ask


def _dyn(name: str, spec: Spec, counted: Counted, kids: Mapping[str, Any]) -> Callable[..., Any]:
    async def step(ctx: NodeContext, given: Any, value: Any) -> Any:
        if isinstance(given, list):
            return list(await asyncio.gather(*(step(ctx, each, value) for each in given)))
        if isinstance(given, str):
            return await ctx.run_node(kids[given], value)
        if "raise" in given:
            if counted.next(f"{name}-raise") <= given["raise"]:
                raise ValueError(f"boom {name}")
            return value
        if "each" in given:
            return [await ctx.run_node(kids[given["each"]], item) for item in value]
        return await run(ctx, given, given.get("in", value))

    async def run(ctx: NodeContext, given: Spec, value: Any) -> Any:
        options = {"as_output": "use_as_output", "id": "run_id", "sub": "use_sub_branch", "branch": "override_branch"}
        named = {options[key]: given[key] for key in options if key in given}
        for _ in range(given.get("max", 10) if "until" in given else 1):
            try:
                value = await ctx.run_node(kids[given["run"]], value, **named)
            except Exception as error:
                if not given.get("catch"):
                    raise
                value = f"caught {type(error).__name__}"
            if "until" in given and txt(value).endswith(given["until"]):
                break
        return value

    async def dyn(ctx: NodeContext, node_input: Any) -> Any:
        if spec.get("count"):
            ctx.state[f"runs_{name}"] = ctx.state.get(f"runs_{name}", 0) + 1
        value, values = plain(node_input), []
        for given in spec["steps"]:
            value = await step(ctx, given, value)
            values.append(value)
        if spec.get("out") is False:
            return None
        return values if spec.get("all") else value

    return dyn


def _event(item: Spec, kit: Kit) -> Any:
    return kit.event(
        author=item.get("author", ""),
        branch=item.get("branch"),
        text=item.get("msg"),
        output=item.get("out"),
        partial=item.get("partial", False),
        route=item.get("route"),
        state=item.get("state"),
        escalate=item.get("escalate"),
        skip=item.get("skip"),
    )


_MAKERS: dict[str, Callable[[str, Spec, Counted], Callable[..., Any]]] = {
    made.__name__.removeprefix("_"): made
    for made in (_tag, _echo, _upper, _raw, _const, _model, _say, _put, _add, _push, _read, _where, _out, _bind, _typed, _returns)
} | {"route": _route, "fail": _fail, "sleep": _sleep, "gen": _gen, "ask": _ask}
