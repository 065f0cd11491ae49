"""The artifact store on any file system that fsspec knows: a local folder, memory, S3, Google Storage, …

Layout under the root, each component escaped:

    <app>/<user>/sessions/<session>/<name>/<version>
    <app>/<user>/shared/<name>/<version>                  for names that begin with `user:`

Rules of this file:

- A version is one file of MessagePack with the whole part in it; it appears complete or not at all.
- A version never replaces another. Of two savers with the same number, the second takes the next.
- Every id or name is one component: all characters with a meaning for file systems are percent-encoded.
- Capital letters of ids are encoded too, so that `Ada` and `ada` stay two users on a file system that ignores case.
"""

from __future__ import annotations

import hashlib
import operator
import os
import re
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

import fsspec  # type: ignore[import-untyped]
import msgspec
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]
from fsspec.registry import known_implementations  # type: ignore[import-untyped]

from actors.errors import ArtifactError, NotEncodableError, StoreError
from actors.interfaces.stores import ArtifactStore
from actors.messages.codec import decode, encode
from actors.messages.content import Part
from actors.messages.session import SessionKey
from runtime.private_files import make_folder, opener

USER_PREFIX = "user:"
"""Names of artifacts that all sessions of a user share begin so."""

LONGEST_COMPONENT = 200
"""Escaped names with more characters are replaced by a hash; most file systems take 255."""

_CAPITAL = re.compile("(?<!%)(?<!%.)[A-Z]")
"""A capital letter that does not belong to an escape."""

_USAGE = "use a folder, 'file://folder', 'memory://name', 's3://bucket/folder' or 'gs://bucket/folder'"


class _Saved(msgspec.Struct, frozen=True):
    """The contents of a version's file. The name is needed where the path has a hash instead."""

    filename: str
    part: Part


