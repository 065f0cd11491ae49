"""The pytest plugin by its former name, which an installation in place keeps until it is installed again."""

from __future__ import annotations

pytest_plugins = ["raygrove.plugin.hooks"]
"""pytest loads these in place of this module."""
