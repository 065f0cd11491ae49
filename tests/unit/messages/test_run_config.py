"""The options of a turn are checked where they are given."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors import RunConfig

CALL = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"timeout": "5"}, "RunConfig.timeout must be a number of seconds or None, not '5'"),
        ({"timeout": True}, "RunConfig.timeout must be a number of seconds or None, not True"),
        ({"timeout": 0}, "RunConfig.timeout must be more than 0 seconds or None, not 0"),
        ({"max_llm_calls": "many"}, "RunConfig.max_llm_calls must be an int, not 'many'"),
        ({"max_llm_calls": None}, "RunConfig.max_llm_calls must be an int, not None"),
        ({"max_llm_calls": 2.0}, "RunConfig.max_llm_calls must be an int, not 2.0"),
        ({"max_transfers": "x" * 99}, "RunConfig.max_transfers must be an int, not 'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
        ({"max_transfers": -1}, "RunConfig.max_transfers must be 0 or more, not -1"),
        ({"save_input_blobs_as_artifacts": 1}, "RunConfig.save_input_blobs_as_artifacts must be a bool, not 1"),
        ({"streaming": True}, "RunConfig.streaming must be one of 'none', 'sse', not True"),
        ({"streaming": []}, "RunConfig.streaming must be one of 'none', 'sse', not []"),
        ({"on_concurrent_turn": "wait"}, "RunConfig.on_concurrent_turn must be one of 'enqueue', 'steer', 'reject', 'interrupt'"),
        ({"custom_metadata": "x"}, "RunConfig.custom_metadata must be a dict or None, not 'x'"),
        ({"model_input_context": "x"}, "RunConfig.model_input_context must be a list of contents or texts, or None, not 'x'"),
        (
            {"model_input_context": [1]},
            "RunConfig.model_input_context: a content must be a Content, ours or google-genai's, not int",
        ),
        ({"model_input_context": [{"rolle": "user"}]}, "RunConfig.model_input_context: message has no field 'rolle'"),
        ({"model_input_context": [""]}, "RunConfig.model_input_context has a content that says nothing"),
        ({"model_input_context": [CALL]}, "RunConfig.model_input_context has a function call or response"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_right(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        RunConfig(**fields)
