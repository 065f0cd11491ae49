"""Asserts outside of test modules tell what they compared, too."""

import pytest

pytest.register_assert_rewrite("tests.acceptance.areas", "tests.acceptance.controlflow", "tests.acceptance.played")
