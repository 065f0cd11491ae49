"""The tool that runs a model's Python."""

from __future__ import annotations

import inspect
import mimetypes
import os
import signal
from collections.abc import Mapping, Sequence

from actors.definitions.tools.base import Tool
from actors.definitions.tools.context import ToolContext
from actors.definitions.tools.function import without_unknown
from actors.errors import DefinitionError
from actors.errors.hints import did_you_mean, no_such_field
from actors.messages.content import Blob, Part
from actors.messages.json_types import JsonMapping, JsonObject
from actors.messages.llm import FunctionDeclaration
from actors.rules.checks.ids import MAX_ARTIFACT_NAME, is_readable
from runtime.integrations.code.run import CodeLimits, CodeResult, run_python

MIB = 1024 * 1024
USER_PREFIX = "user:"

_NEEDS = frozenset({"num_cpus", "num_gpus", "memory", "resources"})


def python_tool(
    *,
    name: str = "run_python",
    description: str | None = None,
    timeout_s: float = 30.0,
    max_memory_bytes: int = 1024 * MIB,
    max_output_chars: int = 20_000,
    max_files: int = 20,
    max_file_bytes: int = 16 * MIB,
    env: Mapping[str, str] | None = None,
    require_confirmation: bool = False,
    **needs: object,
) -> PythonTool:
    """Make a tool that runs the Python code that a model writes, each time in a process of its own.

    The process has an empty folder, a clean environment and the packages of this Python. On Ray it runs where a Ray task of its
    own is placed. This keeps accidents away from agents and their keys. It is no wall against attackers: the code may read the
    files that the user of the process may read, and use the network.

    Args:
        name: for the model; default `run_python`.
        description: for the model; by default it says what the code may do.
        timeout_s: how long a run may take; default 30.
        max_memory_bytes: memory of the process; default 1 GiB.
        max_output_chars: of stdout and of stderr that the model gets, the beginning and the end; default 20,000.
        max_files: files written by a run that become artifacts; default 20.
        max_file_bytes: the size of each file; default 16 MiB.
        env: environment variables for the code; by default it gets nothing of this program's environment.
        require_confirmation: the user has to agree before each run; default False.
        needs: num_cpus, num_gpus, memory (bytes) and resources of the Ray task; default num_cpus=1.

    Raises:
        DefinitionError: an option is wrong, or this system cannot start processes as the tool does.
    """
    unknown = sorted(set(needs) - _NEEDS)
    if unknown:
        options = inspect.signature(python_tool).parameters
        raise DefinitionError(f"python_tool: {unknown[0]}: {no_such_field(unknown[0], [*options, *sorted(_NEEDS)])}")
    if not hasattr(os, "fork"):
        raise DefinitionError("python_tool needs a system with fork, such as Linux or macOS")
    amounts = {"timeout_s": timeout_s, "max_memory_bytes": max_memory_bytes, "max_output_chars": max_output_chars}
    if wrong := [f"{key}={amount!r}" for key, amount in amounts.items() if not amount > 0]:
        raise DefinitionError(f"python_tool({', '.join(wrong)}): use a number above 0")
    limits = CodeLimits(timeout_s, max_memory_bytes, max_output_chars, max_files, max_file_bytes)
    return PythonTool(name, description, limits, dict(env or {}), require_confirmation, needs or {"num_cpus": 1})


