"""Agents of google-adk that a YAML file describes."""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from actors.errors import DefinitionError
from actors.errors.user_code import code_of, error_text
from actors.errors.validation import problems


def agent_of_config(file: Path) -> Any:
    """The root agent that a `root_agent.yaml` describes.

    Args:
        file: the file. The folder above its own is on `sys.path`, so that it can name functions by their modules.

    Raises:
        DefinitionError: the file is wrong, or what it names cannot be imported, or google-adk is not installed.
    """
    # Without google-adk this says what to install.
    import_module("runtime.integrations.adk")
    from google.adk.agents.config_agent_utils import from_config

    try:
        with warnings.catch_warnings():
            # ADK warns that the feature is an experiment, and of classes of its own that this function uses.
            warnings.simplefilter("ignore", UserWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            return from_config(str(file))
    except ValidationError as error:
        raise DefinitionError(f"{file.parent.name}/{file.name} describes no agent: {problems(error)}") from error
    except Exception as error:
        # Beside what ADK raises, the modules that the file names may raise anything.
        cause = error.__cause__
        more = f" ({code_of(cause)}: {error_text(cause)})" if isinstance(cause, Exception) else ""
        text = " ".join(f"{error_text(error)}{more}".split())
        raise DefinitionError(f"{file.parent.name}/{file.name} describes no agent: {text}") from error
