"""What processes of agents log, and where to: decided in the program that starts the deployment."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from runtime.settings import Settings


@dataclass(frozen=True)
class LogOptions:
    """What a deployment's processes log.

    Attributes:
        app_name: begins the names of files and the lines of prints.
        level: of the root logger.
        levels: of loggers that have one of their own, by name.
        format: of lines in files.
        folder: of files; None: Ray's folder of logs.
        level_is_programs: the levels are those of the program that started the deployment, and no setting's.
    """

    app_name: str
    level: int
    levels: Mapping[str, int]
    format: str
    folder: str | None
    level_is_programs: bool = True


def log_options(app_name: str, settings: Settings) -> LogOptions:
    """The options of the settings; without `log_level`, the levels that loggers of this process have now."""
    folder = str(settings.log_dir.absolute()) if settings.log_dir is not None else None
    if settings.log_level is not None:
        return LogOptions(
            app_name, logging.getLevelNamesMapping()[settings.log_level], {}, settings.log_format, folder, level_is_programs=False
        )
    levels = {
        name: logger.level
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and logger.level and name.partition(".")[0] != "ray"
    }
    return LogOptions(app_name, logging.root.level, levels, settings.log_format, folder)
