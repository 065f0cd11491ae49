"""Pickles in two parts: what many values have in common, once, and what each has of its own, which may refer to it.

A tree may have a hundred thousand agents that differ in their models only. Pickled one by one, each would look up the same
classes, and carry the same tools.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import Any

from ray import cloudpickle

from runtime.cluster.packing.importing import IMPORTING


class SharedPickle:
    """A pickled value, and the means to pickle others that have objects in common with it.

    Attributes:
        raw: the value, pickled.
    """

    def __init__(self, value: object) -> None:
        self._file = BytesIO()
        self._pickler = _pickler(self._file)
        self._pickler.dump(value)
        self.raw = self._file.getvalue()
        self._own: Any | None = None

    def dumps(self, own: object) -> bytes:
        """Pickle another value, for `load_both`: objects that are in the first one are not in these bytes again.

        Raises what pickling raises.
        """
        if self._own is None:
            self._own = _pickler(self._file)
            # A plain one: that of cloudpickle is searched by code in Python, which takes as long as the rest of a small pickle.
            self._own.dispatch_table = dict(self._own.dispatch_table)
        self._file.seek(0)
        self._file.truncate()
        # As if it had just pickled the first value: what both have in common stays one object, and so do globals of functions.
        self._own.memo = self._pickler.memo
        self._own.globals_ref = dict(self._pickler.globals_ref)
        self._own.dump(own)
        return self._file.getvalue()


def _pickler(file: BytesIO) -> Any:
    return cloudpickle.Pickler(file)  # type: ignore[no-untyped-call]


def load_both(shared: bytes, own: bytes) -> tuple[Any, Any]:
    """The value of a SharedPickle, and another that it has pickled. It imports modules, and may raise whatever they raise."""
    unpickler = pickle.Unpickler(BytesIO(shared + own))
    with IMPORTING:
        return unpickler.load(), unpickler.load()
