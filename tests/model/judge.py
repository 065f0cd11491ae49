"""Says of a history whether it is possible: what has to hold of sessions, turns and readers, rule by rule.

It knows docs/semantics.md, sections 2 and 6, and nothing of the code. The log that a fresh reader finds is the witness of the
order; everything else has to fit it. Each rule is a function over the story of one session, or over the whole history. Its
docstring begins with the heading in semantics.md under which the rule stands; `rules.md` lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.history import History
from tests.model.readers import READER_RULES
from tests.model.sessions import SESSION_RULES, USER_RULES
from tests.model.steering import STEERING_RULES
from tests.model.story import Story
from tests.model.tools import TOOL_RULES
from tests.model.turns import RUN_RULES, TURN_RULES

STORY_RULES = (*SESSION_RULES, *TURN_RULES, *READER_RULES, *TOOL_RULES, *STEERING_RULES)
HISTORY_RULES = (*USER_RULES, *RUN_RULES)


def problems(history: History) -> list[str]:
    """What is impossible in a history, in sentences that name the turn, the events, and the rule."""
    return [*_of_sessions(history), *_of_the_whole(history)]


def _of_sessions(history: History) -> Iterator[str]:
    for session in sorted({*history.found, *((ask.user, ask.session) for ask in history.asks if ask.session)}):
        story = Story(history, session)
        for rule in STORY_RULES:
            yield from (f"{'/'.join(session)}: {found} ({heading(rule)})" for found in rule(story))


def _of_the_whole(history: History) -> Iterator[str]:
    for rule in HISTORY_RULES:
        yield from (f"{found} ({heading(rule)})" for found in rule(history))


def heading(rule: object) -> str:
    """The heading under which a rule stands, such as "2 Ids and repeats"."""
    return (rule.__doc__ or "").partition(":")[0]
