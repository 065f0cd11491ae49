"""One program, played in one of two ways: by ADK's Runner, or by a Runtime."""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.models.registry import LLMRegistry
from google.adk.runners import InMemoryRunner
from google.genai import types

from actors.errors import DefinitionError
from tests.adk.judge.turned import Bench
from tests.adk.side_by_side.player import Player, value_for

ADK, HERE = "adk", "here"
MEMORY = "sqlite://"
PLANS = (0, 1, 2)
MOST_CALLS = 40
ROUNDS = 4
"""How often what a turn waits for is answered."""

_ID = re.compile(
    r"(?:adk-|call-)?(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?<=state=)\w+|(?<=\")\w{30}(?=\")"
    r"|(?<= at )0x[0-9a-f]+"
)
"""Ids that each run makes anew."""

_SCRATCH = re.compile(re.escape(tempfile.gettempdir()) + r"/tmp\w{8}\b")
"""The folder in which a side has its copy of the program."""

_TIME = re.compile(r"20\d\d-\d\d-\d\d[T ][\d:.+]+|\b1[78]\d{8}\.\d+")

CREDENTIALS = {"type": "authorized_user", "client_id": "none", "client_secret": "none", "refresh_token": "none"}


def prepare(folder: Path, scratch: Path) -> Any:
    """Load the program in a folder with made-up settings, and give all its agents a Player. Returns its root."""
    # What its tools write is not there when the other side plays it.
    folder = Path(shutil.copytree(folder.parent, scratch / folder.parent.name)) / folder.name
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.chdir(folder.parent)
    given = scratch / "credentials.json"
    given.write_text(json.dumps(CREDENTIALS))
    os.environ.setdefault("GOOGLE_APPLICATION_CREDENTIALS", str(given))
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_API_KEY", "GITHUB_TOKEN"):
        os.environ.setdefault(name, "none")
    from runtime.frontends.loading.app import load_app

    root = load_app(str(folder)).root
    for agent in [each for each in gc.get_objects() if isinstance(each, LlmAgent)]:
        children = [child.name for child in agent.sub_agents]
        agent.model = Player(agent=agent.name, children=children)
    # Agents that a program makes while it runs.
    LLMRegistry.new_llm = staticmethod(lambda name: Player(agent=name))
    return root


def _runner(root: Any) -> InMemoryRunner:
    if isinstance(root, App):
        return InMemoryRunner(app=root)
    app = App(name="played", root_agent=root)
    return InMemoryRunner(app=app)


def _message(*parts: types.Part) -> types.Content:
    return types.Content(role="user", parts=list(parts))


async def play(root: Any, side: str) -> dict[str, Any]:
    """Play a program in some sessions. Returns their events, and by what it was refused."""
    found: dict[str, Any] = {"refused": "", "islands": "", "sessions": []}
    bench = Bench(has_islands=False, memory_store=MEMORY)
    for plan in PLANS:
        try:
            found["sessions"].append(await _session(root, side, plan, bench))
        except DefinitionError as error:
            if found["islands"]:
                found["refused"] = str(error)
                break
            found["islands"] = str(error)
            bench.close()
            bench = Bench(has_islands=True, memory_store=MEMORY)
            found["sessions"].append(await _session(root, side, plan, bench))
    bench.close()
    return found


async def _session(root: Any, side: str, plan: int, bench: Bench) -> dict[str, Any]:
    random.seed(plan)
    theirs = _runner(root)
    runner: Any = theirs if side == ADK else bench.runner(theirs)
    place = {"user_id": "ada", "session_id": f"s{plan}"}
    await theirs.session_service.create_session(app_name=theirs.app_name, **place)
    told: dict[str, Any] = {"turns": [], "state": {}}
    message: types.Content | None = _message(types.Part(text=f"plan {plan}"))
    answered: set[str] = set()
    asked_again = False
    for _ in range(ROUNDS + 1):
        events, error = await _turn(runner, place, message)
        told["turns"].append({"events": [shown(event) for event in events], "error": error})
        answers = [] if error else list(_answers(events, answered, plan))
        if answers:
            message = _message(*answers)
        elif not asked_again and not error:
            asked_again, message = True, _message(types.Part(text=f"plan {plan} again"))
        else:
            break
    session = await theirs.session_service.get_session(app_name=theirs.app_name, **place)
    told["state"] = _evened(json.dumps(dict(session.state), default=str))
    return told


async def _turn(runner: Any, place: dict[str, str], message: Any) -> tuple[list[Any], str]:
    events: list[Any] = []
    try:
        async for event in runner.run_async(new_message=message, run_config=RunConfig(max_llm_calls=MOST_CALLS), **place):
            events.append(event)
    except DefinitionError:
        raise
    except Exception as error:
        return events, f"{type(error).__name__}: {error}"[:400]
    return events, ""


def _answers(events: list[Any], answered: set[str], plan: int) -> Any:
    """The answers to what these events wait for, once each."""
    for event in events:
        for call in event.get_function_calls():
            if call.id in (event.long_running_tool_ids or ()) and call.id not in answered:
                answered.add(call.id)
                response = _answer(call, plan)
                if response is not None:
                    yield types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=response))


def _answer(call: types.FunctionCall, plan: int) -> dict[str, Any] | None:
    if call.name == "adk_request_credential":
        return None
    if call.name == "adk_request_confirmation":
        return {"confirmed": plan != 2}
    if call.name == "adk_request_input":
        wanted = (call.args or {}).get("response_schema") or (call.args or {}).get("responseSchema")
        value = value_for(wanted, plan) if isinstance(wanted, dict) else "yes"
        return value if isinstance(value, dict) else {"result": value}
    return {"status": "approved", "ticket": f"plan {plan}"}


def shown(event: Any) -> dict[str, Any]:
    """What is compared of an event."""
    said: dict[str, Any] = {"author": event.author}
    if event.content and event.content.parts:
        said["parts"] = [_part(part) for part in event.content.parts]
    actions = event.actions
    for name in ("state_delta", "artifact_delta", "transfer_to_agent", "escalate", "skip_summarization", "route"):
        if getattr(actions, name, None):
            said[name] = json.loads(json.dumps(getattr(actions, name), default=str))
    if event.output is not None:
        said["output"] = json.loads(json.dumps(event.output, default=_dumped))
    if event.error_code or event.error_message:
        said["error"] = event.error_code
    if event.long_running_tool_ids:
        said["waits"] = len(event.long_running_tool_ids)
    if event.node_info and event.node_info.path:
        said["path"] = event.node_info.path
    if event.branch:
        said["branch"] = event.branch
    if event.partial:
        said["partial"] = True
    return _evened(json.dumps(said))


def _evened(told: str) -> dict[str, Any]:
    """JSON without what differs from run to run."""
    plain: dict[str, Any] = json.loads(_SCRATCH.sub("scratch", _TIME.sub("0", _ID.sub("id", told))))
    return plain


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _part(part: types.Part) -> dict[str, Any]:
    found: dict[str, Any] = part.model_dump(mode="json", exclude_none=True)
    for name in ("function_call", "function_response"):
        if name in found:
            found[name].pop("id", None)
    return found
