"""A module of its own that looks at the events of a session, for callbacks of others."""

from __future__ import annotations

from typing import Any


def newest(context: Any) -> str:
    """Tell the author of the newest event."""
    return str(context.session.events[-1].author)


class Reader:
    """Looks at them by a method."""

    def newest(self, context: Any) -> str:
        """Tell the author of the newest event."""
        return newest(context)
