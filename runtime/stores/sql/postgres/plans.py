"""How PostgreSQL plans the statements of a connection.

Commits and questions about keys find each row by an index, whatever their values are: their plans are made once. Left to itself
PostgreSQL plans such a statement anew for each few rows, which takes it longer than to run it; and a plan that it has made while
the tables were small, and reads them whole, it keeps until they are analyzed. Statements that people's lists are made of are
planned for their values, as always.
"""

from __future__ import annotations

_OF_KEYS = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

PLAN_BY_KEYS = "; ".join(f"SET {name} = {value}" for name, value in _OF_KEYS.items())
"""SQL: statements that follow find rows by keys."""

PLAN_BY_VALUES = "; ".join(f"RESET {name}" for name in _OF_KEYS)
"""SQL: statements that follow are planned as the server does by itself."""
