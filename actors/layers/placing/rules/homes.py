"""The store in which a user is, out of several: the same answer in every process, and after every restart.

Rules of this file:

- Each user has a home, by rendezvous hashing of app and user over the numbers of the stores. With one store more, only users of
  that store get another home.
- A user who is not at home stands in a note of the store at home, and of each store that the user has left. The note has a digest
  in place of the user's name, and the number of the next store to ask. It stays when the user's data are deleted.
"""

from __future__ import annotations

from hashlib import blake2b

from actors.messages.session import SessionKey
from actors.rules.capacity.sharding import shard_of

DIGEST_BYTES = 16
"""Length of a digest in a note: two of a billion users have the same one by a chance of one in 10 ** 20."""


def home_of(app: str, user: str, stores: int) -> int:
    """The number of the store in which a user is without a note, below `stores`."""
    # No app's name has such a character in it: the shards of one store are chosen by other values.
    return shard_of(SessionKey(f"store\0{app}", user, ""), stores)


def user_digest(app: str, user: str) -> bytes:
    """The bytes that stand in a note for a user."""
    return blake2b(f"{app}\0{user}".encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def digest_with(before: bytes, part: bytes) -> bytes:
    """The digest of a user's data with one part more.

    Args:
        before: the digest of the parts before it; b"" if it is the first.
    """
    return blake2b(before + part, digest_size=DIGEST_BYTES).digest()
