"""The `.env` file of an app: variables such as the keys of its models."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

NAME = ".env"


def load_environment(folder: Path) -> dict[str, str]:
    """Put the variables of the nearest `.env` file into the environment of this process. What the environment has wins.

    Args:
        folder: of the app. Below the working directory, the folders between the two are searched as well.

    Returns:
        The variables of the file, with the values that they have now.
    """
    file = next((file for each in _folders(folder.resolve()) if (file := each / NAME).is_file()), None)
    if file is None:
        return {}
    # Imported here: most apps have no such file.
    from dotenv import load_dotenv
    from dotenv.main import DotEnv

    load_dotenv(file, override=False, encoding="utf-8")
    return {name: os.environ[name] for name in DotEnv(file, encoding="utf-8").dict() if name in os.environ}


def _folders(folder: Path) -> Iterator[Path]:
    """The folder, then its parents up to the working directory when that is one of them."""
    yield folder
    top = Path.cwd()
    if top in folder.parents:
        yield from folder.parents[: folder.parents.index(top) + 1]
