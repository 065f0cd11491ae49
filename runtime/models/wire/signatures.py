"""Signatures of thoughts, marked with the service that made them. Pure.

A signature means something only to the service that made it, and others refuse a conversation that holds one. Gemini's are kept
as they come, so they have no mark.
"""

from __future__ import annotations

_ANTHROPIC = b"anthropic:"
_ANTHROPIC_REDACTED = b"anthropic-redacted:"


def signed_by_anthropic(signature: str, *, redacted: bool = False) -> bytes:
    """A signature of Anthropic's as a content keeps it; or, with `redacted`, the whole of a thought that is not shown."""
    return (_ANTHROPIC_REDACTED if redacted else _ANTHROPIC) + signature.encode()


def anthropic_signature(kept: bytes | None) -> str | None:
    """Anthropic's signature in what a content keeps; None for that of another service."""
    return kept.removeprefix(_ANTHROPIC).decode() if kept is not None and kept.startswith(_ANTHROPIC) else None


def anthropic_redacted(kept: bytes | None) -> str | None:
    """A thought that Anthropic does not show, in what a content keeps; None if it is something else."""
    if kept is None or not kept.startswith(_ANTHROPIC_REDACTED):
        return None
    return kept.removeprefix(_ANTHROPIC_REDACTED).decode()


def is_foreign_to_gemini(kept: bytes) -> bool:
    """True for what another service than Gemini has signed."""
    return kept.startswith((_ANTHROPIC, _ANTHROPIC_REDACTED))
