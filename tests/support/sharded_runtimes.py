"""Deployments of several Session actors and Runners, on a PostgreSQL server."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import psycopg

from actors import BaseAgent, Flow
from actors.messages.session import SessionKey
from actors.rules.sharding import shard_of
from runtime import Runtime, Settings
from tests.support.runtimes import Deploy

SHARDS, RUNNERS = 3, 2


class ShardedDeploy(Deploy):
    """Makes Runtimes of several Session actors and Runners.

    Args:
        url: of a PostgreSQL server; each object has tables of its own there.
    """

    def __init__(self, engine: str, folder: Path, url: str) -> None:
        super().__init__(engine, folder)
        self.url = own_tables(url)

    def __call__(self, root: BaseAgent | Flow | None, **options: Any) -> Runtime:
        given: Settings = options.pop("settings", Settings())
        settings = given.model_copy(update={"session_shards": SHARDS, "runners": RUNNERS})
        return super().__call__(root, **{"session_store": self.url, "settings": settings, **options})


def own_tables(server: str) -> str:
    """The URL of a schema of its own on a server."""
    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return f"{server}{'&' if '?' in server else '?'}options=-csearch_path%3D{schema}"


def one_session_per_shard(app: str, user: str, actors: int) -> list[str]:
    """Ids of sessions, each of which another one of so many actors serves, in their order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < actors:
        session = f"s{number}"
        found.setdefault(shard_of(SessionKey(app, user, session), actors), session)
        number += 1
    return [found[actor] for actor in range(actors)]
