"""Tools that are known only when their agent runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ReadonlyContext
from actors.errors.hints import explains_all_wrong_calls
from actors.messages.json_types import JsonObject
from actors.rules.checks.credentials import credential_answers


@explains_all_wrong_calls
@dataclass(frozen=True)
class CredentialRequest:
    """A toolset's answer if it needs a credential of the user before it can say which tools it has.

    Attributes:
        toolset: names the toolset in the call, for those who answer it.
        question: what the user is asked, for people and programs.
    """

    toolset: str
    question: JsonObject


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
    async def tools(self, context: ReadonlyContext) -> Sequence[Tool] | CredentialRequest:
        """Return the tools; plain functions do as well. No agent can be among them.

        Or a CredentialRequest: the turn pauses with a call of `adk_request_credential`. When the user has answered it, the
        toolset is asked again, and finds the answer by `credential_answer`.

        Args:
            context: the run for which they are asked.

        Raises:
            Exception: fails the agent's run; the next run asks again.
        """

    async def credential_answer(self, context: ReadonlyContext, toolset: str) -> JsonObject | None:
        """Return what the user has answered in this turn to a CredentialRequest of that name; None without an answer."""
        return credential_answers(await context.session.read_events(), context.invocation_id).get(toolset)

    async def aclose(self) -> None:  # noqa: B027 - few hold anything
        """Release what the toolset holds: the last agent that has it leaves the process. It may be asked again afterwards."""
