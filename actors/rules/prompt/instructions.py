"""The system instruction of an LLM agent: its parts, their order, and the templates in them (semantics.md 5.2, 5.3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from actors.errors import TemplateError
from actors.messages.content import Content
from actors.messages.event import USER
from actors.messages.json_types import JsonMapping, JsonValue

_PLACEHOLDER = re.compile(
    r"[$\\]\{+[^{}]*\}*"  # ${x} and \{x} stay as they are
    r"|\{\{(?P<double>[^{}]*)\}\}"
    r"|\{(?P<single>[^{}]*)\}"
)
_SCOPE = re.compile(r"^(?:app|user|temp):")
_ARTIFACT = "artifact."


def render(template: str, state: JsonMapping, artifacts: Mapping[str, str | None], agent: str) -> str:
    """Fill in a template. Placeholders in the values that are filled in stay as they are.

    Args:
        template: the text with its placeholders.
        state: all scopes by prefixed keys.
        artifacts: the text of every artifact in `artifact_names(template)`, None for one that does not exist.
        agent: the agent whose instruction it is, for the error.

    Raises:
        TemplateError: a name that is not optional has no value.
    """

    if "{" not in template:
        return template

    def fill(match: re.Match[str]) -> str:
        name, optional = _name(match)
        if name is None:
            return match[0]
        if name.startswith(_ARTIFACT):
            filename = name.removeprefix(_ARTIFACT)
            value: JsonValue = artifacts.get(filename)
            if value is None and not optional:
                raise TemplateError(agent, name, f"the session has no artifact {filename!r}")
        else:
            if name not in state and not optional:
                raise TemplateError(agent, name, "the session's state has no such key")
            value = state.get(name)
        return "" if value is None else str(value)

    return _PLACEHOLDER.sub(fill, template)


def artifact_names(template: str) -> list[str]:
    """The names of the artifacts that a template asks for, in order."""
    if _ARTIFACT not in template:
        return []
    names = (_name(match)[0] for match in _PLACEHOLDER.finditer(template))
    return [name.removeprefix(_ARTIFACT) for name in names if name is not None and name.startswith(_ARTIFACT)]


def _name(match: re.Match[str]) -> tuple[str | None, bool]:
    """The name in a placeholder, None when it is plain text; and whether its value may be missing."""
    inside = match["double"] if match["double"] is not None else match["single"]
    if inside is None:
        return None, False
    name = inside.strip()
    optional = name.endswith("?")
    name = name.removesuffix("?")
    is_artifact = name.startswith(_ARTIFACT) and len(name) > len(_ARTIFACT) and not re.search(r"\s", name)
    if is_artifact or _SCOPE.sub("", name, count=1).isidentifier():
        return name, optional
    return None, False


def identity(name: str, description: str) -> str:
    """The part of the system instruction that names the agent."""
    text = f'You are an agent. Your internal name is "{name}".'
    return f'{text} The description about you is "{description}".' if description else text


def of_this_turn(instruction: str) -> str:
    """An instruction that stands in the conversation, as a message that no user has written."""
    return (
        "This is a part of your instructions, not a message of the user. Follow it when you answer the user:\n"
        f"<instruction>\n{instruction}\n</instruction>"
    )


def join(parts: Iterable[str]) -> str:
    """The system instruction made of its parts, in order; empty parts are left out."""
    return "\n\n".join(part for part in parts if part)


def transient_place(contents: Sequence[Content]) -> int:
    """The index at which to insert it: before the newest messages to the agent, but behind the responses of its tools.

    So all that was there in the request before stays at its beginning, where a service may have it in its cache.
    """
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        if content.role != USER or any(content.function_responses()):
            return index + 1
    return 0


def place_before(contents: Sequence[Content], message: Content | None) -> int:
    """The index of a message among the contents; 0 where they do not have it, as with include_contents="none"."""
    places = (index for index in range(len(contents) - 1, -1, -1) if contents[index] is message)
    return next(places, 0)
