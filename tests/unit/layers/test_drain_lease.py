"""A deployment that drains takes no new turns until the lease is over, which is renewed or ended."""

from __future__ import annotations

from actors.errors import DrainingError
from actors.layers.draining import DrainLease


def test_a_lease_refuses_new_turns_until_it_is_over() -> None:
    lease = DrainLease()
    assert (lease.left_s(0.0), lease.refusal("desk", 0.0)) == (0.0, None)
    lease.renew(10.0, 5.0, 100.0)
    assert lease.left_s(104.0) == 6.0
    refusal = lease.refusal("desk", 109.9)
    assert isinstance(refusal, DrainingError)
    assert (
        str(refusal) == "app 'desk' is to be stopped and takes no new turns: ask again in 5.0 s, when its next deployment may run"
    )
    assert refusal.retry_after_s == 5.0
    assert lease.refusal("desk", 110.0) is None


def test_the_newest_word_counts() -> None:
    lease = DrainLease()
    lease.renew(10.0, 5.0, 0.0)
    lease.renew(2.0, 5.0, 1.0)
    assert lease.left_s(1.0) == 2.0
    lease.renew(0.0, 5.0, 1.5)
    assert lease.left_s(1.5) == 0.0


def test_what_was_asked_for_before_the_drain_is_not_new() -> None:
    lease = DrainLease()
    lease.renew(10.0, 5.0, 0.0)
    assert lease.refusal("desk", 1.0, 4.9) is None
    assert lease.refusal("desk", 1.0, 5.1) is not None
    assert lease.refusal("desk", 1.0, 0.0) is not None
