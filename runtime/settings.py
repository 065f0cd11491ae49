"""Settings of a deployment, from the environment (prefix RAYGROVE_) or given to the Runtime."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Never

from pydantic import Field, PlainValidator, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from actors.errors import DefinitionError
from actors.errors.hints import did_you_mean
from actors.layers.limiter.limits import ModelLimits
from actors.messages.config import Budget, Limits
from actors.messages.costs import Price

HOSTS_PER_CORE = 4
"""Processes with agents for each core: agents wait for models most of the time, but each process costs half a second of CPU."""

HEAD = "node:__internal_head__"
"""A resource of Ray's head node, of which there is 1."""

PREFIX = "RAYGROVE_"
"""How the names of settings begin in the environment."""

OTHER_NAMES = ("RAYGROVE_TEST_", "RAYGROVE_VECTORS")
"""Beginnings of variables that are no settings: those of tests."""

DAY_S = 86_400.0
"""Seconds of a day."""


def to_budget(given: object) -> Budget | None:
    """A budget as settings have it: one, or a dictionary of its fields, or JSON. Raises ValueError."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            raise ValueError(f'it has to be JSON, such as {{"money": 20}}, not {given!r}') from None
    if isinstance(given, Mapping):
        try:
            return Budget(**given)
        except TypeError as error:
            raise ValueError(str(error)) from None
    if given is None or isinstance(given, Budget):
        return given
    raise ValueError(f"it is a Budget, or a dictionary of its fields, not {given!r}")


class _Variables(EnvSettingsSource):
    """The environment. It looks only at settings that have a variable, and not at each as the library does: 4 ms a time."""

    def __call__(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            if f"{PREFIX}{name}".lower() not in self.env_vars:
                continue
            value, _, is_complex = self.get_field_value(field, name)
            try:
                given[name] = self.prepare_field_value(name, field, value, is_complex)
            except ValueError as error:
                raise SettingsError(f'the variable of "{name}" cannot be read') from error
        return given


class Settings(Limits, BaseSettings):
    """What can be set without changing the program. Limits are settings, too, as they stand in `Limits`.

    Attributes:
        data_dir: the folder of the default stores; relative to the driver's working directory.
        namespace: the Ray namespace of all actors.
        session_shards: how many Session actors share the sessions. Several need a store that takes several writers: PostgreSQL.
        runners: how many Runners share the sessions. Each has its own actors of the agents.
        standby_runners: each Runner has a second process that stands by, with one for agents, and takes its place at once when it
            is lost. Without it Ray starts the Runner again.
        standby_sessions: each Session actor has a second process that stands by, and takes its place at once when it is lost.
            Without it Ray starts the Session actor again.
        max_concurrency: messages that one Ray actor handles at the same time.
        tool_threads: sync tools and callbacks that may run at the same time in one agent's process; those of ended runs do not
            count.
        start_timeout_s: how long the Session actor and the Runner may take to answer for the first time.
        restart_timeout_s: how long requests wait each time that the process or node of a Session actor or a Runner is lost.
        stop_timeout_s: how long actors may take to stop before they are killed.
        spare_hosts: how many processes wait for agents that have none yet, with Ray and all code loaded; 0: none.
        max_live_agents: how many processes with agents a Runner has at most, not counting those that ask for resources of their
            own. Agents beyond it live side by side in them. None: 4 for each core of the cluster, as far as they fit into half of
            its memory, but at least 8; several Runners share them.
        idle_timeout_s: how long an agent without a run keeps its place in a process.
        transport: how messages between processes travel: "direct", over connections of their own, or "ray", as calls of Ray's.
        direct_ports: the TCP ports on which processes listen for those of other nodes, such as "20000-20100"; None: any.
        placement_timeout_s: how long an agent that asks for resources may wait for them and for its process to start.
        autoscaling: the cluster adds nodes as needed. Without it, an agent that asks for what no node has fails at once.
        host_cpus: CPUs that each process of agents claims of Ray, if its agents ask for no more: an autoscaler adds a node for a
            process that fits on none. None: 0.25 with `autoscaling`, as there may be 4 processes for each core, else 0.
        store_timeout_s: how long a request waits for a store that is down, locked or full before it fails.
        log_to_driver: what agents log and print reaches the program that starts the deployment.
        log_level: from which level on agents log, such as "INFO"; None: the levels that the program's loggers have at the start.
        log_format: of lines in log files, and in programs that have not configured `logging`; "json" makes an object of each.
        telemetry: a function, as `module:function`, that is called once in each process of the deployment: it puts an SDK of
            OpenTelemetry in place. None: where the variables `OTEL_EXPORTER_OTLP_…` ask for an SDK, we do.
        ray_metrics: figures and durations go to Ray's own metrics as well, on nodes that have `ray[default]`.
        log_dir: the folder of log files, on each node; None: a folder beside Ray's logs.
        core_resources: amounts of Ray resources that the Session actor and the Runner take each, to be placed where those are. If
            it is empty, and `core_label_selector` too, with `autoscaling` they are placed on the head, since no other node is
            sure to stay.
        core_label_selector: labels that their nodes have, in Ray's syntax, such as `{"role": "core"}`.
        agent_resources: amounts of Ray resources that each process for any agent takes, to be placed where those are.
        agent_label_selector: labels that its node has. Without both, nodes without CPUs have such processes only where no other
            node is.
        local_ray: how a Ray starts that the Runtime starts itself: "light", with fewer processes, and workers that are forked
            and so share memory; or "plain", as Ray has it, and as on every cluster.
        num_cpus: logical CPUs of a local Ray that the Runtime starts; None lets Ray count.
        record_requests: of how many turns the requests to models are recorded: "off", "on", or a share such as 0.1.
        record_requests_days: how long records of requests are kept, in days; None: as long as their session.
        daily_budget: how much all turns of the app that began since midnight, by UTC, may use, as a Budget or a dictionary of its
            fields; in the environment as JSON. None: no limit.
        model_limits: rate limits of models, by their names or by patterns such as `gemini-*`; in the environment as JSON.
        prices: what tokens of models cost, by names or patterns as in `model_limits`; in the environment as JSON. All have one
            currency.
        env: environment variables for the processes of the deployment, such as keys of models: a dictionary, or a list of names
            that have their values in this program's environment. No value is logged, printed or given to programs that join. On
            Ray they travel to the cluster, as definitions do.

    Raises:
        DefinitionError: a setting is unknown or has a wrong value; or the environment has a name RAYGROVE_… that is no setting.
            The message names it.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    data_dir: Path = Path(".raygrove")
    namespace: str = Field(default="raygrove", min_length=1)
    session_shards: int = Field(default=1, gt=0)
    runners: int = Field(default=1, gt=0)
    standby_runners: bool = False
    standby_sessions: bool = False
    max_concurrency: int = Field(default=10_000, gt=0)
    tool_threads: int = Field(default=64, gt=0)
    start_timeout_s: float = Field(default=60.0, gt=0)
    restart_timeout_s: float = Field(default=60.0, gt=0)
    stop_timeout_s: float = Field(default=10.0, gt=0)
    spare_hosts: int = Field(default=2, ge=0)
    max_live_agents: int | None = Field(default=None, gt=0)
    idle_timeout_s: float = Field(default=600.0, gt=0)
    transport: Literal["direct", "ray"] = "direct"
    direct_ports: str | None = None
    placement_timeout_s: float = Field(default=30.0, gt=0)
    autoscaling: bool = False
    host_cpus: float | None = Field(default=None, ge=0)
    store_timeout_s: float = Field(default=30.0, gt=0)
    log_to_driver: bool = True
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] | None = None
    log_format: str = "%(asctime)s %(levelname)s %(agent)s %(name)s: %(message)s"
    log_dir: Path | None = None
    telemetry: str | None = None
    ray_metrics: bool = True
    core_resources: dict[str, float] = {}
    core_label_selector: dict[str, str] = {}
    agent_resources: dict[str, float] = {}
    agent_label_selector: dict[str, str] = {}
    local_ray: Literal["light", "plain"] = "light"
    num_cpus: int | None = Field(default=None, gt=0)
    record_requests: float = Field(default=0.0, ge=0, le=1)
    record_requests_days: float | None = Field(default=30.0, gt=0)
    model_limits: dict[str, ModelLimits] = {}
    prices: dict[str, Price] = {}
    daily_budget: Annotated[Budget | None, PlainValidator(to_budget)] = None
    env: dict[str, SecretStr] = {}

    def __init__(self, *unnamed: Never, **given: Any) -> None:
        if unnamed:
            raise DefinitionError("Settings takes its fields by name: write Settings(data_dir=…)")
        _refuse_unknown_variables(type(self).model_fields, os.environ)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise DefinitionError(f"Settings: {'; '.join(_problems(error, given))}") from None
        except SettingsError as error:
            raise DefinitionError(f"Settings: {_no_json(error)}") from None

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let values that are given go before the environment, and have no other sources."""
        return init_settings, _Variables(settings_cls)

    @field_validator("env", mode="before")
    @classmethod
    def _values_of_names(cls, given: object) -> object:
        if not isinstance(given, list | tuple | set):
            return given
        missing = [str(name) for name in given if name not in os.environ]
        if missing:
            raise ValueError(f"{', '.join(missing)} is not in the environment of this program")
        return {name: os.environ[name] for name in given}

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of `env`, with their values."""
        return {name: value.get_secret_value() for name, value in self.env.items()}

    def with_variables(self, variables: Mapping[str, str]) -> Settings:
        """The same settings with these environment variables."""
        return self.model_copy(update={"env": {name: SecretStr(value) for name, value in variables.items()}})

    @field_validator("direct_ports")
    @classmethod
    def _is_range(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"\d{1,5}(-\d{1,5})?", value):
            raise ValueError(f"{value!r} is no range of ports: write it as '20000-20100'")
        return value

    @field_validator("prices")
    @classmethod
    def _has_one_currency(cls, value: dict[str, Price]) -> dict[str, Price]:
        currencies = sorted({price.currency for price in value.values()})
        if len(currencies) > 1:
            raise ValueError(f"prices are in {' and '.join(currencies)}: give all in one currency, so that they can be added up")
        return value

    @field_validator("telemetry")
    @classmethod
    def _is_function(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*", value):
            raise ValueError(f"{value!r} names no function: write it as 'package.module:function'")
        return value

    @field_validator("record_requests", mode="before")
    @classmethod
    def _is_share(cls, value: object) -> object:
        named = {"off": 0.0, "on": 1.0}.get(value.lower(), value) if isinstance(value, str) else value
        try:
            return float(named)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise ValueError('it has to be "off", "on" or a share of the turns such as 0.1') from None

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("log_format")
    @classmethod
    def _is_format(cls, value: str) -> str:
        if value != "json":
            logging.Formatter(value)
        return value

    @property
    def keep_requests_s(self) -> float | None:
        """The seconds for which records of requests are kept; None: as long as their session."""
        return self.record_requests_days * DAY_S if self.record_requests_days is not None else None

    @property
    def core_claims(self) -> dict[str, float]:
        """Resources that the Session actor and the Runner take each: those that are set, or if none are, where they stay."""
        is_free = not self.core_resources and not self.core_label_selector
        return {HEAD: 0.001} if is_free and self.autoscaling else self.core_resources

    @property
    def claimed_cpus(self) -> float:
        """The CPUs that each process of agents claims of Ray at least."""
        return self.host_cpus if self.host_cpus is not None else 1 / HOSTS_PER_CORE if self.autoscaling else 0.0

    @property
    def limits(self) -> Limits:
        """The limits of sizes and lines as one object."""
        return Limits.model_construct(**{name: getattr(self, name) for name in Limits.model_fields})


def _refuse_unknown_variables(fields: Mapping[str, object], environ: Mapping[str, str]) -> None:
    """Check that every variable that looks like a setting is one: a name that is misspelt would change nothing."""
    valid = {field.upper() for field in fields}
    for name in sorted(environ):
        upper = name.upper()
        setting = upper.removeprefix(PREFIX)
        if upper.startswith(PREFIX) and setting not in valid and not upper.startswith(OTHER_NAMES):
            # Compared without the prefix, which all of them share.
            hint = did_you_mean(setting, valid).replace("'", f"'{PREFIX}", 1) or " docs/reference.md lists all of them."
            raise DefinitionError(f"the environment variable {name} is no setting.{hint}")


def _problems(error: ValidationError, given: Mapping[str, object]) -> list[str]:
    """Each wrong setting with its name as the user has written it, its value, and what would be right."""
    found = []
    for detail in error.errors():
        field, *inside = map(str, detail["loc"]) if detail["loc"] else ("settings",)
        is_of_environment = field not in given and field in Settings.model_fields
        name = f"{PREFIX}{field}".upper() if is_of_environment else field
        where = "".join(f"[{each!r}]" for each in inside)
        # Values of `env` are keys and passwords.
        value = "" if field == "env" or detail["type"] == "extra_forbidden" else f"={detail['input']!r}"
        reason = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            reason = f"there is no such setting.{did_you_mean(field, Settings.model_fields)}"
        found.append(f"{name}{where}{value}: {reason}")
    return found


def _no_json(error: SettingsError) -> str:
    """Tell which variable should be JSON; pydantic names only the field."""
    named = [field for field in Settings.model_fields if f'"{field}"' in str(error)]
    if not named:
        return str(error)
    name = f"{PREFIX}{named[0]}".upper()
    value = "" if named[0] == "env" else f"={os.environ.get(name)!r}"
    return f"{name}{value}: it has to be JSON, such as {_JSON_EXAMPLES.get(named[0], '{}')}"


_JSON_EXAMPLES = {
    "core_resources": '{"core": 1}',
    "core_label_selector": '{"role": "core"}',
    "agent_resources": '{"agents": 1}',
    "agent_label_selector": '{"role": "agents"}',
    "model_limits": '{"gemini-*": {"max_concurrency": 8}}',
    "user_weights": '{"batch-*": 1, "desk": 4}',
    "prices": '{"gemini-*": {"input": 0.5, "output": 3}}',
    "env": '["OPENAI_API_KEY"]',
}
