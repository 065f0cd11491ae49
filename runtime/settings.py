"""Settings of a deployment, from the environment (prefix RAYGROVE_) or given to the Runtime."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """What can be set without touching the program.

    Attributes:
        data_dir: where the default stores keep their files; relative to the driver's working directory.
        namespace: the Ray namespace of all actors.
        max_concurrency: messages that one Ray actor handles at the same time.
        tool_threads: sync tools that may run at the same time in one agent's process.
        start_timeout_s: how long the Session actor and the Runner may take to answer for the first time.
        stop_timeout_s: how long actors may take to stop before they are killed.
        store_timeout_s: how long a store that is away, locked or full is waited for before what needs it fails.
        log_to_driver: print what actors print on the driver's terminal.
        num_cpus: logical CPUs of a local Ray that the Runtime starts; None lets Ray count.
    """

    model_config = SettingsConfigDict(env_prefix="RAYGROVE_", frozen=True, extra="forbid")

    data_dir: Path = Path(".raygrove")
    namespace: str = Field(default="raygrove", min_length=1)
    max_concurrency: int = Field(default=10_000, gt=0)
    tool_threads: int = Field(default=64, gt=0)
    start_timeout_s: float = Field(default=60.0, gt=0)
    stop_timeout_s: float = Field(default=10.0, gt=0)
    store_timeout_s: float = Field(default=30.0, gt=0)
    log_to_driver: bool = True
    num_cpus: int | None = Field(default=None, gt=0)
