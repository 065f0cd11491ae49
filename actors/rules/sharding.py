"""Which of several actors of a kind serves a session: the same answer in every process, and after every restart.

By rendezvous hashing: every shard has a weight for a session, computed from nothing but the session's key and the shard's number,
and the heaviest serves it. With one shard more, or one fewer, only sessions of that shard move. Sessions of background runs are
served with the one in which the first of them was started, so that one actor has all of a conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from actors.messages.session import SessionKey, Shard, conversation_of

_WORD = (1 << 64) - 1


def shard_of(key: SessionKey, shards: int) -> int:
    """The number of the shard that serves a session, below `shards`."""
    return heaviest(key, range(shards))


def heaviest(key: SessionKey, shards: Sequence[int]) -> int:
    """The one of some shards that serves a session."""
    if len(shards) == 1:
        return shards[0]
    # No id has such a character in it, so no two keys have the same text.
    name = _number("\0".join((key.app, key.user, conversation_of(key.session))))
    return max(shards, key=lambda shard: _mixed(name + (shard + 1) * 0x9E3779B97F4A7C15))


def is_in_share(name: str, share: float) -> bool:
    """True for so large a share of all names, from 0 to 1; with a larger share for these names, too."""
    return _number(name) < share * 2.0**64


def _number(name: str) -> int:
    """The digest of a name, of 64 bits."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _mixed(word: int) -> int:
    """SplitMix64's last step: each bit of the result depends on all bits of the word."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)


def all_shards(count: int) -> list[Shard]:
    """The shards of so many actors, in order."""
    return [Shard(index, count) for index in range(count)]


def shard_name(name: str, shard: Shard) -> str:
    """The name of the actor that serves a shard: with the shard's number, unless it is the only one."""
    return name if shard.of == 1 else f"{name}-{shard.index}"


def holds(shard: Shard, key: SessionKey) -> bool:
    """True when the session belongs to the shard."""
    return shard_of(key, shard.of) == shard.index