class PythonTool(Tool):
    """Runs Python code: see `python_tool`."""

    def __init__(
        self,
        name: str,
        description: str | None,
        limits: CodeLimits,
        env: Mapping[str, str],
        require_confirmation: bool,
        needs: JsonMapping,
    ) -> None:
        self.name = name
        self.description = description if description is not None else _described(limits)
        self.require_confirmation = require_confirmation
        self.needs = needs
        self._limits = limits
        self._env = env

    def declaration(self) -> FunctionDeclaration:
        """A required text, `code`, and the names of artifacts."""
        files = {"type": "array", "items": {"type": "string"}, "description": "Names of artifacts to have in the current folder."}
        code = {"type": "string", "description": "The Python code."}
        parameters = {"type": "object", "properties": {"code": code, "files": files}, "required": ["code"]}
        return FunctionDeclaration(name=self.name, description=self.description, parameters=parameters)

    async def run(self, args: JsonObject, context: ToolContext) -> JsonObject:
        """Run the code; its files become artifacts.

        Raises:
            ValueError: an argument is wrong, or there is no such artifact.
            RuntimeError: the process that runs the code was killed.
        """
        args = without_unknown(args, ("code", "files"), self.name, context.agent_name)
        code = args.get("code")
        if not isinstance(code, str):
            raise ValueError(f"{self.name} needs the argument code, a text")
        return await self.run_code(code, {}, args.get("files") or [], context)

    async def run_code(self, code: str, files: Mapping[str, bytes], artifacts: object, context: ToolContext) -> JsonObject:
        """Run code in a folder with some files; those that it writes or changes become artifacts.

        Args:
            files: by their paths in the folder.
            artifacts: a list of the names of artifacts that the folder has as well.

        Returns:
            Output, files and errors, for the model.

        Raises:
            ValueError: there is no such artifact, or a file has its name.
            RuntimeError: the process that runs the code was killed.
        """
        given = {"code": code, "files": await _files(artifacts, files, context), "env": self._env, "limits": self._limits}
        result: CodeResult = await context.offload(run_python, given, self.needs)
        saved: list[str] = []
        for name, data in result.files.items():
            if name.startswith(USER_PREFIX) or not is_readable(name) or len(name) > MAX_ARTIFACT_NAME:
                result.left_out.append(ascii(name)[:100])
                continue
            mime_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            await context.save_artifact(name, Part(inline_data=Blob(data=data, mime_type=mime_type)))
            saved.append(name)
        return _told(result, saved, self._limits)


async def _files(names: object, beside: Mapping[str, bytes], context: ToolContext) -> dict[str, bytes]:
    """The data of artifacts, by the names that they have in the folder, and the files beside them."""
    files = dict(beside)
    taken = {path.partition("/")[0] for path in files}
    if not isinstance(names, list):
        raise ValueError("files has to be a list of names of artifacts")
    for name in names:
        part = await context.load_artifact(name) if isinstance(name, str) else None
        if part is None:
            available = await context.list_artifacts()
            hint = did_you_mean(str(name), available)
            raise ValueError(f"there is no artifact {name!r}.{hint} There are: {', '.join(available) or 'none'}")
        # Only the last part of a path: no artifact's name leads out of the folder.
        local = str(name).removeprefix(USER_PREFIX).rpartition("/")[2]
        if local in ("", ".", "..") or "\0" in local or local in taken:
            raise ValueError(f"{name!r} cannot be a file in the folder of the code: its name is taken, or is none")
        taken.add(local)
        files[local] = part.inline_data.data if part.inline_data is not None else (part.text or "").encode()
    return files


def _told(result: CodeResult, saved: Sequence[str], limits: CodeLimits) -> JsonObject:
    """The tool's result for the model, out of a run."""
    told: JsonObject = {"stdout": result.stdout}
    if result.stderr:
        told["stderr"] = result.stderr
    if saved:
        told["files"] = list(saved)
    if result.left_out:
        told["files_not_kept"] = result.left_out[:20]
    if result.is_late:
        told["error"] = f"the run took longer than {limits.timeout_s:g} s and was ended"
    elif result.is_out_of_memory:
        told["error"] = f"the run needed more than {limits.memory_bytes // MIB} MiB of memory"
    elif result.exit_code < 0:
        told["error"] = (
            f"the run was ended by {_signal(-result.exit_code)}; it may use {limits.memory_bytes // MIB} MiB of memory"
        )
    elif result.exit_code:
        told["error"] = f"the run ended with exit code {result.exit_code}"
    return told


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _described(limits: CodeLimits) -> str:
    return (
        "Run Python code, and get what it prints; the value of an expression in its last line is printed too. Each run is a new "
        "process in an empty folder: nothing of earlier runs is there. Files that the code writes into the current folder are "
        f"kept as artifacts. A run may take {limits.timeout_s:g} seconds and {limits.memory_bytes // MIB} MiB of memory."
    )
