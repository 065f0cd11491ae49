"""Structs that users make, and that say which field was meant when one is misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.errors.calls import unexpected

_MetaOfStructs = type(msgspec.Struct)


class _CheckedMeta(_MetaOfStructs):  # type: ignore[misc, valid-type]
    """Calls of the class itself: decoding and `structs.replace` do not come here."""

    if not TYPE_CHECKING:
        # Type checkers know the fields from the struct.
        def __call__(cls, *unnamed, **named):
            try:
                return _MetaOfStructs.__call__(cls, *unnamed, **named)
            except TypeError:
                fields = cls.__struct_fields__
                for name in named:
                    if name not in fields:
                        raise TypeError(unexpected(cls.__name__, name, fields)) from None
                raise


if TYPE_CHECKING:
    CheckedStruct = msgspec.Struct
else:

    class CheckedStruct(msgspec.Struct, metaclass=_CheckedMeta):
        """The base of structs that programs make with fields by name.

        Values that actors make by the thousand, such as events, have msgspec's own base: this one costs more than their making.
        """
