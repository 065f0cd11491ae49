"""What a program may name as its stores, where it names several."""

from __future__ import annotations

from collections.abc import Sequence

from actors.errors import DefinitionError
from actors.interfaces.stores import MemoryStore
from actors.layers.stores.session_store import SessionStore
from runtime.settings import Settings


def check_several(
    session_stores: Sequence[str | SessionStore], memory_stores: Sequence[str | MemoryStore] | None, settings: Settings
) -> None:
    """Check what is named as the stores of a deployment.

    Args:
        memory_stores: None: none is named.

    Raises:
        DefinitionError: there is no store; one is named twice; there are more or fewer memory stores; or the deployment has what
            goes with one store only.
    """
    if not session_stores:
        raise DefinitionError("session_store is an empty list: name one store, or several")
    number = len(session_stores)
    if memory_stores is not None and len(memory_stores) != number:
        raise DefinitionError(f"session_store names {number} stores, and memory_store {len(memory_stores)}: name one beside each")
    for what, named in (("session_store", session_stores), ("memory_store", memory_stores or ())):
        for place, store in enumerate(named):
            if any(store == other for other in named[:place]):
                raise DefinitionError(f"{what} names {store!r} twice: each store has the data of other users")
    if number > 1 and settings.daily_budget is not None:
        raise DefinitionError(
            f"daily_budget (RAYGROVE_DAILY_BUDGET) goes with one session store, and {number} are named: each knows only what its "
            "own users have used"
        )
