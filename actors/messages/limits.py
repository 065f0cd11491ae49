"""Limits of a deployment: sizes of what it takes in."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

KIB = 1024
MIB = 1024 * KIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of requests, events, state, caches, prompts and lines. Each is a setting of the same name, RAYGROVE_….

    Bytes are those of the encoded form.

    Attributes:
        max_message_bytes: a request of a driver with all its data, such as a turn's message; default 32 MiB.
        max_event_bytes: an event as it is stored; default 4 MiB.
        max_state_bytes: each of the states of a session, of a user, of the app, and of a turn (`temp:`); default 1 MiB.
        max_inline_bytes: data in a model's response that stays in the log; larger data is saved as an artifact. Default 64 KiB.
        max_result_bytes: a tool's result; a larger one is saved as an artifact, and its model gets its beginning, its end and the
            artifact's name. Default 256 KiB; 0: any that an event may have.
        results_wait_s: how long the result of a tool waits for those of the calls beside it, to be stored in one event with them.
            What has ended and is not stored runs again after a loss. Default 0.1; 0: each is stored when it ends.
        empty_answer_retries: how often a model is asked again that says nothing, or calls a tool in a form that its service
            cannot read. Default 1.
        max_cache_bytes: memory on a node for what can be read from the store again, of all the deployment's processes there
            together: what Session actors know of sessions, and what agents do. One of them may take what the others leave, and
            at least an even share; entries in use count too, but are never evicted. Default 256 MiB.
        max_listed_targets: transfer targets that are listed in a model's instruction; an agent with more targets gets a tool to
            find them. Default 64.
        max_listed_tools: tools of searchable toolsets that a model is shown; an agent with more gets a tool to find them. Default
            64.
        max_waiting_turns, max_waiting_user_turns, max_waiting_session_turns: turns that were asked for and have not begun,
            of one Runner; more are refused with OverloadedError. Default 50,000, 10,000 and 1,000.
        max_waiting_bytes, max_waiting_user_bytes: of their messages. Default 512 and 128 MiB.
        max_waiting_requests: requests of programs that only ask, such as lists of sessions, that wait at one Session actor; more
            are refused with OverloadedError. Default 10,000.
        user_weights: by a user's id, or a pattern such as `batch-*`: how many of its turns, and of its calls of limited models,
            are taken in a row when others wait, too. Default 1.
        max_user_schedules: schedules of a user. Default 1,000.
        min_schedule_interval_s: seconds between two due times of a schedule, at least. Default 10.
        max_schedule_ahead_days: days until a schedule is due first. Default 3,660.
    """

    max_message_bytes: int = 32 * MIB
    max_event_bytes: int = 4 * MIB
    max_state_bytes: int = MIB
    max_inline_bytes: int = 64 * KIB
    max_result_bytes: int = 256 * KIB
    results_wait_s: float = 0.1
    empty_answer_retries: int = 1
    max_cache_bytes: int = 256 * MIB
    max_listed_targets: int = 64
    max_listed_tools: int = 64
    max_waiting_turns: int = 50_000
    max_waiting_user_turns: int = 10_000
    max_waiting_session_turns: int = 1_000
    max_waiting_bytes: int = 512 * MIB
    max_waiting_user_bytes: int = 128 * MIB
    max_waiting_requests: int = 10_000
    user_weights: Mapping[str, int] = {}
    max_user_schedules: int = 1_000
    min_schedule_interval_s: int = 10
    max_schedule_ahead_days: int = 3_660


DEFAULT_LIMITS = Limits()
"""The limits of a deployment that sets none."""
