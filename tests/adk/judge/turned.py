"""A Runner of google-adk whose turns a Runtime runs, for tests that were written for the Runner."""

from __future__ import annotations

import asyncio
import builtins
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any, Never

import pydantic_core
from google.adk import errors as adk_errors
from google.adk.agents.run_config import StreamingMode
from google.adk.runners import Runner
from google.adk.workflow import NodeTimeoutError as AdkNodeTimeoutError

from actors.errors import AgentFailedError, DefinitionError, NodeTimeoutError, PluginFailedError, RequestError
from actors.messages.config import RunConfig
from actors.messages.event import USER
from runtime.adk import from_adk
from runtime.driver.runtime import Runtime

from .mirror import Mirror, is_shown
from .refusals import in_adk_words, reworded

REFUSED = re.compile("is not carried over|which is not carried over|asks users for credentials|is no tree of agents")


class Bench:
    """The Runtimes of one test.

    Args:
        memory_store: that of each Runtime, see Runtime.

    Attributes:
        refused: by what sentence something in the test was refused; "" for nothing.
    """

    def __init__(self, *, has_islands: bool, memory_store: str | None = None) -> None:
        self.refused = ""
        self._has_islands = has_islands
        self._memory_store = memory_store
        self._runners: dict[tuple[int, str], tuple[Runner, TurnedRunner]] = {}

    def runner(self, theirs: Runner) -> TurnedRunner:
        """What stands for a test's Runner."""
        # Runners of one app over one session service are one deployment that is asked several times: its log goes on.
        key = id(theirs.session_service), theirs.app_name
        found = self._runners.get(key)
        if found is None:
            # The test's Runner is kept, so that no other session service gets this id.
            found = self._runners[key] = theirs, TurnedRunner(self, theirs)
        return found[1]

    def runtime(self, theirs: Runner) -> Runtime:
        """A Runtime of the app of a test's Runner. Raises DefinitionError for what is refused."""
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", theirs.app_name) or "app"
        app = theirs.app.model_copy(update={"plugins": list(theirs.plugin_manager.plugins)})
        options: dict[str, Any] = {
            "engine": "local",
            "session_store": "sqlite://",
            "artifact_store": "memory://",
            "memory_store": self._memory_store,
        }
        try:
            if not self._has_islands:
                return Runtime(app, app_name=name, **options)
            adapted = from_adk(app, app_name=name, islands=True)
            return Runtime(adapted, app_name=name, **options)
        except DefinitionError as error:
            self.refuse(str(error))
            raise

    def refuse(self, sentence: str) -> None:
        """Note that something was refused by name."""
        self.refused = self.refused or sentence

    def close(self) -> None:
        for _, turned in self._runners.values():
            turned.close()


