"""The names of deployments that run, for the shell that completes a command line."""

from __future__ import annotations

from pathlib import Path


def complete_deployment(incomplete: str) -> list[str]:
    """The deployments on the Ray of this machine whose names begin so; none where there is no Ray."""
    from actors.errors import RaygroveError
    from runtime.frontends.console.joining import running_apps

    try:
        names = {each.app for each in running_apps(None)}
    except RaygroveError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


def complete_app(incomplete: str) -> list[str]:
    """The same, and the files and folders of apps."""
    folder, slash, beginning = incomplete.rpartition("/")
    found = []
    for each in sorted(Path(folder or slash or ".").glob(f"{beginning}*")):
        shown = f"{folder}{slash}{each.name}"
        if not each.name.startswith((".", "__")) and (each.is_dir() or each.suffix == ".py"):
            found.append(shown)
    return found + ([] if slash else complete_deployment(incomplete))
