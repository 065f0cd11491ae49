"""Variables of the environment in the settings of a server: secrets stay on the nodes, and out of definitions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from actors.errors import DefinitionError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled_in(server: str, values: Mapping[str, str]) -> dict[str, str]:
    """The values, with the variables of this process's environment in place of `${NAME}`.

    Raises:
        DefinitionError: a variable is not set.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise DefinitionError(
                f"McpTools {server!r} names ${{{name}}}, which is not set where the actor of the server runs: "
                f"set it there, or give it with Settings(env={{{name!r}: …}})"
            )
        return os.environ[name]

    return {name: _VARIABLE.sub(value, text) for name, text in values.items()}
