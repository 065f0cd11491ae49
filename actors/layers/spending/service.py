"""Budgets and usage as a service of the Session actor: what was used the log says, and what is under way is reserved here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from actors.actor import Handlers
from actors.errors import BudgetExceededError, InvocationNotFoundError
from actors.interfaces.stores import Write
from actors.interfaces.telemetry import tell_event
from actors.layers.spending.accounts import BudgetAccounts, last_call_of
from actors.layers.spending.messages import (
    MOST_TURNS,
    AskForMore,
    DoWithout,
    GetTurnBudgets,
    GetUsage,
    MaySpend,
    ReserveSpending,
    TurnBudgetsReply,
    UsageReply,
    UsageReport,
    UsageSums,
    UsedBudget,
    UsedTurn,
)
from actors.layers.spending.rules.budgets import (
    Account,
    Allowed,
    Decision,
    LeftOut,
    Questioned,
    Refused,
    decide_call,
    decide_tools,
    end_text,
    facts_of,
    if_room,
    likely_call,
    used_of,
    warning_of,
)
from actors.layers.spending.rules.report import DAY_S, CostlyTurns, UsageCollector, groups_of
from actors.layers.spending.stored_usage import DaySums, StoredUsage, SumsOfToday
from actors.layers.spending.turn_spending import Spending
from actors.layers.stores.records import TurnId, TurnName, UsageFilter
from actors.messages import protocol as p
from actors.messages.costs import BudgetWarning, Price
from actors.messages.event import now_s
from actors.messages.session import SessionKey
from actors.rules.accounting import minus, unpacked
from actors.session.log.open_turn import SessionTurn
from actors.session.log.session_log import SessionLog
from actors.session.log.writer import Events
from actors.session.service import SessionParts, SessionService
from actors.session.turns.lookup import TurnLookup

COUNTED_OF_BUDGETS = (
    "budget_warnings",
    "budget_refusals",
    "budget_questions",
    "budget_wrap_ups",
    "budget_other_models",
    "budget_left_out",
)
"""What is counted of budgets."""

MAY_GO_ON = ("paused", "failed")
"""States of turns that have ended and keep their options."""


class SpendingService(SessionService):
    """Answers ReserveSpending, GetTurnBudgets and GetUsage.

    What a turn has used is the fold of its events, so it is the same whatever was lost. What is reserved is lost with this actor:
    each agent may have one call under way by then, which is counted once its response is in the log.
    """

    def __init__(self, parts: SessionParts) -> None:
        parts.counts.update(dict.fromkeys(COUNTED_OF_BUDGETS, 0))
        self._counts = parts.counts
        self._logs = parts.logs
        self._reader = parts.reader
        self._lookup = TurnLookup(parts)
        self._prices = parts.environment.prices
        self._stored = stored = StoredUsage(parts)
        today = SumsOfToday(lambda user: DaySums(stored, parts.logs, has_others=parts.shard.of > 1, user=user))
        today.on_wanted = partial(parts.writer.track, today.track, today.note)
        self._accounts = BudgetAccounts(parts.versions.topology, stored, today)
        self._warnings = BudgetWarnings(self._prices)
        parts.append_hooks.append(_end_call)

    def handlers(self) -> Handlers:
        """Its messages."""
        return {
            ReserveSpending: self.reserve,
            GetTurnBudgets: self.get_turn_budgets,
            GetUsage: self.get_usage,
        }

    async def reserve(self, message: ReserveSpending) -> MaySpend | AskForMore | DoWithout:
        """Reserve what a model call is likely to take, or let calls of tools be run; or say what is to be done instead.

        Raises:
            BudgetExceededError: a budget has no room for it.
            NoPriceError: it is one of money, and the model has no price.
            FencedError: the turn is not open, or was given to another Runner, or the run was abandoned.
            StoreError: the log had to be loaded, or other turns to be looked at, and could not be.
        """
        _, turn = await self._lookup.current(message.turn)
        others = await self._accounts.read(message.turn.key, turn)
        # The store may have taken its time.
        log, turn = await self._lookup.current(message.turn)
        at_s = asyncio.get_running_loop().time()
        accounts = self._accounts.accounts(message, turn, others, at_s)
        if message.model:
            wanted = partial(likely_call, turn.ledger.spent, message.agent, input_tokens=message.input_tokens)
            needed = decide_call(accounts, wanted, message.model, self._prices)
            decision: Decision | LeftOut = if_room(needed) if message.is_optional else needed
        else:
            decision = decide_tools(accounts, message.tool_calls)
        warnings = self._warnings.new(message.turn.key, turn, accounts)
        self._counts["budget_warnings"] += len(warnings)
        match decision:
            case Refused(account, (field, limit, used, more)):
                self._counts["budget_refusals"] += 1
                raise BudgetExceededError(message.agent, field, limit, round(used, 6), round(more, 6), account.whose)
            case LeftOut(account):
                self._counts["budget_left_out"] += 1
                return DoWithout(whose=account.whose, warnings=warnings)
            case Questioned(account):
                self._counts["budget_questions"] += 1
                return AskForMore(scope=account.scope, facts=facts_of(decision, message.agent), warnings=warnings)
            case Allowed(call, wraps_up):
                self._counts["budget_wrap_ups"] += len(wraps_up)
                if call is not None and accounts:
                    Spending.of(turn).reserved[message.turn.run] = (call, at_s)
                if wraps_up:
                    # On disk before the agent hears of it: an heir of this actor does not tell it once more.
                    steps = turn.ledger.steps.get(message.agent, 0)
                    Spending.of(turn).last_calls |= {last_call_of(each, message.agent): steps for each, _ in wraps_up}
                    await self._logs.write(log, [log.put_turn(turn.record())])
                instead = call.model if call is not None and call.model != message.model else ""
                self._counts["budget_other_models"] += bool(instead)
                return MaySpend(model=instead, end=end_text(wraps_up), warnings=warnings)

    async def get_turn_budgets(self, message: GetTurnBudgets) -> TurnBudgetsReply:
        """Tell how far the budgets of a turn are used. Raises InvocationNotFoundError, SessionNotFoundError, StoreError."""
        key = message.key
        log, row = await self._lookup.log_and_row(key, message.invocation_id)
        if row is None:
            if log.queue.has(message.invocation_id):
                return TurnBudgetsReply()
            raise InvocationNotFoundError(message.invocation_id, key.session)
        turn = log.turn
        if turn is None or turn.row.invocation_id != message.invocation_id:
            if row.status not in MAY_GO_ON:
                return TurnBudgetsReply()
            turn = self._reader.turn_of(row)
            await self._reader.recall(key, turn)
        if not turn.config.budgets:
            return TurnBudgetsReply()
        others = await self._accounts.read(key, turn)
        if turn is not log.turn:
            # The store adds up a turn that has ended among the others.
            spent = unpacked(row.usage) if row.usage else {}
            others = others._replace(of_session=minus(others.of_session, spent) if others.of_session else others.of_session)
        accounts = self._accounts.all(key, turn, others)
        return TurnBudgetsReply(budgets=[each for account in accounts for each in self._limits(account)])

    def _limits(self, account: Account) -> Iterator[UsedBudget]:
        budget = account.budget
        for field, used in used_of(budget, account.spent, self._prices).items():
            yield UsedBudget(
                whose=account.whose,
                field=field,
                limit=round(budget.limits[field], 6),
                used=round(used, 6),
                at_limit=budget.at_limit,
                model=budget.model,
            )

    async def get_usage(self, message: GetUsage) -> UsageReply:
        """Add up turns: of most of them the store has the sums, of those that run it has events. Raises StoreError."""
        if message.turns:
            return UsageReply(report=UsageReport(), reports=[await self._single(key, name) for key, name in message.turns])
        wanted = UsageFilter(
            app=message.app,
            user=message.user,
            session=message.session,
            invocation_id=message.invocation_id,
            since_s=message.since_s,
            groups=groups_of(message.by),
        )
        if message.by == "turn":
            return UsageReply(report=await self._by_turn(wanted))
        return UsageReply(report=await self._collected(wanted, message.by))

    async def _single(self, key: SessionKey, invocation_id: str) -> UsageReport:
        return await self._collected(UsageFilter(app=key.app, user=key.user, session=key.session, invocation_id=invocation_id))

    async def _collected(self, wanted: UsageFilter, by: str = "") -> UsageReport:
        collector = UsageCollector(by, self._prices)
        async for group, turns in self._stored.groups(wanted):
            collector.add(group, turns)
        return collector.report()

    async def _by_turn(self, wanted: UsageFilter) -> UsageReport:
        collector = UsageCollector("turn", self._prices)
        costly = CostlyTurns[TurnId | TurnName](self._prices, MOST_TURNS, collector.sums)
        async for turns, names in self._stored.single(wanted):
            collector.add("", turns)
            costly.add(turns, names)
        found = await self._stored.named(costly.found())
        return collector.report([_used_turn(name, sums) for name, sums in found])


def _used_turn(name: TurnName, sums: UsageSums) -> UsedTurn:
    return UsedTurn(user_id=name.user, session_id=name.session, invocation_id=name.invocation_id, begun_s=name.begun_s, sums=sums)


def _end_call(log: SessionLog, message: p.Append, events: Events) -> Sequence[Write]:
    turn = log.turn
    assert turn is not None
    is_changed = Spending.of(turn).end_call(turn, message.turn.run, events)
    return [log.put_turn(turn.record())] if is_changed else ()


MAX_KEPT = 10_000
"""So many budgets of sessions and users are remembered as told of."""


class BudgetWarnings:
    """Warns of budgets, each once: of a turn's own for the turn, of a session's and a user's and an app's for the day.

    What was told of the latter is forgotten with this actor.

    Args:
        prices: of tokens, by names of models or patterns.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._told: dict[tuple[object, ...], None] = {}

    def new(self, key: SessionKey, turn: SessionTurn, accounts: Sequence[Account]) -> list[BudgetWarning]:
        """The warnings that are due, none of them twice."""
        found = []
        for account in accounts:
            if self._is_told(key, turn, account) or (warning := warning_of(account, self._prices)) is None:
                continue
            self._note(key, turn, account)
            found.append(warning)
            tell_event(
                "budget",
                "the budget of %s is used to %d %%: %s=%s, and %s are used; session %r of user %r",
                *(warning.whose, 100 * warning.used / warning.limit if warning.limit else 100),
                *(warning.field, warning.limit, warning.used, key.session, key.user),
            )
        return found

    def _is_told(self, key: SessionKey, turn: SessionTurn, account: Account) -> bool:
        name = _name(key, account)
        return account.scope in Spending.of(turn).warned if name is None else name in self._told

    def _note(self, key: SessionKey, turn: SessionTurn, account: Account) -> None:
        name = _name(key, account)
        if name is None:
            Spending.of(turn).warned[account.scope] = None
            return
        while len(self._told) >= MAX_KEPT:
            del self._told[next(iter(self._told))]
        self._told[name] = None


def _name(key: SessionKey, account: Account) -> tuple[object, ...] | None:
    """Names a budget that several turns share; None for one of the turn itself."""
    match account.scope:
        case "session":
            return ("session", key, now_s() // DAY_S)
        case "user":
            return ("user", key.user, now_s() // DAY_S)
        case "app":
            return ("app", now_s() // DAY_S)
    return None
