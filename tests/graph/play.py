"""Plays recorded cases of graphs: python -m tests.graph.play CASES --json RESULTS [--engine ray] [--adapter] [--only ID …]

CASES is a YAML file of cases; RESULTS gets one JSON object per line: what this project did. A case that cannot be played says
why, in "failed".
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import yaml
from pydantic import ValidationError

from actors import Content, Event, FunctionResponse, Part
from actors.errors import (
    DefinitionError,
    GraphValidationError,
    RaygroveError,
    RequestError,
    StateSchemaError,
    WorkflowConfigurationError,
)
from actors.messages.event import USER
from actors.messages.graph import REQUEST_INPUT
from actors.messages.session import SessionKey
from actors.rules.checks.confirmation import REQUEST_CONFIRMATION
from runtime import Runtime
from runtime.cluster.ray.local_ray import starting_ray
from runtime.cluster.ray.process import hide_noise
from runtime.frontends.testing.shared_ray import NICENESS
from runtime.frontends.web.adk.events import AdkEvents
from runtime.settings import Settings
from tests.graph.build import Built, cut, shown_part
from tests.graph.cut_store import CutStore, is_seen, stored_events
from tests.graph.words import BareError, NotPlayable, Spec
from tests.support.machine.folders import quick_folder
from tests.support.runtimes import Deploy

if TYPE_CHECKING:
    from tests.graph.adk import AdkBuilt

USER_ID, SESSION_ID = "u", "s"

_IN_ADK = {"InputSchemaError": "ValidationError", "OutputSchemaError": "ValidationError", "ScriptExhaustedError": "RuntimeError"}
"""The class that google-adk, or the model of the recordings, raises where this project has one of its own."""


def play(case: Spec, engine: str, folder: Path, *, by_adapter: bool = False) -> dict[str, Any]:
    """What comes of a case, in the form of the results.

    Args:
        by_adapter: it is built of google-adk's classes.
    """
    if by_adapter:
        return _play_adapted(case, engine, folder)
    try:
        built = Built(case, folder)
    except NotPlayable as error:
        return {"id": case["id"], "failed": str(error)}
    except BareError as error:
        return {"id": case["id"], "error": str(error), "inner": str(error)}
    except StateSchemaError:
        return {"id": case["id"], "error": "StateSchemaError", "inner": "StateSchemaError"}
    except DefinitionError as error:
        return {"id": case["id"], "error": "ValidationError", "inner": _inner(error)}
    if case.get("area") == "definition":
        return {"id": case["id"], "error": None}
    return _played(case, built, engine, folder)


def _play_adapted(case: Spec, engine: str, folder: Path) -> dict[str, Any]:
    from tests.graph.adk import AdkBuilt, refused

    try:
        built = AdkBuilt(case, folder)
    except (NotPlayable, DefinitionError) as error:
        # What google-adk builds, and refuses when it is run, the adapter refuses before that.
        is_built = isinstance(error, DefinitionError) and case.get("area") == "definition"
        return {"id": case["id"], "error": None} if is_built else {"id": case["id"], "failed": str(error)}
    except Exception as error:
        # Whatever google-adk raises.
        return {"id": case["id"], **refused(error)}
    return {"id": case["id"], "error": None} if case.get("area") == "definition" else _played(case, built, engine, folder)


def _played(case: Spec, built: Built | AdkBuilt, engine: str, folder: Path) -> dict[str, Any]:
    deploy = Deploy(engine, folder)
    player = Player(case, built, deploy(built.root), deploy)
    try:
        return player.play()
    finally:
        player.close()


def _inner(error: DefinitionError) -> str:
    """The class that google-adk has inside, which has the name of ours where we have one."""
    if isinstance(error, GraphValidationError | WorkflowConfigurationError):
        return type(error).__name__
    # A wrong value of a field is pydantic's own error, with no other inside.
    cause = error.__cause__
    is_own = isinstance(cause, ValidationError) and cause.errors()[0]["type"] == "literal_error"
    return "ValidationError" if is_own else "ValueError"


class Player:
    """Plays the turns of one case.

    Args:
        case: in the notation.
        built: its tree.
        rt: runs it.
        deploy: runs it again, after a loss of the whole program; None for a case that has none.
    """

    def __init__(self, case: Spec, built: Built | AdkBuilt, rt: Runtime, deploy: Deploy | None = None) -> None:
        self._case = case
        self._built = built
        self._deploy = deploy
        self._rt = rt
        self._rt.start()
        self._invocations: list[str] = []
        self._turns: list[list[dict[str, Any]]] = []
        self._inv: list[int | None] = []
        self._raises: dict[str, str] = {}
        self._is_cut = False
        self._last_seq = 0
        self._shown = Shown()

    def close(self) -> None:
        self._rt.close()

    def play(self) -> dict[str, Any]:
        self._rt.sessions.create(USER_ID, SESSION_ID, state=self._case.get("state", {}))
        for index, turn in enumerate(self._case["turns"]):
            given = turn if isinstance(turn, dict) else {"text": turn}
            if "stop" in given:
                assert self._deploy is not None
                self._restart(session_store=CutStore(self._url, given["stop"]))
            elif given.get("restart") or self._is_cut:
                self._restart()
            self._is_cut = "stop" in given
            self._turn(index, given)
        if self._is_cut:
            self._restart()
        session = self._rt.sessions.get(USER_ID, SESSION_ID)
        assert session is not None
        state = {key: value for key, value in session.state.items() if value is not None and not key.startswith("temp:")}
        calls = {
            agent: [
                [[each.role, [shown_part(part) for part in each.parts]] for each in request.contents]
                for request in model.requests
            ]
            for agent, model in self._built.models.items()
            if model.requests
        }
        return {
            "id": self._case["id"],
            "turns": self._turns,
            "inv": self._inv,
            "raises": self._raises,
            "state": state,
            "calls": calls,
        }

    @property
    def _url(self) -> str:
        assert self._deploy is not None
        return f"sqlite:///{self._deploy.folder}/sessions.db"

    def _restart(self, **options: Any) -> None:
        assert self._deploy is not None
        self.close()
        self._rt = self._deploy(self._built.root, **options)
        self._rt.start()

    def _turn(self, index: int, turn: Mapping[str, Any]) -> None:
        events: list[Event] = []
        try:
            for event in self._begun(turn):
                events.append(event)
        except RaygroveError as error:
            refused = _IN_ADK.get(type(error).__name__) or (
                "ValueError" if isinstance(error, RequestError) else type(error).__name__
            )
            if not self._is_cut:
                self._raises[str(index)] = _raised(events) if any(each.error_code for each in events) else refused
        if self._is_cut:
            key = SessionKey(self._rt.app_name, USER_ID, SESSION_ID)
            events = stored_events(self._url, key, self._last_seq)
        self._last_seq = max([self._last_seq, *(event.seq for event in events)])
        seen = [event for event in events if is_seen(event)]
        self._turns.append(self._shown.of(seen))
        of = self._invocations[turn["resume"]] if "resume" in turn else seen[0].invocation_id if seen else ""
        self._invocations.append(of)
        self._inv.append(self._invocations.index(of) if of else None)

    def _begun(self, turn: Mapping[str, Any]) -> Iterable[Event]:
        user: dict[str, Any] = {"user_id": USER_ID, "session_id": SESSION_ID}
        if "resume" in turn:
            return self._gone_on({**user, "invocation_id": self._invocations[turn["resume"]]})
        return self._rt.run(**user, message=self._message(turn), state_delta=turn.get("state"))

    def _gone_on(self, place: Mapping[str, Any]) -> Iterator[Event]:
        """The events of a turn that goes on; one that has failed, maybe where the program was lost, is tried again."""
        has_begun = False
        if self._rt.turns.get(**place).state != "failed":
            try:
                for event in self._rt.attach(**place, after_seq=self._last_seq):
                    has_begun = True
                    yield event
                return
            except RaygroveError:
                if has_begun or self._rt.turns.get(**place).state != "failed":
                    raise
        yield from self._rt.retry(**place)

    def _message(self, turn: Mapping[str, Any]) -> Content:
        parts = [Part(text=turn["text"])] if "text" in turn else []
        for shown, value in turn.get("answer", {}).items():
            response = value if isinstance(value, dict) else {"result": value}
            name = turn.get("name", "adk_request_input")
            parts.append(Part(function_response=FunctionResponse(id=self._shown.id_of(shown), name=name, response=response)))
        return Content(role="user", parts=parts)


def _raised(events: Sequence[Event]) -> str:
    last = next(event for event in reversed(events) if event.error_code is not None)
    text = _message_of({"errorCode": last.error_code, "errorMessage": last.error_message or ""})
    code = _IN_ADK.get(last.error_code or "", last.error_code)
    return f"{code}: {text}" if _is_fixed(text) else str(code)


def _message_of(event: Mapping[str, Any]) -> str:
    return "script exhausted" if event.get("errorCode") == "ScriptExhaustedError" else event.get("errorMessage", "")


def _is_fixed(text: str) -> bool:
    return text.startswith(("boom ", "Node ")) or text in ("kaput", "bad", "script exhausted")


class Shown:
    """Writes events in the notation, as google-adk's clients get them: see AdkEvents."""

    def __init__(self) -> None:
        self._view = AdkEvents(for_operator=True)
        self._ids: dict[str, str] = {}

    def of(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        """Events of the session that have not been shown before."""
        return [self._event(shown) for event in events for shown in self._view.shown(event) if event.author != USER]

    def id_of(self, shown: str) -> str:
        """The id of a call that is shown as id1, id2, …."""
        return next((call_id for call_id, name in self._ids.items() if name == shown), shown)

    def _event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        info, actions = event.get("nodeInfo", {}), event["actions"]
        parts = event.get("content", {}).get("parts", ())
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        shown: dict[str, Any] = {
            "a": event["author"],
            "p": info.get("path"),
            "b": event.get("branch"),
            "t": "".join(part.get("text", "") for part in parts if not part.get("thought")),
            "thought": "".join(part.get("text", "") for part in parts if part.get("thought")),
            "c": [[call["name"], self._id(call), cut(_args(call))] for call in calls],
            "r": [[answer["name"], answer["id"], cut(answer["response"])] for answer in answers],
            "out": cut(event.get("output"), contents=True),
            "for": [path for path in info.get("outputFor", ()) if path != info["path"]],
            "mo": info.get("messageAsOutput"),
            "route": actions.get("route"),
            "st": actions["stateDelta"],
            "to": actions.get("transferToAgent"),
            "esc": actions.get("escalate"),
            "skip": actions.get("skipSummarization"),
            "lro": sorted(self._ids.get(each, each) for each in event.get("longRunningToolIds", ())),
            "err": _IN_ADK.get(event.get("errorCode", ""), event.get("errorCode")),
            "em": _message_of(event) if _is_fixed(_message_of(event)) else None,
            "partial": event.get("partial"),
            "sc": event.get("isolationScope"),
        }
        always = ("out", "route")
        return {key: value for key, value in shown.items() if not _is_nothing(value) or (key in always and value is not None)}

    def _id(self, call: Mapping[str, Any]) -> str:
        if call["name"] != REQUEST_CONFIRMATION:
            return str(call["id"])
        return self._ids.setdefault(call["id"], f"id{len(self._ids) + 1}")


def _args(call: Mapping[str, Any]) -> Any:
    if call["name"] == REQUEST_CONFIRMATION:
        return {"for": call["args"]["originalFunctionCall"]["id"]}
    given = {name: value for name, value in call["args"].items() if (call["name"], name) != (REQUEST_INPUT, "interruptId")}
    return _without_nulls(given)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.get("title") == "ToolConfirmation":
            return "ToolConfirmation"
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


def _is_nothing(value: object) -> bool:
    return value is False or value in (None, "", [], {})


def start_ray() -> None:
    """Start one for all that is played: to start takes longer than most of it."""
    # Ray lets its workers give way to other processes: on a machine that is busy they would hardly run at all.
    os.environ.setdefault(NICENESS, "0")
    settings = Settings()
    hide_noise()
    with starting_ray(settings.local_ray):
        ray.init(address="local", namespace=settings.namespace, include_dashboard=False, log_to_driver=False, num_cpus=4)


def main() -> None:
    """Play a file of cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--adapter", action="store_true", help="build the cases of google-adk's classes")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    cases = [case for case in yaml.safe_load(given.cases.read_text())["cases"] if not given.only or case["id"] in given.only]
    failed: Counter[str] = Counter()
    if given.engine == "ray":
        # The start of a process is most of what a case costs there.
        os.environ.setdefault("RAYGROVE_MAX_LIVE_AGENTS", "1")
        start_ray()
    with given.json.open("w") as results, quick_folder() as folder:
        for case in cases:
            own = Path(folder) / case["id"]
            own.mkdir()
            try:
                result = play(case, given.engine, own, by_adapter=given.adapter)
            except Exception as error:
                result = {"id": case["id"], "failed": f"{type(error).__name__}: {error}"}
            if "failed" in result:
                failed[result["failed"].partition("\n")[0][:80]] += 1
            results.write(json.dumps(result, ensure_ascii=False) + "\n")
    print(f"{len(cases)} cases, {sum(failed.values())} not played")
    for reason, times in failed.most_common():
        print(f"{times:5} {reason}")


if __name__ == "__main__":
    main()
