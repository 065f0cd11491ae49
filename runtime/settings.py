"""Settings of a deployment, from the environment (prefix RAYGROVE_) or given to the Runtime."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from actors.messages.limits import DEFAULT_LIMITS, KIB, Limits, ModelLimits

LEAST_BYTES = 64 * KIB
"""The lowest limit for messages, events and state: an event that reports a failure must fit into it."""


class Settings(BaseSettings):
    """What can be set without changing the program.

    Attributes:
        data_dir: the folder of the default stores; relative to the driver's working directory.
        namespace: the Ray namespace of all actors.
        session_shards: how many Session actors share the sessions. Several need a store that takes several writers: PostgreSQL.
        runners: how many Runners share the sessions. Each has its own actors of the agents.
        max_concurrency: messages that one Ray actor handles at the same time.
        tool_threads: sync tools that may run at the same time in one agent's process.
        start_timeout_s: how long the Session actor and the Runner may take to answer for the first time.
        restart_timeout_s: how long requests wait for a Session actor or a Runner whose process or node was lost.
        stop_timeout_s: how long actors may take to stop before they are killed.
        spare_hosts: how many processes wait for agents that have none yet, with Ray and all code loaded; 0: none.
        max_live_agents: how many processes with agents a Runner has at most, not counting those that ask for resources of their
            own. Beyond it the agent that is idle longest is put to sleep, and when none is idle, processes are shared. None: as
            many as fit into half of the cluster's memory, but at least 16.
        idle_timeout_s: how long an agent without a run keeps its process.
        placement_timeout_s: how long an agent that asks for resources may wait for them and for its process to start.
        autoscaling: the cluster adds nodes as needed. Without it, an agent that asks for what no node has fails at once.
        store_timeout_s: how long a request waits for a store that is down, locked or full before it fails.
        log_to_driver: print what actors print on the driver's terminal.
        core_resources: amounts of Ray resources that the Session actor and the Runner take each, to be placed where those are.
        num_cpus: logical CPUs of a local Ray that the Runtime starts; None lets Ray count.
        max_message_bytes, max_event_bytes, max_state_bytes, max_inline_bytes: size limits, see Limits.
        model_limits: rate limits of models, by their names or by patterns such as `gemini-*`; in the environment as JSON.
        max_cache_bytes: memory of an actor for copies of what the store has, see Limits.
        max_listed_targets: agents that a model is given by name as transfer targets, see Limits.
    """

    model_config = SettingsConfigDict(env_prefix="RAYGROVE_", frozen=True, extra="forbid")

    data_dir: Path = Path(".raygrove")
    namespace: str = Field(default="raygrove", min_length=1)
    session_shards: int = Field(default=1, gt=0)
    runners: int = Field(default=1, gt=0)
    max_concurrency: int = Field(default=10_000, gt=0)
    tool_threads: int = Field(default=64, gt=0)
    start_timeout_s: float = Field(default=60.0, gt=0)
    restart_timeout_s: float = Field(default=60.0, gt=0)
    stop_timeout_s: float = Field(default=10.0, gt=0)
    spare_hosts: int = Field(default=2, ge=0)
    max_live_agents: int | None = Field(default=None, gt=0)
    idle_timeout_s: float = Field(default=600.0, gt=0)
    placement_timeout_s: float = Field(default=30.0, gt=0)
    autoscaling: bool = False
    store_timeout_s: float = Field(default=30.0, gt=0)
    log_to_driver: bool = True
    core_resources: dict[str, float] = {}
    num_cpus: int | None = Field(default=None, gt=0)
    max_message_bytes: int = Field(default=DEFAULT_LIMITS.max_message_bytes, ge=LEAST_BYTES)
    max_event_bytes: int = Field(default=DEFAULT_LIMITS.max_event_bytes, ge=LEAST_BYTES)
    max_state_bytes: int = Field(default=DEFAULT_LIMITS.max_state_bytes, ge=LEAST_BYTES)
    max_inline_bytes: int = Field(default=DEFAULT_LIMITS.max_inline_bytes, ge=0)
    model_limits: dict[str, ModelLimits] = {}
    max_cache_bytes: int = Field(default=DEFAULT_LIMITS.max_cache_bytes, ge=0)
    max_listed_targets: int = Field(default=DEFAULT_LIMITS.max_listed_targets, ge=0)

    @property
    def limits(self) -> Limits:
        """The size limits as one object."""
        return Limits(**{name: getattr(self, name) for name in Limits.__struct_fields__})
