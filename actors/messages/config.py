"""Options of a turn and of background runs, and the limits of a deployment."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from actors.errors import InvalidMessageError, NotEncodableError
from actors.errors.hints import CheckedStruct
from actors.messages.codec import flaw
from actors.messages.content import Content, content_flaw
from actors.messages.drafts import own_content
from actors.messages.json_types import JsonObject
from actors.messages.shown import Shown

Streaming = Literal["none", "sse"]
OnConcurrentTurn = Literal["enqueue", "steer", "reject", "interrupt"]
AtLimit = Literal["stop", "ask", "wrap_up"]

# Each turn's options are decoded several times, so the valid values are looked up once.
_STREAMING: tuple[str, ...] = get_args(Streaming)
_ON_CONCURRENT_TURN: tuple[str, ...] = get_args(OnConcurrentTurn)
AT_LIMIT: tuple[str, ...] = get_args(AtLimit)
"""What may happen where a budget is used up, beside calls of another model."""

AMOUNTS = ("tokens", "money", "llm_calls", "tool_calls", "seconds")
"""The fields of a Budget that are limits."""

if TYPE_CHECKING:
    InputContext = Sequence[Any]
else:
    InputContext = list[Content]
    """Contents, of which a RunConfig takes other forms, too."""

MAX_AMOUNT = 2**53
"""The largest limit: every reader of JSON has whole numbers up to there."""

BUDGETS = ("budget", "session_budget", "user_daily_budget", "app_daily_budget")
"""The fields of a RunConfig that are budgets of all agents together."""

_NO_BUDGETS = (None,) * (len(BUDGETS) + 1)


class Budget(Shown, CheckedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """How much may be used: by a turn, pauses and retries included, by an agent in it, a session, or a user or an app in a day.

    What is left out has no limit.

    A model call that would go beyond it is refused before it is made, and so are calls of tools. What is under way counts as
    what it is likely to take.

    Attributes:
        tokens: of all models: input, output and reasoning.
        money: by the prices of the settings, in their currency. A model without a price is refused.
        llm_calls: model calls that were answered.
        tool_calls: calls of tools.
        seconds: how long model calls and tools took, added up where they ran at the same time.
        at_limit: what happens to a call for which there is no room. "stop", the default, fails the turn; "ask" pauses it, and
            asks whether it gets more; "wrap_up" lets each agent call its model once more, and asks that to end.
        model: the name of a model that is called in place of the agent's where there is no room for that; "": none is.

    Raises:
        ValueError: a field is of another type, or less than 0; or no limit is given.
    """

    tokens: int | None = None
    money: float | None = None
    llm_calls: int | None = None
    tool_calls: int | None = None
    seconds: float | None = None
    at_limit: AtLimit = "stop"
    model: str = ""

    def __post_init__(self) -> None:
        given = self.limits
        if not given:
            raise ValueError(f"Budget takes at least one of {', '.join(AMOUNTS)}")
        if self.at_limit not in AT_LIMIT:
            values = ", ".join(map(repr, AT_LIMIT))
            raise ValueError(f"Budget.at_limit must be one of {values}, not {reprlib.repr(self.at_limit)}")
        if not isinstance(self.model, str):
            raise ValueError(f"Budget.model must be the name of a model, not {reprlib.repr(self.model)}")
        if self.model and self.at_limit != "stop":
            raise ValueError(f"Budget takes either model or at_limit={self.at_limit!r}: a call of another model stops nothing")
        if self.model and self.tool_calls is not None:
            raise ValueError("Budget.tool_calls needs a Budget without model: another model makes no call of a tool cheaper")
        for name, limit in given.items():
            is_number = type(limit) is int or (type(limit) is float and name in ("money", "seconds"))
            if not is_number or not 0 <= limit < math.inf:
                kind = "a number" if name in ("money", "seconds") else "a whole number"
                raise ValueError(f"Budget.{name} must be {kind} from 0 on, or None, not {reprlib.repr(limit)}")
            if limit > MAX_AMOUNT:
                raise ValueError(f"Budget.{name} must be {MAX_AMOUNT} at most, or None, not {reprlib.repr(limit)}")

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are given, by the names of their fields."""
        return {name: limit for name in AMOUNTS if (limit := getattr(self, name)) is not None}


