"""What a custom agent does: whatever its author wrote."""

from __future__ import annotations

from contextlib import aclosing
from typing import cast

from actors.agents.custom import CustomAgent
from actors.agents.tree import AgentSpec
from actors.interfaces.context import Context
from actors.messages.event import Event
from actors.messages.protocol import AnyOutcome, Finished, Transfer


async def run_custom(spec: AgentSpec, context: Context) -> AnyOutcome:
    """Run the generator to its end, making every event known as it comes."""
    definition = cast(CustomAgent, spec.definition)
    to: str | None = None
    # Closing the generator runs its `finally` blocks here and now, also when the turn is cancelled.
    async with aclosing(definition.run(context)) as events:  # type: ignore[type-var]
        async for event in events:
            if not isinstance(event, Event):
                raise TypeError(f"{type(definition).__name__}.run must yield Events, not {type(event).__name__}")
            stored = await context.emit(event)
            to = stored.actions.transfer_to_agent or to
    return Transfer(to=to) if to is not None else Finished()
