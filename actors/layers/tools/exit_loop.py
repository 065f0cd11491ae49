"""The built-in tool that ends a loop."""

from __future__ import annotations

from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import FunctionTool


async def _exit_loop(context: ToolContext) -> str:
    """Ends the loop. Call it only when you are told to, and write nothing beside the call."""
    context.actions.escalate = True
    context.actions.skip_summarization = True
    return "the loop ends"


exit_loop = FunctionTool(_exit_loop, name="exit_loop")
"""Sets `escalate`, which ends the enclosing loop, and `skip_summarization`, which ends the run of its agent."""
exit_loop.only_decides = True
