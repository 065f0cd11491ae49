"""A content in google-genai's form and back, by the methods that users call."""

from __future__ import annotations

import subprocess
import sys

import pytest
from google.genai import types

import runtime
from actors import Content, FunctionCall, Part

TO_GENAI = "from actors import Content; print(Content.of_text('hi').to_genai().parts[0].text)"


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process, where nothing is imported yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)


def test_a_content_has_a_genai_form_that_says_the_same() -> None:
    assert runtime.Runtime is not None
    content = Content(role="model", parts=[Part(text="hi"), Part(function_call=FunctionCall(id="c", name="f", args={"a": [1]}))])
    theirs = content.to_genai()
    assert isinstance(theirs, types.Content)
    assert Content.from_genai(theirs) == content


@pytest.mark.parametrize("module", ["runtime", "runtime.cluster.processes.agent_host"])
def test_the_genai_form_is_there_wherever_runtime_is_imported(module: str) -> None:
    code = f"import sys, {module}; assert 'google.genai' not in sys.modules; {TO_GENAI}"
    done = python(code)
    assert done.stdout == "hi\n", done.stderr


def test_without_runtime_the_missing_sdk_is_named() -> None:
    assert "ImportError: Content.to_genai needs the google-genai SDK" in python(TO_GENAI).stderr
