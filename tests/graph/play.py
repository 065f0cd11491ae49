"""Plays recorded cases of graphs: python -m tests.graph.play CASES --json RESULTS [--engine ray] [--adapter] [--only ID …]

CASES is a YAML file of cases; RESULTS gets one JSON object per line: what this project did. A case that cannot be played says
why, in "failed".
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
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
from runtime import Runtime, Turn
from tests.graph.build import Built, cut, shown_part
from tests.graph.cut_store import CutStore, is_seen
from tests.graph.words import BareError, NotPlayable, Spec
from tests.support.runtimes import Deploy

if TYPE_CHECKING:
    from tests.graph.adk import AdkBuilt

USER_ID, SESSION_ID = "u", "s"


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
        self._cut_store = CutStore("sqlite://", 0)
        self._last_seq = 0

    def close(self) -> None:
        """End the Runtime."""
        self._rt.close()

    def play(self) -> dict[str, Any]:
        """The result."""
        self._rt.sessions.create(USER_ID, SESSION_ID, state=self._case.get("state", {}))
        for index, turn in enumerate(self._case["turns"]):
            given = turn if isinstance(turn, dict) else {"text": turn}
            if "stop" in given:
                assert self._deploy is not None
                self._cut_store = CutStore(f"sqlite:///{self._deploy.folder}/sessions.db", given["stop"])
                self._restart(session_store=self._cut_store)
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
            refused = "ValueError" if isinstance(error, RequestError) else type(error).__name__
            if not self._is_cut:
                self._raises[str(index)] = _raised(events) if any(each.error_code for each in events) else refused
        self._last_seq = max([self._last_seq, *(event.seq for event in (*events, *self._cut_store.seen))])
        seen = self._cut_store.seen if self._is_cut else [event for event in events if is_seen(event)]
        self._turns.append([_shown(event) for event in seen])
        of = self._invocations[turn["resume"]] if "resume" in turn else seen[0].invocation_id if seen else ""
        self._invocations.append(of)
        self._inv.append(self._invocations.index(of) if of else None)

    def _begun(self, turn: Mapping[str, Any]) -> Turn:
        user: dict[str, Any] = {"user_id": USER_ID, "session_id": SESSION_ID}
        if "resume" in turn:
            user["invocation_id"] = self._invocations[turn["resume"]]
            has_failed = self._rt.turns.get(**user).state == "failed"
            return self._rt.retry(**user) if has_failed else self._rt.attach(**user, after_seq=self._last_seq)
        return self._rt.run(**user, message=_message(turn), state_delta=turn.get("state"))


def _message(turn: Mapping[str, Any]) -> Content:
    parts = [Part(text=turn["text"])] if "text" in turn else []
    for call, value in turn.get("answer", {}).items():
        response = value if isinstance(value, dict) else {"result": value}
        answer = FunctionResponse(id=call, name=turn.get("name", "adk_request_input"), response=response)
        parts.append(Part(function_response=answer))
    return Content(role="user", parts=parts)


def _raised(events: Sequence[Event]) -> str:
    last = next(event for event in reversed(events) if event.error_code is not None)
    text = last.error_message or ""
    return f"{last.error_code}: {text}" if _is_fixed(text) else str(last.error_code)


def _is_fixed(text: str) -> bool:
    return text.startswith(("boom ", "Node ")) or text in ("kaput", "bad")


def _shown(event: Event) -> dict[str, Any]:
    """An event in the notation."""
    info, actions = event.node_info, event.actions
    shown: dict[str, Any] = {"a": event.author, "p": info.path if info is not None else ""}
    parts = event.content.parts if event.content is not None else ()
    text = "".join(part.text or "" for part in parts if not part.thought)
    thought = "".join(part.text or "" for part in parts if part.thought)
    shown |= {
        "b": event.branch,
        "t": text,
        "thought": thought,
        "c": [[call.name, call.id, cut(_without_nulls(call.args))] for call in event.function_calls()],
        "r": [[answer.name, answer.id, cut(dict(answer.response))] for answer in event.function_responses()],
        "out": cut(event.output, contents=True),
        "for": list(info.output_for) if info is not None else [],
        "mo": info is not None and info.message_as_output,
        "route": actions.route,
        "st": dict(actions.state_delta),
        "to": actions.transfer_to_agent,
        "esc": actions.escalate,
        "skip": actions.skip_summarization,
        "lro": sorted(event.long_running_tool_ids or ()),
        "err": event.error_code,
        "em": event.error_message if _is_fixed(event.error_message or "") else None,
        "partial": event.partial,
        "sc": info.isolation_scope if info is not None else "",
    }
    return {
        key: value for key, value in shown.items() if not _is_nothing(value) or (key in ("out", "route") and value is not None)
    }


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
        # One for all cases: to start takes longer than most of them.
        ray.init(include_dashboard=False, log_to_driver=False)
    with given.json.open("w") as results, tempfile.TemporaryDirectory() as folder:
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
