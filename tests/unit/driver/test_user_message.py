"""What users pass as a message becomes a Content, whichever form it has."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.genai import types

from actors import Content, Part
from actors.errors import InvalidMessageError
from runtime.driver.arguments import to_content


class NewerContent(types.Content):
    """A Content of an SDK whose parts have a field more than the parts that raygrove knows."""

    hologram: Any = None

    def model_dump(self, **options: Any) -> dict[str, Any]:
        plain = super().model_dump(**options)
        return {"parts": [{**part, "hologram": self.hologram} for part in plain["parts"]]}


def test_a_content_of_the_sdk_is_taken_with_all_that_it_has() -> None:
    theirs = types.Content(
        role="user",
        parts=[
            types.Part(inline_data=types.Blob(data=b"\xff\xfe", mime_type="a/b"), video_metadata=types.VideoMetadata(fps=2.0)),
            types.Part(text="hi", part_metadata={"page": 1}),
        ],
    )
    assert to_content(theirs) == Content.from_genai(theirs)
    assert to_content(theirs).parts[1] == Part(text="hi", part_metadata={"page": 1})


def test_what_only_a_newer_sdk_has_is_refused_by_name_and_no_part_of_a_message_is_lost() -> None:
    parts = [types.Part(text="hi")]
    assert to_content(NewerContent(parts=parts)) == Content(parts=[Part(text="hi")])
    with pytest.raises(InvalidMessageError, match=re.escape("message.parts[0] has no field 'hologram'")):
        to_content(NewerContent(parts=parts, hologram={"depth": 3}))
