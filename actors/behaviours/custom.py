"""What a custom agent does: whatever its author wrote."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from typing import cast

from actors.definitions.agents.custom import CustomAgent
from actors.definitions.tree.spec import AgentSpec
from actors.interfaces.context import Context
from actors.messages.event import Event
from actors.messages.protocol.outcomes import AnyOutcome, Finished, Paused, Transfer


async def run_custom(spec: AgentSpec, context: Context) -> AnyOutcome:
    """Run the generator to its end, making every event known as it comes.

    A run that was lost begins again, since nobody can tell where in its code it was; but what it says again is not stored again:
    the first events count as those that the log has.
    """
    definition = cast(CustomAgent, spec.definition)
    done = deque(event for event in context.done if event.content is not None)
    to: Transfer | None = None
    # Closing the generator runs its `finally` blocks here and now, also when the turn is cancelled.
    async with aclosing(definition.run(context)) as events:  # type: ignore[type-var]
        async for event in events:
            if not isinstance(event, Event):
                raise TypeError(f"{type(definition).__name__}.run must yield Events, not {type(event).__name__}")
            if done and event.partial:
                continue
            stored = done.popleft() if done and event.content is not None else await context.emit(event)
            if stored.actions.transfer_to_agent is not None:
                to = Transfer(to=stored.actions.transfer_to_agent, seq=stored.seq)
    if to is None and context.waiting:
        return Paused(call_ids=tuple(context.waiting))
    return to or Finished()
