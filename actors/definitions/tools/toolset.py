"""Tools that are known only when their agent runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ReadonlyContext


class Toolset(ABC):
    """Stands in an agent's `tools` for tools that are known only when the agent runs, such as those of a server.

    It is asked when an agent that has it first runs in a process, and its tools are kept for that process.

    Attributes:
        name: names it in errors and in the list of agents; by default the name of the class.
        per_run: ask before each run of the agent instead, because the tools depend on the session; default False.
        searchable: when an agent has more tools of such toolsets than models are shown (`max_listed_tools`), its model finds them
            by `find_tools`; default False.
    """

    name: str = ""
    per_run: bool = False
    searchable: bool = False

    def __init_subclass__(cls, **rest: object) -> None:
        super().__init_subclass__(**rest)
        cls.name = cls.__dict__.get("name") or cls.__name__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    async def tools(self, context: ReadonlyContext) -> Sequence[Tool]:
        """Return the tools; plain functions do as well. No agent can be among them.

        Args:
            context: the run for which they are asked.

        Raises:
            Exception: fails the agent's run; the next run asks again.
        """

    async def aclose(self) -> None:  # noqa: B027 - few hold anything
        """Release what the toolset holds: the last agent that has it leaves the process. It may be asked again afterwards."""
