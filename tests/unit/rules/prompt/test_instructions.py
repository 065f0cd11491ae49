"""The system instruction and its templates (semantics.md 5.2 and 5.3)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import TemplateError
from actors.rules.prompt.instructions import artifact_names, identity, join, render
from tests.support.tries import tries

STATE: dict[str, Any] = {
    "x": "X",
    "v": "{x}",
    "none": None,
    "n": 3,
    "zero": 0,
    "list": [1, "a"],
    "app:k": "K",
    "user:u": "U",
    "temp:t": "T",
    "größe": "G",
    "_p1": "P",
}
FILES = {"f.txt": "FILE", "a/b.md": "AB", "user:f": "UF", "brace": "{x}", "gone": None}


def filled(template: str) -> str:
    return render(template, STATE, FILES, "root")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{x}", "X"),
        ("{ x }", "X"),
        ("{{x}}", "X"),
        ("{{ x }}", "X"),
        ("a{x}b{x}c", "aXbXc"),
        ("{x?}", "X"),
        ("{x? }", "X"),
        ("{y?}", ""),
        ("{{y?}}", ""),
        ("{none}", ""),
        ("{none?}", ""),
        ("{n}", "3"),
        ("{zero}", "0"),
        ("{list}", "[1, 'a']"),
        ("{app:k}", "K"),
        ("{user:u}", "U"),
        ("{temp:t}", "T"),
        ("{app:y?}{user:y?}{temp:y?}", ""),
        ("{größe}", "G"),
        ("{_p1}", "P"),
        ("{artifact.f.txt}", "FILE"),
        ("{ artifact.f.txt }", "FILE"),
        ("{{artifact.f.txt}}", "FILE"),
        ("{artifact.a/b.md}", "AB"),
        ("{artifact.user:f}", "UF"),
        ("{artifact.no?}", ""),
        ("{artifact.gone?}", ""),
    ],
)
def test_placeholders_are_filled_in(template: str, text: str) -> None:
    assert filled(template) == text


@pytest.mark.parametrize(
    "template",
    [
        '{"json": 1}',
        "{a-b}",
        "{}",
        "{ }",
        "{{}}",
        "{?}",
        "{x??}",
        "{1x}",
        "{a b}",
        "{bad:k}",
        "{app:}",
        "{app:1}",
        "{user:a:b}",
        "{artifact.}",
        "{artifact.a b}",
        "{x.y}",
        "{x!r}",
        "{x:>3}",
        "{²}",
        "{x",
        "x}",
        "{{x",
        "${x}",
        "\\{x}",
        "${{x}}",
        "\\{{x}}",
        "$${x}",
        "100 % {",
    ],
)
def test_what_is_no_valid_name_stays_verbatim(template: str) -> None:
    assert filled(template) == template


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{{x}}}", "{X}"),
        ("{{x}", "{X"),
        ("{x}}", "X}"),
        ("{ {x} }", "{ X }"),
        ('{"a": {x}}', '{"a": X}'),
        ('{"a": {"b": {x}}, "c": {y?}}', '{"a": {"b": X}, "c": }'),
        ("{x}{x}", "XX"),
        ("$ {x}", "$ X"),
        ("${x}{x}", "${x}X"),
        ("\\ {x}", "\\ X"),
        ("{a-{x}}", "{a-X}"),
        ("{x}{", "X{"),
        ("}{x}", "}X"),
    ],
)
def test_the_innermost_braces_are_looked_at(template: str, text: str) -> None:
    assert filled(template) == text


def test_values_are_not_looked_at_again() -> None:
    assert filled("{v}") == "{x}"
    assert filled("{artifact.brace}") == "{x}"
    assert filled("{{v}}") == "{x}"


@pytest.mark.parametrize("template", ["{y}", "{{y}}", "{ y }", "{app:y}", "{temp:y}", "{artifact.no}", "{artifact.gone}"])
def test_an_unknown_name_is_an_error_that_names_the_variable_and_the_agent(template: str) -> None:
    with pytest.raises(TemplateError) as raised:
        filled(template)
    name = template.strip("{ }")
    assert raised.value.args[:2] == ("root", name)
    assert "'root'" in str(raised.value)
    assert f"Write {{{name}?}}" in str(raised.value)


@settings(max_examples=tries(300))
@given(st.text(alphabet=st.characters(exclude_characters="{}")))
def test_text_without_braces_is_unchanged(text: str) -> None:
    assert filled(text) == text
    assert artifact_names(text) == []


@settings(max_examples=tries(500))
@given(
    st.lists(st.sampled_from(["{", "}", "{", "}", "$", "\\", "x", "y", "?", ":", "app:", "artifact.", " ", "²", "\n"])).map(
        "".join
    )
)
def test_nothing_but_a_template_error_is_ever_raised(template: str) -> None:
    with suppress(TemplateError):
        filled(template)


@settings(max_examples=tries(200))
@given(st.text(alphabet="{}xy$\\ ?", max_size=12), st.text(alphabet="ab{}x$\\?", max_size=12))
def test_a_value_is_put_in_exactly_as_it_is(around: str, value: str) -> None:
    try:
        marked = render(around, {"x": "\0"}, {}, "root")
    except TemplateError:
        return
    assert render(around, {"x": value}, {}, "root") == marked.replace("\0", value)


def test_the_artifacts_that_a_template_wants_are_told_in_order() -> None:
    template = "{artifact.b} {artifact.a?} {x} {{artifact.c}} ${artifact.d} {artifact.e f}"
    assert artifact_names(template) == ["b", "a", "c"]


def test_the_identity_tells_the_name_and_the_description_if_any() -> None:
    assert '"billing"' in identity("billing", "")
    assert "description" not in identity("billing", "")
    assert '"pays bills"' in identity("billing", "pays bills")


def test_parts_are_joined_by_blank_lines_and_empty_ones_are_left_out() -> None:
    assert join(["a", "", "b\nc", ""]) == "a\n\nb\nc"
    assert join([]) == ""
