"""One deployment of an app owns a store: whether the next one takes it, waits, or is refused."""

from __future__ import annotations

import pytest

from runtime.stores.taking_over import STUCK_S, Presence, Verdict, verdict

HERE, LIVES, GONE, ELSEWHERE = Presence
TAKE, REFUSE, WAIT = Verdict


def judged(process: Presence, left_s: float, **more: object) -> Verdict:
    facts: dict[str, object] = {"is_renewed": False, "driver": None, "can_restart": True, **more}
    return verdict(left_s=left_s, process=process, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("process", [HERE, LIVES])
def test_an_owner_that_lives_here_refuses_at_once(process: Presence) -> None:
    assert judged(process, 10) is REFUSE


def test_an_owner_that_was_stopped_keeps_its_store_for_a_while() -> None:
    assert judged(LIVES, -STUCK_S + 1) is REFUSE
    assert judged(LIVES, -STUCK_S) is TAKE


def test_a_lease_that_this_process_has_left_runs_out() -> None:
    assert judged(HERE, 0) is TAKE


@pytest.mark.parametrize("process", list(Presence))
def test_a_deployment_whose_program_is_gone_is_gone_with_it(process: Presence) -> None:
    assert judged(process, 10, driver=GONE) is TAKE


@pytest.mark.parametrize("process", [GONE, ELSEWHERE])
def test_what_cannot_be_seen_is_told_by_the_lease(process: Presence) -> None:
    assert judged(process, 10) is WAIT
    assert judged(process, 10, is_renewed=True) is REFUSE
    assert judged(process, 0) is TAKE
    assert judged(process, 0, is_renewed=True) is TAKE


def test_what_is_gone_and_cannot_come_back_leaves_the_store_at_once() -> None:
    assert judged(GONE, 10, can_restart=False) is TAKE
    assert judged(ELSEWHERE, 10, can_restart=False) is WAIT
