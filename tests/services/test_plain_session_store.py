"""The plain store, with which the others are compared, keeps the contract itself."""

from __future__ import annotations

import pytest

from actors.layers.stores.parts import SessionStore
from tests.support.stores.plain_session_store import PlainStore
from tests.support.stores.session_store_conformance import SessionStoreConformance


class TestPlainStore(SessionStoreConformance):
    @pytest.fixture
    def store(self) -> SessionStore:
        return PlainStore()
