"""Plays recorded cases of graphs: python -m tests.graph.play CASES --json RESULTS [--engine ray] [--only ID …]

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
from typing import Any

import yaml

from actors import Content, Event, FunctionResponse, Part
from actors.errors import DefinitionError, GraphValidationError, RaygroveError, RequestError, WorkflowConfigurationError
from actors.messages.event import USER
from runtime import Runtime
from tests.graph.build import Built, shown_part
from tests.graph.words import NotPlayable, Spec
from tests.support.runtimes import Deploy

USER_ID, SESSION_ID = "u", "s"


def play(case: Spec, engine: str, folder: Path) -> dict[str, Any]:
    """What comes of a case, in the form of the results."""
    try:
        built = Built(case, folder)
    except NotPlayable as error:
        return {"id": case["id"], "failed": str(error)}
    except DefinitionError as error:
        return {"id": case["id"], "error": "ValidationError", "inner": _inner(error)}
    if case.get("area") == "definition":
        return {"id": case["id"], "error": None}
    player = _Player(case, built, Deploy(engine, folder))
    try:
        return player.play()
    finally:
        player.close()


def _inner(error: DefinitionError) -> str:
    """The class that google-adk has inside, which has the name of ours where we have one."""
    is_ours = isinstance(error, GraphValidationError | WorkflowConfigurationError)
    return type(error).__name__ if is_ours else "ValueError"


class _Player:
    """Plays the turns of one case."""

    def __init__(self, case: Spec, built: Built, deploy: Deploy) -> None:
        self._case = case
        self._built = built
        self._deploy = deploy
        self._rt: Runtime = deploy(built.root)
        self._rt.start()
        self._invocations: list[str] = []
        self._turns: list[list[dict[str, Any]]] = []
        self._inv: list[int | None] = []
        self._raises: dict[str, str] = {}

    def close(self) -> None:
        """End the Runtime."""
        self._rt.close()

    def play(self) -> dict[str, Any]:
        """The result."""
        self._rt.sessions.create(USER_ID, SESSION_ID, state=self._case.get("state", {}))
        for index, turn in enumerate(self._case["turns"]):
            if isinstance(turn, dict) and {"resume", "stop", "state"} & turn.keys():
                return {"id": self._case["id"], "failed": f"turn {sorted(turn)}"}
            if isinstance(turn, dict) and turn.get("restart"):
                self.close()
                self._rt = self._deploy(self._built.root)
                self._rt.start()
            self._turn(index, turn)
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

    def _turn(self, index: int, turn: Any) -> None:
        events: list[Event] = []
        try:
            for event in self._rt.run(user_id=USER_ID, session_id=SESSION_ID, message=_message(turn)):
                events.append(event)
        except RaygroveError as error:
            refused = "ValueError" if isinstance(error, RequestError) else type(error).__name__
            self._raises[str(index)] = _raised(events) if any(each.error_code for each in events) else refused
        shown = [_shown(event) for event in events if event.author != USER and not _is_note(event)]
        self._turns.append(shown)
        self._invocations.append(events[0].invocation_id if shown else "")
        self._inv.append(self._invocations.index(events[0].invocation_id) if shown else None)


def _message(turn: Any) -> str | Content:
    if isinstance(turn, str):
        return turn
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


def _is_note(event: Event) -> bool:
    return event.actions.agent_state is not None or (event.node_info is not None and event.node_info.is_note)


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
        "c": [[call.name, call.id, _without_nulls(call.args)] for call in event.function_calls()],
        "r": [[answer.name, answer.id, dict(answer.response)] for answer in event.function_responses()],
        "out": _cut(event.output),
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
    }
    return {
        key: value for key, value in shown.items() if not _is_nothing(value) or (key in ("out", "route") and value is not None)
    }


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value


def _is_nothing(value: object) -> bool:
    return value is False or value in (None, "", [], {})


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return f"{value[:60]}…" if len(value) > 160 else value
    if isinstance(value, list):
        return [_cut(each) for each in value]
    if isinstance(value, Mapping):
        if "parts" in value and "role" in value:
            return {"content": "".join(part.get("text", "") for part in value["parts"])}
        return {key: _cut(each) for key, each in value.items()}
    return value


def main() -> None:
    """Play a file of cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--engine", choices=["local", "ray"], default="local")
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    cases = [case for case in yaml.safe_load(given.cases.read_text())["cases"] if not given.only or case["id"] in given.only]
    failed: Counter[str] = Counter()
    with given.json.open("w") as results, tempfile.TemporaryDirectory() as folder:
        for case in cases:
            own = Path(folder) / case["id"]
            own.mkdir()
            try:
                result = play(case, given.engine, own)
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
