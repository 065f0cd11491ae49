"""Artifacts: files beside a conversation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.responses import Response

from actors.messages.content import Blob, Part
from runtime.frontends.web.call import Call, json_response
from runtime.frontends.web.operation import HttpOperation
from runtime.frontends.web.problems import BadRequestError, HttpError, NotFoundError

BYTES = "application/octet-stream"
TEXT = "text/plain; charset=utf-8"

_MEDIA_TYPE = re.compile(r"[\w.+\-]+/[\w.+\-]+(\s*;\s*[\w\-]+=[\w.\-]+)*", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)

# What users have stored is data, and never a page of this site.
_AS_DATA = {
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Accept-Ranges": "bytes",
    "Cache-Control": "private, no-cache",
}


class ArtifactNames(msgspec.Struct, frozen=True, kw_only=True):
    """The names of all artifacts that a session sees; those of all sessions of the user begin with `user:`."""

    names: Sequence[str]


class ArtifactVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The version of an artifact that was stored, from 0."""

    name: str
    version: int


class ArtifactVersions(msgspec.Struct, frozen=True, kw_only=True):
    """All versions of an artifact, oldest first."""

    versions: Sequence[int]


class VersionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which version; null: the latest."""

    version: Annotated[int, msgspec.Meta(ge=0)] | None = None


async def list_artifacts(call: Call) -> ArtifactNames:
    """List the names of all artifacts that a session sees."""
    return ArtifactNames(names=await call.runtime.aio.artifacts.list_keys(call.user_id, call.session_id))


async def list_versions(call: Call) -> ArtifactVersions:
    """List the versions of an artifact."""
    versions = await call.runtime.aio.artifacts.list_versions(call.user_id, call.session_id, call.path("name"))
    return ArtifactVersions(versions=versions)


async def save_artifact(call: Call) -> Response:
    """Store the body, which may be empty, as a new version of an artifact; its `Content-Type` is kept."""
    media_type = call.request.headers.get("content-type", BYTES)
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise BadRequestError(f"Content-Type must be a media type such as image/png, not {media_type!r}")
    part = Part(inline_data=Blob(data=await call.raw_body(), mime_type=media_type))
    name = call.path("name")
    version = await call.runtime.aio.artifacts.save(call.user_id, call.session_id, name, part)
    place = call.url("sessions", call.session_id, "artifacts", name)
    return json_response(ArtifactVersion(name=name, version=version), 201, {"Location": place, "ETag": f'"{version}"'})


async def load_artifact(call: Call) -> Response:
    """Read an artifact, or a `Range` of it. Its `ETag` is its version."""
    name, artifacts = call.path("name"), call.runtime.aio.artifacts
    version = call.query(VersionQuery).version
    if version is None:
        versions: Sequence[int] = await artifacts.list_versions(call.user_id, call.session_id, name)
        version = versions[-1] if versions else 0
    tag = f'"{version}"'
    part = await artifacts.load(call.user_id, call.session_id, name, version)
    if part is None:
        raise NotFoundError(f"there is no version {version} of artifact {name!r} in session {call.session_id!r}")
    if tag in {each.strip() for each in call.request.headers.get("if-none-match", "").split(",")}:
        return Response(status_code=304, headers={"ETag": tag})
    data, media_type = _bytes_of(part)
    return _ranged(data, call.request.headers.get("range", ""), {**_AS_DATA, "ETag": tag, "Content-Type": media_type})


def _bytes_of(part: Part) -> tuple[bytes, str]:
    """The bytes of an artifact and their media type. One that is neither data nor text is given as JSON."""
    if part.inline_data is not None:
        given = part.inline_data.mime_type or BYTES
        return part.inline_data.data, given if _MEDIA_TYPE.fullmatch(given) else BYTES
    if part.text is not None:
        return part.text.encode(), TEXT
    return msgspec.json.encode(part), "application/json"


def _ranged(data: bytes, wanted: str, headers: dict[str, str]) -> Response:
    found = _RANGE.fullmatch(wanted.strip())
    if found is None or found[0] == "bytes=-":
        # Several ranges, and other units, may be ignored.
        return Response(data, headers=headers)
    size = len(data)
    if found[1]:
        first, last = int(found[1]), min(int(found[2]) if found[2] else size - 1, size - 1)
    else:
        first, last = max(size - int(found[2]), 0), size - 1
    if first > last:
        raise HttpError(416, f"the artifact has {size} bytes", {"Content-Range": f"bytes */{size}"})
    return Response(data[first : last + 1], 206, {**headers, "Content-Range": f"bytes {first}-{last}/{size}"})


async def delete_artifact(call: Call) -> None:
    """Delete an artifact with all its versions; one that is missing is no error."""
    await call.runtime.aio.artifacts.delete(call.user_id, call.session_id, call.path("name"))


_ARTIFACTS = "/v1/apps/{app}/sessions/{session}/artifacts"
_ARTIFACT = f"{_ARTIFACTS}/{{name}}"

OPERATIONS = [
    HttpOperation("GET", _ARTIFACTS, list_artifacts, gives=ArtifactNames),
    HttpOperation("GET", f"{_ARTIFACT}/versions", list_versions, gives=ArtifactVersions),
    HttpOperation("PUT", _ARTIFACT, save_artifact, takes_media=[BYTES], gives=ArtifactVersion, status=201),
    HttpOperation("GET", _ARTIFACT, load_artifact, query=VersionQuery, gives_media=[BYTES]),
    HttpOperation("DELETE", _ARTIFACT, delete_artifact, status=204),
]
"""What can be done with artifacts."""
