"""Whoever is lost at any message of turns whose budgets are used up, the user is asked and answers once."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.acceptance.losses.test_question_losses import LIMITS, check_from
from tests.support.fixtures.lossy_engine import Victim

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.mark.parametrize("field", LIMITS)
@pytest.mark.parametrize("who", get_args(Victim))
def test_at_every_message(who: Victim, field: str) -> None:
    check_from(0, who, field, step=1)
