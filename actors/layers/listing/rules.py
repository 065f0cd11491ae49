"""Which turns fit what is looked for, by what their records say: no event is read, so what was said is not looked at.

Rules of this file:

- A turn fits when all that is given fits. What is not given fits any turn.
- A part of the error is enough, in small or capital letters; and the beginning of the id, since the turns of a map begin alike.
"""

from __future__ import annotations

from actors.messages.turn_info import TurnInfo, TurnMatch


def fits(turn: TurnInfo, wanted: TurnMatch) -> bool:
    """True when the turn is one of those that are wanted."""
    return (
        wanted.agent in ("", turn.agent)
        and wanted.version in ("", turn.version)
        and wanted.error.casefold() in turn.error.casefold()
        and turn.invocation_id.startswith(wanted.invocation)
        and (turn.failed_tools > 0 or not wanted.failed_tools)
    )
