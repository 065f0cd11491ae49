"""The tables of older versions, as those versions created them, with a conversation in them.

Written by hand and never changed, since stores on users' disks do not change either. The statements are those that the version
ran; the words in angle brackets differ between the two databases.
"""

from __future__ import annotations

from typing import Any

from actors.messages.codec import encode

_V1 = (
    """CREATE TABLE raygrove_schema (version INTEGER NOT NULL, PRIMARY KEY (version))""",
    """CREATE TABLE raygrove_sessions (
        sid <sid>, app <text> NOT NULL, "user" <text> NOT NULL, session <text> NOT NULL, rewinds INTEGER NOT NULL,
        created_s <double> NOT NULL, updated_s <double> NOT NULL, UNIQUE (app, "user", session))""",
    """CREATE TABLE raygrove_events (
        sid <int> NOT NULL, seq BIGINT NOT NULL, id <text> NOT NULL, invocation_id <text> NOT NULL, author <text> NOT NULL,
        timestamp <double> NOT NULL, hidden BOOLEAN DEFAULT false NOT NULL, undo <bytes>, raw <bytes> NOT NULL,
        PRIMARY KEY (sid, seq), UNIQUE (sid, id),
        FOREIGN KEY(sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE)""",
    """CREATE INDEX raygrove_events_by_author ON raygrove_events (sid, author, seq) WHERE hidden IS <false>""",
    """CREATE TABLE raygrove_calls (
        sid <int> NOT NULL, call_id <text> NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (sid, call_id, seq),
        FOREIGN KEY(sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE)<rowid>""",
    """CREATE TABLE raygrove_turns (
        sid <int> NOT NULL, invocation_id <text> NOT NULL, status <text> NOT NULL, epoch BIGINT NOT NULL,
        first_seq BIGINT NOT NULL, opened_seq BIGINT NOT NULL, agent <text> NOT NULL, outcome <bytes> NOT NULL,
        temp <bytes> NOT NULL, PRIMARY KEY (sid, invocation_id),
        FOREIGN KEY(sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE)""",
    """CREATE INDEX raygrove_turns_running ON raygrove_turns (sid) WHERE status = 'running'""",
    """CREATE TABLE raygrove_session_state (
        sid <int> NOT NULL, key <text> NOT NULL, value <bytes> NOT NULL, PRIMARY KEY (sid, key),
        FOREIGN KEY(sid) REFERENCES raygrove_sessions (sid) ON DELETE CASCADE)""",
    """CREATE TABLE raygrove_shared_state (
        app <text> NOT NULL, "user" <text> NOT NULL, key <text> NOT NULL, value <bytes> NOT NULL,
        PRIMARY KEY (app, "user", key))""",
    """INSERT INTO raygrove_schema (version) VALUES (1)""",
)

_MEMORY_V1 = (
    """CREATE TABLE raygrove_memory_schema (version INTEGER NOT NULL, PRIMARY KEY (version))""",
    """CREATE TABLE raygrove_memory (
        id INTEGER NOT NULL, app TEXT NOT NULL, "user" TEXT NOT NULL, session TEXT NOT NULL, timestamp DOUBLE NOT NULL,
        words TEXT, raw BLOB NOT NULL, PRIMARY KEY (id))""",
    """CREATE INDEX raygrove_memory_by_session ON raygrove_memory (app, "user", session)""",
    """CREATE VIRTUAL TABLE raygrove_memory_words USING fts5(owner, words)""",
    """INSERT INTO raygrove_memory_schema (version) VALUES (1)""",
)

_TYPES = {
    "sqlite": {
        "<sid>": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT",
        "<int>": "INTEGER",
        "<rowid>": " WITHOUT ROWID",
        "<text>": "TEXT",
        "<double>": "DOUBLE",
        "<bytes>": "BLOB",
        "<false>": "0",
    },
    "postgresql": {
        "<sid>": "BIGSERIAL PRIMARY KEY",
        "<int>": "BIGINT",
        "<rowid>": "",
        "<text>": 'TEXT COLLATE "C"',
        "<double>": "DOUBLE PRECISION",
        "<bytes>": "BYTEA",
        "<false>": "false",
    },
}


def version_1(dialect: str) -> list[str]:
    """The statements that made a session store of version 1."""
    return [_typed(statement, dialect) for statement in _V1]


def memory_version_1() -> list[str]:
    """The statements that made a memory store of version 1 on SQLite."""
    return list(_MEMORY_V1)


def rows_of_version_1(raws: list[bytes]) -> list[tuple[str, tuple[Any, ...]]]:
    """Rows of a session `s1` of user `ada` in the app `test`, whose log is `raws`, with `?` for each value.

    The first event is the user's, the others are of the agent `root`; a turn is paused with the state `temp:step: 2`;
    state has `seen: 1`, and `user:name: Ada`.
    """
    events: list[tuple[str, tuple[Any, ...]]] = [
        (
            "INSERT INTO raygrove_events (sid, seq, id, invocation_id, author, timestamp, raw) VALUES (1, ?, ?, ?, ?, ?, ?)",
            (seq, f"old-{seq}", "e-old", "user" if seq == 1 else "root", float(seq), raw),
        )
        for seq, raw in enumerate(raws, start=1)
    ]
    return [
        (
            'INSERT INTO raygrove_sessions (app, "user", session, rewinds, created_s, updated_s) VALUES (?, ?, ?, 0, 1.0, 2.0)',
            ("test", "ada", "s1"),
        ),
        *events,
        (
            "INSERT INTO raygrove_turns VALUES (1, 'e-old', 'finished', 1, 1, 1, 'root', ?, ?)",
            (encode({"type": "Finished", "agent": "root"}), b""),
        ),
        ("INSERT INTO raygrove_turns VALUES (1, 'e-paused', 'paused', 1, 1, 1, 'root', ?, ?)", (b"", encode({"step": 2}))),
        ("INSERT INTO raygrove_session_state VALUES (1, 'seen', ?)", (encode(1),)),
        ("INSERT INTO raygrove_shared_state VALUES ('test', 'ada', 'name', ?)", (encode("Ada"),)),
    ]


def _typed(statement: str, dialect: str) -> str:
    for mark, type_ in _TYPES[dialect].items():
        statement = statement.replace(mark, type_)
    return statement