class FsspecArtifactStore(ArtifactStore):
    """Implements `ArtifactStore` on fsspec. Several processes may share one folder, if its file system has hard links.

    Args:
        url: a folder, `file://folder` (both absolute or relative), `memory://name`, or a URL of another file system
            whose package is installed, such as `s3://bucket/folder`.

    Raises:
        StoreError: the URL is of no known kind, or its package is missing.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._files, self._root = _file_system(url)
        self._saving = threading.Lock()

    def __str__(self) -> str:
        return f"artifact store {self._url!r}"

    def save(self, key: SessionKey, filename: str, part: Part) -> int:
        """Store a part and return its version, from 0.

        Raises:
            ArtifactError: the name is empty or no valid Unicode, or the part has neither inline data nor text.
            NotEncodableError: something in the part cannot be encoded.
            OSError: the file system failed.
        """
        folder = self._folder(key, filename)
        if part.inline_data is None and part.text is None:
            raise ArtifactError(filename, "the part to save has neither inline_data nor text")
        raw = _encoded(_Saved(filename, part))
        with self._saving:
            version = max(self._versions(folder), default=-1) + 1
            while not self._create(f"{folder}/{version}", raw):
                version += 1
        return version

    def load(self, key: SessionKey, filename: str, version: int | None = None) -> Part | None:
        """The part of that version, or the latest; None when there is none. Raises ArtifactError, OSError."""
        folder = self._folder(key, filename)
        # A version is a component of a path, so anything but an integer is refused here, with a TypeError.
        version = operator.index(version) if version is not None else max(self._versions(folder), default=-1)
        if version < 0:
            return None
        saved = self._read(f"{folder}/{version}", filename)
        return saved.part if saved is not None else None

    def keys(self, key: SessionKey) -> list[str]:
        """The names of all artifacts that a session sees, sorted. Raises ArtifactError, OSError."""
        folders = (self._session_folder(key), self._shared_folder(key))
        return sorted(
            name for folder in folders for entry in self._list(folder) if (name := self._name(folder, entry)) is not None
        )

    def versions(self, key: SessionKey, filename: str) -> list[int]:
        """All versions of an artifact, oldest first. Raises ArtifactError, OSError."""
        return self._versions(self._folder(key, filename))

    def delete(self, key: SessionKey, filename: str) -> None:
        """Remove an artifact with all its versions. A missing one is no error. Raises ArtifactError, OSError."""
        folder = self._folder(key, filename)
        with self._saving:
            if self._list(folder):
                self._files.rm(folder, recursive=True)

    def delete_session(self, key: SessionKey) -> int:
        """Remove all artifacts of a session; those that the user's sessions share stay. Returns how many there were."""
        return self._remove(self._session_folder(key), [self._session_folder(key)])

    def delete_user(self, app: str, user: str, sessions: Sequence[str] = ()) -> int:
        """Remove all artifacts of a user, those of deleted sessions and shared ones too. Returns how many there were.

        `sessions` need not be known here.
        """
        folder = self._user_folder(SessionKey(app, user, ""))
        of_sessions = [f"{folder}/sessions/{session}" for session in self._list(f"{folder}/sessions")]
        return self._remove(folder, [*of_sessions, f"{folder}/shared"])

    def _remove(self, folder: str, holders: Sequence[str]) -> int:
        """Remove a folder. Returns how many artifacts the folders in it hold."""
        with self._saving:
            count = sum(len(self._list(holder)) for holder in holders)
            if self._list(folder):
                self._files.rm(folder, recursive=True)
        return count

    def _session_folder(self, key: SessionKey) -> str:
        return f"{self._user_folder(key)}/sessions/{_component(key.session)}"

    def _shared_folder(self, key: SessionKey) -> str:
        return f"{self._user_folder(key)}/shared"

    def _user_folder(self, key: SessionKey) -> str:
        return f"{self._root}/{_component(key.app)}/{_component(key.user)}"

    def _folder(self, key: SessionKey, filename: str) -> str:
        if not filename.removeprefix(USER_PREFIX):
            raise ArtifactError(filename, "an artifact needs a name")
        shared = filename.startswith(USER_PREFIX)
        return f"{self._shared_folder(key) if shared else self._session_folder(key)}/{_component(filename, capitals=True)}"

    def _versions(self, folder: str) -> list[int]:
        return sorted(int(entry) for entry in self._list(folder) if entry.isdecimal())

    def _list(self, folder: str) -> list[str]:
        try:
            found = self._files.ls(folder, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        # Object stores list a folder's own marker among its entries.
        return [PurePosixPath(path).name for path in found if path.rstrip("/") != folder]

    def _name(self, folder: str, entry: str) -> str | None:
        versions = self._versions(f"{folder}/{entry}")
        if not versions:
            return None
        if not entry.startswith("="):
            return unquote(entry)
        saved = self._read(f"{folder}/{entry}/{versions[-1]}", entry)
        return saved.filename if saved is not None else None

    def _read(self, path: str, filename: str) -> _Saved | None:
        try:
            raw: bytes = self._files.cat_file(path)
        except FileNotFoundError:
            return None
        try:
            return decode(raw, _Saved)
        except msgspec.DecodeError as error:
            raise ArtifactError(filename, f"the file {path} holds no version of it: {error}") from error

    def _create(self, path: str, raw: bytes) -> bool:
        """Create a file with its contents. Returns False, and does nothing, when it exists."""
        try:
            if isinstance(self._files, LocalFileSystem):
                _create_local(Path(path), raw)
            else:
                # Other file systems, such as object stores, show a file only when it is complete.
                self._files.pipe_file(path, raw, mode="create")
        except FileExistsError:
            return False
        return True


def _encoded(saved: _Saved) -> bytes:
    raw = encode(saved)
    try:
        # Constructors check no types, and a version that cannot be decoded would make the others unreadable.
        decode(raw, _Saved)
    except msgspec.DecodeError as error:
        raise NotEncodableError(type(saved.part).__name__, str(error)) from error
    return raw


def _file_system(url: str) -> tuple[Any, str]:
    if not url:
        raise StoreError(f"the artifact store needs a URL: {_USAGE}")
    try:
        # No cache: another process may have saved since the last listing.
        files, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise StoreError(f"artifact store {url!r} needs a package that is missing: {_missing(url, error)}") from error
    except ValueError as error:
        raise StoreError(f"artifact store {url!r} cannot be used ({error}): {_USAGE}") from error
    return files, str(root).rstrip("/")


def _missing(url: str, error: ImportError) -> str:
    protocol = url.partition("://")[0]
    package = known_implementations.get(protocol, {}).get("class", "fsspec").partition(".")[0]
    return str(error) if package == "fsspec" else f"pip install {package}"


def _component(name: str, *, capitals: bool = False) -> str:
    # ASCII letters, digits, "_", "-" and inner "." stay; all else becomes %XX. quote() never leaves a "=", so it marks the empty
    # name and hashes. A dot at the end is encoded, so that no component is "." or "..".
    if not name:
        return "="
    try:
        escaped = quote(name, safe="").replace("~", "%7E")
    except UnicodeEncodeError as error:
        raise ArtifactError(name, f"a name or id must be text that UTF-8 can encode: {error.reason}") from error
    if escaped.endswith("."):
        escaped = escaped[:-1] + "%2E"
    if not capitals:
        escaped = _CAPITAL.sub(lambda letter: f"%{ord(letter[0]):X}", escaped)
    if len(escaped) > LONGEST_COMPONENT:
        return "=" + hashlib.sha256(name.encode()).hexdigest()
    return escaped


def _create_local(path: Path, raw: bytes) -> None:
    """Create a file; it is on disk when this returns. Raises FileExistsError."""
    make_folder(path.parent)
    draft = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with open(draft, "xb", opener=opener) as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        # A rename would replace the file of another process; a link raises FileExistsError.
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    if os.name == "nt":
        # Windows cannot open folders; its file systems have a journal for names.
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