class RunConfig(Shown, CheckedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of one turn (semantics.md section 2).

    Attributes:
        streaming: "sse" delivers partial events too, before each complete response; "none", the default, complete ones only.
        max_llm_calls: model calls of all agents of the turn together; one more fails it. Default 500; 0 or less is no limit.
        max_transfers: transfers of the turn; one more fails it. Default 32.
        timeout: seconds after which the turn is cancelled; default None, for never.
        save_input_blobs_as_artifacts: save inline data of the message as artifacts instead of in the log; default False.
        on_concurrent_turn: what to do when another turn of the session runs. "enqueue", the default, waits until it has ended;
            "steer" gives the message to that turn, whose agents read it before their next model call, and begins a turn if none
            has read it by the end; "reject" raises SessionBusyError; "interrupt" cancels it.
        custom_metadata: a JSON object that is stored on the user's event; default None.
        budget: how much the turn may use in all; default None, for no limit. A turn that is answered or retried keeps its
            budgets, unless it is given others.
        session_budget: how much the turns of the session may use together, when this turn adds to it; default None.
        user_daily_budget: how much the user's turns that began since midnight, by UTC, may use together, when this turn adds to
            it; default None.
        app_daily_budget: how much the app's turns that began since midnight, by UTC, may use together, when this turn adds to it;
            default None. A deployment that has a daily budget gives that to every turn.
        agent_budgets: by the names of agents, how much each of them may use in the turn, with all agents below it and those that
            it has as tools; default None.
        model_input_context: what the models of the turn are shown beside the conversation, right before the message that began
            the turn: contents, google-genai's or ours, their dictionaries, or texts. They are no events, so later turns do not
            have them. A turn that is answered or retried keeps them, unless it is given others. Default None.
        agent: the agent that gets the message, in the tree or as a tool of an agent in it; default "", for the one that is
            selected. A turn that is answered or retried goes on where it is.

    Raises:
        ValueError: a field is of another type, out of range, or not one of its values; the message names what is right.
    """

    streaming: Streaming = "none"
    max_llm_calls: int = 500
    max_transfers: int = 32
    timeout: float | None = None
    save_input_blobs_as_artifacts: bool = False
    on_concurrent_turn: OnConcurrentTurn = "enqueue"
    custom_metadata: JsonObject | None = None
    budget: Budget | None = None
    session_budget: Budget | None = None
    user_daily_budget: Budget | None = None
    app_daily_budget: Budget | None = None
    agent_budgets: dict[str, Budget] | None = None
    model_input_context: InputContext | None = None
    agent: str = ""

    def __post_init__(self) -> None:
        # Other kinds of numbers have no wire form, and a bool is an int to isinstance.
        if type(self.max_llm_calls) is not int:
            raise _wrong_type("max_llm_calls", "an int", self.max_llm_calls)
        if type(self.max_transfers) is not int:
            raise _wrong_type("max_transfers", "an int", self.max_transfers)
        if self.timeout is not None and type(self.timeout) is not float and type(self.timeout) is not int:
            raise _wrong_type("timeout", "a number of seconds or None", self.timeout)
        if type(self.save_input_blobs_as_artifacts) is not bool:
            raise _wrong_type("save_input_blobs_as_artifacts", "a bool", self.save_input_blobs_as_artifacts)
        if self.custom_metadata is not None and type(self.custom_metadata) is not dict:
            raise _wrong_type("custom_metadata", "a dict or None", self.custom_metadata)
        if type(self.agent) is not str:
            raise _wrong_type("agent", "the name of an agent", self.agent)
        # Each process that a turn goes through decodes its options, and most have no budgets.
        if (self.budget, self.session_budget, self.user_daily_budget, self.app_daily_budget, self.agent_budgets) != _NO_BUDGETS:
            self._check_budgets()
        if self.model_input_context is not None:
            msgspec.structs.force_setattr(self, "model_input_context", _contents(self.model_input_context))
        if self.streaming not in _STREAMING:
            raise _wrong_value("streaming", self.streaming, _STREAMING)
        if self.on_concurrent_turn not in _ON_CONCURRENT_TURN:
            raise _wrong_value("on_concurrent_turn", self.on_concurrent_turn, _ON_CONCURRENT_TURN)
        if self.max_transfers < 0:
            raise ValueError(f"RunConfig.max_transfers must be 0 or more, not {self.max_transfers}")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"RunConfig.timeout must be more than 0 seconds or None, not {self.timeout}")
        if self.custom_metadata and (wrong := flaw(self.custom_metadata)) is not None:
            raise ValueError(f"RunConfig.custom_metadata cannot be stored: {wrong}")

    def _check_budgets(self) -> None:
        for name in BUDGETS:
            if (budget := getattr(self, name)) is not None and not isinstance(budget, Budget):
                raise _wrong_type(name, "a Budget, such as Budget(tokens=…), or None", budget)
        agents = self.agent_budgets or {}
        if type(agents) is not dict or not all(type(name) is str and isinstance(each, Budget) for name, each in agents.items()):
            raise _wrong_type("agent_budgets", "a dict such as {'writer': Budget(tokens=…)}", agents)

    @property
    def budgets(self) -> list[Budget]:
        """The budgets that limit what the turn uses."""
        if not (self.budget or self.session_budget or self.user_daily_budget or self.app_daily_budget or self.agent_budgets):
            return []
        given = (getattr(self, name) for name in BUDGETS)
        return [*(budget for budget in given if budget is not None), *(self.agent_budgets or {}).values()]

    @property
    def outlives_pauses(self) -> bool:
        """True when some of the options hold for what comes after a pause, too."""
        return bool(self.budgets or self.model_input_context or self.agent)

    @property
    def asks_for_more(self) -> bool:
        """True when the turn may pause to ask for more of a budget."""
        budgets = self.budgets
        return bool(budgets) and any(budget.at_limit == "ask" for budget in budgets)

    def after(self, before: RunConfig | None) -> RunConfig:
        """The options of a turn that goes on with these, and had others before.

        It keeps their budgets, their context for models and their agent where it gets none.
        """
        if before is None or not before.outlives_pauses:
            return self
        kept = {name: getattr(before, name) for name in (*BUDGETS, "model_input_context") if getattr(self, name) is None}
        kept["agent_budgets"] = self.agent_budgets or before.agent_budgets
        kept["agent"] = self.agent or before.agent
        return msgspec.structs.replace(self, **kept)


DEFAULT_RUN_CONFIG = RunConfig()
"""The options of a turn that is given none. As this very object they take no bytes in a message, and are checked once."""


def _contents(given: object) -> list[Content]:
    where = "RunConfig.model_input_context"
    if type(given) not in (list, tuple):
        raise _wrong_type("model_input_context", "a list of contents or texts, or None", given)
    made: list[Content] = []
    for each in cast("Iterable[object]", given):
        try:
            content = Content.of_text(each) if isinstance(each, str) else own_content(each)
        except (TypeError, InvalidMessageError, NotEncodableError) as error:
            raise ValueError(f"{where}: {error}") from None
        if content.is_empty():
            raise ValueError(f"{where} has a content that says nothing: leave it out")
        if (wrong := content_flaw(content)) is not None:
            raise ValueError(f"{where} cannot be sent: {wrong}")
        if any(content.function_calls()) or any(content.function_responses()):
            raise ValueError(f"{where} has a function call or response, which stands in conversations only: tell it as a text")
        made.append(content)
    return made


def _wrong_type(field: str, right: str, value: object) -> ValueError:
    return ValueError(f"RunConfig.{field} must be {right}, not {reprlib.repr(value)}")


def _wrong_value(field: str, value: str, valid: tuple[str, ...]) -> ValueError:
    return ValueError(f"RunConfig.{field} must be one of {', '.join(map(repr, valid))}, not {value!r}")


OnDone = Literal["speak", "wait", "state"]
"""What becomes of the end of a run: it is a message that begins a turn where none runs, one that waits for the next turn, or a
change of the state."""

ON_DONE: tuple[OnDone, ...] = ("speak", "wait", "state")


class Background(Shown, CheckedStruct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent runs in the background.

    Attributes:
        on_done: what becomes of its end. "speak", the default: agents of a turn that runs read it before their next model call,
            and it begins a turn where none runs. "wait": it waits for the next turn. "state": it is written into the state under
            `run:` and the name of the agent when a turn reads it, and no model is shown it.
        most: runs of the session that may be under way at the same time; default 20.
        most_in_all: those of the whole conversation, with runs that runs have started; default 100.
        most_depth: how deep runs may start others; default 3.

    Raises:
        ValueError: a field is of another type, or out of range.
    """

    on_done: OnDone = "speak"
    most: int = 20
    most_in_all: int = 100
    most_depth: int = 3

    def __post_init__(self) -> None:
        if self.on_done not in ON_DONE:
            raise ValueError(f"Background.on_done must be one of {', '.join(map(repr, ON_DONE))}, not {self.on_done!r}")
        for name in ("most", "most_in_all", "most_depth"):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise ValueError(f"Background.{name} must be a whole number from 1 on, not {value!r}")


DEFAULT_BACKGROUND = Background()


KIB = 1024
MIB = 1024 * KIB

LEAST_BYTES = 64 * KIB
"""The lowest limit for messages, events and state: an event that reports a failure must fit into it."""


def add_defaults(unpickled: BaseModel) -> None:
    """Give an object the defaults of the fields that the release which has pickled it did not have."""
    for name, field in type(unpickled).model_fields.items():
        if name not in unpickled.__dict__ and not field.is_required():
            unpickled.__dict__[name] = field.get_default(call_default_factory=True)


class Limits(BaseModel):
    """Sizes of requests, events, state, caches, prompts and lines. Each is a setting of the same name, RAYGROVE_….

    Bytes are those of the encoded form.

    Attributes:
        max_message_bytes: a request of a driver with all its data, such as a turn's message; default 32 MiB.
        max_event_bytes: an event as it is stored; default 4 MiB.
        max_state_bytes: each of the states of a session, of a user, of the app, and of a turn (`temp:`); default 1 MiB.
        max_inline_bytes: data in a model's response that stays in the log; larger data is saved as an artifact. Default 64 KiB.
        max_result_bytes: a tool's result; a larger one is saved as an artifact, and its model gets its beginning, its end and the
            artifact's name. Default 256 KiB; 0: any that an event may have.
        results_wait_s: how long the result of a tool waits for those of the calls beside it, to be stored in one event with them.
            What has ended and is not stored runs again after a loss. Default 0.1; 0: each is stored when it ends.
        empty_answer_retries: how often a model is asked again that says nothing, or calls a tool in a form that its service
            cannot read. Default 1.
        max_cache_bytes: memory on a node for what can be read from the store again, of all the deployment's processes there
            together: what Session actors know of sessions, and what agents do. One of them may take what the others leave, and
            at least an even share; entries in use count too, but are never evicted. Default 256 MiB.
        max_listed_targets: transfer targets that are listed in a model's instruction; an agent with more targets gets a tool to
            find them. Default 64.
        max_listed_tools: tools of searchable toolsets that a model is shown; an agent with more gets a tool to find them. Default
            64.
        max_waiting_turns, max_waiting_user_turns, max_waiting_session_turns: turns that were asked for and have not begun,
            of one Runner; more are refused with OverloadedError. Default 50,000, 10,000 and 1,000.
        max_waiting_bytes, max_waiting_user_bytes: of their messages. Default 512 and 128 MiB.
        max_waiting_requests: requests of programs that only ask, such as lists of sessions, that wait at one Session actor; more
            are refused with OverloadedError. Default 10,000.
        user_weights: by a user's id, or a pattern such as `batch-*`: how many of its turns, and of its calls of limited models,
            are taken in a row when others wait, too. Default 1.
        max_user_schedules: schedules of a user. Default 1,000.
        min_schedule_interval_s: seconds between two due times of a schedule, at least. Default 10.
        max_schedule_ahead_days: days until a schedule is due first. Default 3,660.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_message_bytes: int = Field(default=32 * MIB, ge=LEAST_BYTES)
    max_event_bytes: int = Field(default=4 * MIB, ge=LEAST_BYTES)
    max_state_bytes: int = Field(default=MIB, ge=LEAST_BYTES)
    max_inline_bytes: int = Field(default=64 * KIB, ge=0)
    max_result_bytes: int = Field(default=256 * KIB, ge=0)
    results_wait_s: float = Field(default=0.1, ge=0)
    empty_answer_retries: int = Field(default=1, ge=0)
    max_cache_bytes: int = Field(default=256 * MIB, ge=0)
    max_listed_targets: int = Field(default=64, ge=0)
    max_listed_tools: int = Field(default=64, ge=1)
    max_waiting_turns: int = Field(default=50_000, ge=1)
    max_waiting_user_turns: int = Field(default=10_000, ge=1)
    max_waiting_session_turns: int = Field(default=1_000, ge=1)
    max_waiting_bytes: int = Field(default=512 * MIB, ge=LEAST_BYTES)
    max_waiting_user_bytes: int = Field(default=128 * MIB, ge=LEAST_BYTES)
    max_waiting_requests: int = Field(default=10_000, ge=1)
    user_weights: Mapping[str, Annotated[int, Field(ge=1)]] = {}
    max_user_schedules: int = Field(default=1_000, ge=0)
    min_schedule_interval_s: int = Field(default=10, ge=1)
    max_schedule_ahead_days: int = Field(default=3_660, ge=1)

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Take what was pickled, maybe by an older release: limits that it did not have are as by default."""
        super().__setstate__(state)
        add_defaults(self)


DEFAULT_LIMITS = Limits()
"""The limits of a deployment that sets none."""
