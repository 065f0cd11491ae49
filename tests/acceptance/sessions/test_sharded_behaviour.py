"""What holds with one Session actor and one Runner holds with several: tests of theirs, in deployments that have more."""

# ruff: noqa: F401 - the imported tests run here

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.operating.test_forks import (
    test_a_fork_has_all_up_to_the_end_of_a_turn_and_goes_its_own_way,
    test_a_paused_turn_waits_in_its_fork_and_each_is_answered_by_itself,
)
from tests.acceptance.sessions.test_concurrent_turns import (
    test_a_cancelled_turn_is_sealed_whatever_still_works_in_a_thread,
    test_a_running_turn_can_be_joined_from_its_first_event_and_from_behind_it,
    test_a_second_turn_waits_in_line_and_is_refused_when_it_asks_for_that,
    test_a_turn_can_interrupt_the_one_that_runs,
    test_a_turn_that_has_hardly_begun_or_waits_in_line_can_be_cancelled,
    test_on_an_event_loop_too_leaving_cancels,
    test_sessions_do_not_wait_for_each_other,
    test_whoever_joins_a_turn_that_talks_all_the_time_hears_all_of_it,
)
from tests.acceptance.sessions.test_conversations import (
    test_a_rewind_restores_state_and_history_and_deletes_nothing,
    test_a_streamed_answer_is_told_in_pieces_and_stored_once,
    test_a_turn_can_be_told_again_from_any_place,
    test_an_agent_that_was_handed_the_conversation_keeps_it_until_it_hands_it_on,
    test_another_runtime_goes_on_where_the_first_one_stopped,
    test_each_scope_is_seen_where_it_belongs,
    test_everything_works_on_an_event_loop_too,
    test_sessions_are_created_read_listed_and_deleted,
    test_temp_state_is_for_one_turn_and_all_its_agents_and_never_stored,
    test_the_same_invocation_id_is_the_same_turn_and_is_told_from_its_first_event,
)
from tests.acceptance.sessions.test_many_sessions import test_ten_sessions_at_once_do_not_mix_state_history_or_branches
from tests.acceptance.sessions.test_memory import (
    test_memory_outlives_its_session_until_it_is_deleted_itself,
    test_nobody_finds_what_another_user_has_said,
    test_what_was_said_in_a_session_is_found_from_another_one,
)
from tests.acceptance.workflows.test_workflows_paused import (
    test_a_loop_goes_on_at_its_iteration_and_child,
    test_another_process_goes_on_over_the_same_store,
)
from tests.support.sharded_runtimes import ShardedDeploy

pytestmark = pytest.mark.sampled(4, of="module")


@pytest.fixture
def deploy(server: str, tmp_path: Path) -> ShardedDeploy:
    return ShardedDeploy("local", tmp_path, server)
