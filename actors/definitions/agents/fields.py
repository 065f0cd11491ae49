"""How the fields of a definition are given: by name."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import DefinitionError
from actors.messages.shown import shown


def refuse_unnamed(kind: type, unnamed: Sequence[object], first: str) -> None:
    """Check that no field was given by its place alone. Raises DefinitionError, with the field that was probably meant."""
    if unnamed:
        raise DefinitionError(
            f"{kind.__name__} takes its fields by name: write {kind.__name__}({first}={shown(unnamed[0])}, …) "
            f"instead of {kind.__name__}({shown(unnamed[0])}, …)"
        )
