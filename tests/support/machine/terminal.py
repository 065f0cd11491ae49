"""What a test writes to the terminal."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Writes a line to the terminal: the fixture `tell`."""
