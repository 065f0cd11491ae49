"""The plain store itself: what the others are compared with must do what the contract says."""

from __future__ import annotations

import pytest

from actors.interfaces.stores import SessionStore
from tests.services.store_conformance import SessionStoreConformance
from tests.services.store_model import PlainStore


class TestPlainStore(SessionStoreConformance):
    @pytest.fixture
    def store(self) -> SessionStore:
        return PlainStore()