class TurnedRunner:
    """Stands for a Runner.

    Args:
        bench: makes its Runtime.
        theirs: the Runner, whose services see what happens.
    """

    def __init__(self, bench: Bench, theirs: Runner) -> None:
        self._bench = bench
        self._theirs = theirs
        self._runtime: Runtime | None = None
        self._mirrors: dict[tuple[str, str], Mirror] = {}

    def close(self) -> None:
        if self._runtime is not None:
            self._runtime.close()

    def _started(self) -> Runtime:
        if self._runtime is None:
            runtime = self._bench.runtime(self._theirs)
            runtime.start()
            self._runtime = runtime
        return self._runtime

    async def _mirror(self, user_id: str, session_id: str) -> Mirror:
        rt = self._started()
        # It raises what a test may expect where there is no such session.
        await self._theirs._get_or_create_session(user_id=user_id, session_id=session_id)
        mirror = self._mirrors.get((user_id, session_id))
        if mirror is None:
            mirror = self._mirrors[user_id, session_id] = Mirror(rt, self._theirs, user_id, session_id)
        await mirror.to_log()
        return mirror

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        new_message: Any = None,
        state_delta: Any = None,
        run_config: Any = None,
        yield_user_message: bool = False,
        **_: Any,
    ) -> AsyncIterator[Any]:
        """Run a turn of the Runtime, and yield ADK's events of it."""
        mirror = await self._mirror(user_id, session_id)
        rt = self._started()
        if new_message is None:
            if invocation_id is None:
                raise ValueError("Running an agent requires a new_message or an invocation_id")
            place: dict[str, Any] = {"user_id": user_id, "session_id": session_id, "invocation_id": invocation_id}
            has_failed = (await rt.aio.turns.get(**place)).state == "failed"
            turn = rt.retry(**place) if has_failed else rt.attach(**place, after_seq=mirror.seq)
        else:
            message = (await mirror.answer(new_message)).model_copy(update={"role": USER})
            turn = rt.run(
                user_id=user_id,
                session_id=session_id,
                message=message,
                state_delta=state_delta,
                run_config=_own_config(run_config),
                # The id of a new turn. An answer goes on with the turn that made the call, and other words begin a turn.
                invocation_id=invocation_id if not await mirror.knows_turn(invocation_id) else None,
            )
        try:
            async with aclosing(aiter(turn)) as events:  # type: ignore[type-var]
                async for event in events:
                    if not event.partial:
                        for news in await mirror.to_service(event.seq):
                            if yield_user_message and news.author == USER:
                                yield news
                    if is_shown(event):
                        for theirs in await mirror.shown(event):
                            yield theirs
            for theirs in await mirror.ended():
                yield theirs
        except (AgentFailedError, PluginFailedError, NodeTimeoutError) as error:
            self._note(str(error))
            raise _programs_own(error) from error
        except DefinitionError as error:
            self._note(str(error))
            raise
        except RequestError as error:
            raise in_adk_words(error) from error
        finally:
            await mirror.to_service()

    def _note(self, sentence: str) -> None:
        if REFUSED.search(sentence):
            self._bench.refuse(sentence)

    def run(self, **options: Any) -> Iterator[Any]:
        """The same from sync code."""
        found: list[Any] = []
        failed: list[BaseException] = []

        async def collect() -> None:
            async for event in self.run_async(**options):
                found.append(event)

        def body() -> None:
            try:
                asyncio.run(collect())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        yield from found
        for error in failed:
            raise error

    def run_live(self, **_: Any) -> Never:
        """Refused, as the page says."""
        self._bench.refuse("live and bidirectional streaming of google-adk is not carried over")
        raise DefinitionError("live and bidirectional streaming of google-adk is not carried over")

    async def rewind_async(self, *, user_id: str, session_id: str, rewind_before_invocation_id: str, **_: Any) -> None:
        """Rewind the session in the Runtime."""
        mirror = await self._mirror(user_id, session_id)
        try:
            await self._started().aio.sessions.rewind(user_id, session_id, rewind_before_invocation_id)
        except RequestError as error:
            raise in_adk_words(error) from error
        await mirror.to_service()


def _own_config(given: Any) -> RunConfig:
    if given is None:
        return RunConfig()
    return RunConfig(
        streaming="sse" if given.streaming_mode == StreamingMode.SSE else "none",
        max_llm_calls=given.max_llm_calls,
        save_input_blobs_as_artifacts=bool(given.save_input_blobs_as_artifacts),
        custom_metadata=given.custom_metadata,
        model_input_context=given.model_input_context,
    )


def _programs_own(failed: AgentFailedError | PluginFailedError | NodeTimeoutError) -> BaseException:
    """The exception of the program that ended the turn, which ADK raises as it is."""
    if isinstance(failed, NodeTimeoutError):
        node, timeout_s = failed.args
        timed_out: BaseException = AdkNodeTimeoutError(node_name=node, timeout=timeout_s)
        return timed_out
    name, message = str(failed.args[1]), reworded(str(failed.args[2]))
    kinds = [vars(builtins).get(name), getattr(adk_errors, name, None), *_subclasses(Exception, name)]
    if name == "ValidationError":
        # The programs' own are of pydantic.
        return pydantic_core.ValidationError.from_exception_data(message, [])
    # Of several classes of one name that of the test, which was made last.
    kinds.reverse()
    for kind in sorted(kinds, key=_is_ours):
        if isinstance(kind, type) and issubclass(kind, BaseException):
            try:
                return kind(message)
            except TypeError:
                made = kind.__new__(kind, message)
                BaseException.__init__(made, message)
                return made
    return failed


def _is_ours(kind: Any) -> bool:
    return str(getattr(kind, "__module__", "")).partition(".")[0] in ("actors", "runtime", "msgspec")


def _subclasses(kind: type[BaseException], name: str) -> Iterator[type[BaseException]]:
    for below in kind.__subclasses__():
        if below.__name__ == name:
            yield below
        yield from _subclasses(below, name)
