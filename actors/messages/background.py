"""Background runs: agents that work on in turns of their own, beside the conversation in which they were started."""

from __future__ import annotations

from typing import Literal

from actors.errors.hints import CheckedStruct
from actors.messages.shown import Shown

OnDone = Literal["speak", "wait", "state"]
"""What becomes of the end of a run: it is a message that begins a turn where none runs, one that waits for the next turn, or a
change of the state."""

RunStatus = Literal["running", "waiting", "done", "failed", "cancelled"]

ON_DONE: tuple[OnDone, ...] = ("speak", "wait", "state")

OVER: frozenset[RunStatus] = frozenset({"done", "failed", "cancelled"})


class Background(Shown, CheckedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent runs in the background.

    Attributes:
        on_done: what becomes of its end. "speak", the default: agents of a turn that runs read it before their next model call,
            and it begins a turn where none runs. "wait": it waits for the next turn. "state": it is written into the state under
            `run:` and the name of the agent when a turn reads it, and no model is shown it.
        most: runs of the session that may be under way at the same time; default 20.
        most_in_all: those of the whole conversation, with runs that runs have started; default 100.
        most_depth: how deep runs may start others; default 3.

    Raises:
        ValueError: a field is of another type, or out of range.
    """

    on_done: OnDone = "speak"
    most: int = 20
    most_in_all: int = 100
    most_depth: int = 3

    def __post_init__(self) -> None:
        if self.on_done not in ON_DONE:
            raise ValueError(f"Background.on_done must be one of {', '.join(map(repr, ON_DONE))}, not {self.on_done!r}")
        for name in ("most", "most_in_all", "most_depth"):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise ValueError(f"Background.{name} must be a whole number from 1 on, not {value!r}")


DEFAULT_BACKGROUND = Background()


class BackgroundRun(Shown, CheckedStruct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A background run as of one moment.

    Attributes:
        id: names it in its conversation.
        agent: the agent that runs.
        started_by: the agent that has started it.
        session_id: the session in which it was started; `run_session_id` is its own, which has its log.
        status: "running"; "waiting" for an answer of the user; "done", "failed" or "cancelled".
        started_s, ended_s: seconds since the epoch; 0: it has not ended.
        result: what the agent has said last.
        error: why it failed.
    """

    id: str
    agent: str
    started_by: str = ""
    session_id: str
    run_session_id: str
    status: RunStatus
    started_s: float = 0.0
    ended_s: float = 0.0
    result: str = ""
    error: str = ""

    @property
    def is_over(self) -> bool:
        """It has ended for good."""
        return self.status in OVER
