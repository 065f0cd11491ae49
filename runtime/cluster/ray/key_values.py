"""Values that Ray's control service keeps, as it keeps the arguments of actors: for as long as the cluster lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.cluster.ray.names import PrivateName

_LOST = "a deployment cannot be given another tree while it runs"
_PUT = PrivateName("ray.experimental.internal_kv", "_internal_kv_put", _LOST)
_GET = PrivateName("ray.experimental.internal_kv", "_internal_kv_get", _LOST)
_LIST = PrivateName("ray.experimental.internal_kv", "_internal_kv_list", _LOST)
_DELETE = PrivateName("ray.experimental.internal_kv", "_internal_kv_del", _LOST)

_NAMESPACE = b"raygrove"


class KeyValuesMissingError(Exception):
    """This version of Ray has no such values, or not as they are known here."""


def put_new(key: str, value: bytes) -> bool:
    """Keep a value under a key that has none. Returns False when it has one, which stays. Raises KeyValuesMissingError."""
    with _PUT.or_without():
        return not _PUT.find()(key.encode(), value, False, namespace=_NAMESPACE)
    raise KeyValuesMissingError(_LOST)


def put(key: str, value: bytes) -> None:
    """Keep a value under a key, in place of the one that it has. Without such values nothing is kept."""
    with _PUT.or_without():
        _PUT.find()(key.encode(), value, True, namespace=_NAMESPACE)


def value_of(key: str) -> bytes | None:
    """The value of a key; None when it has none, or this version of Ray keeps none."""
    with _GET.or_without():
        found: bytes | None = _GET.find()(key.encode(), namespace=_NAMESPACE)
        return found
    return None


def keys_below(prefix: str) -> Sequence[str]:
    """All keys that begin with a prefix, sorted; none where this version of Ray keeps no values."""
    with _LIST.or_without():
        found: Any = _LIST.find()(prefix.encode(), namespace=_NAMESPACE)
        return sorted(bytes(key).decode() for key in found)
    return ()


def delete(key: str) -> None:
    """Forget the value of a key. One that has none is no error."""
    with _DELETE.or_without():
        _DELETE.find()(key.encode(), namespace=_NAMESPACE)


def delete_below(prefix: str) -> None:
    """Forget the values of all keys that begin with a prefix."""
    with _DELETE.or_without():
        _DELETE.find()(prefix.encode(), del_by_prefix=True, namespace=_NAMESPACE)
