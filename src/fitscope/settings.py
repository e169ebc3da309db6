"""What a project has set for fitscope: the table [tool.fitscope] of its pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fitscope import words
from fitscope.model import FitscopeError


@dataclass(frozen=True)
class Settings:
    """What `fitscope run` is told by the project."""

    keep: int | None = None
    """How many runs of each script stay in .fitscope/; all of them if nobody says."""
    live: bool = False


def settings(folder: Path) -> Settings:
    """The settings that hold in a folder: those of the nearest pyproject.toml that has some."""
    for each in (folder.resolve(), *folder.resolve().parents):
        path = each / "pyproject.toml"
        table = read(path)
        if isinstance(table, dict):
            return _checked(table, path)
    return Settings()


def read(path: Path) -> Any:
    """The [tool.fitscope] of a pyproject.toml, if there is one."""
    if not path.is_file():
        return None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("fitscope")
    except (OSError, ValueError, AttributeError) as error:
        raise FitscopeError(f"{words.path(path)} cannot be read: {error}.") from None


def _checked(table: dict[str, Any], path: Path) -> Settings:
    keep, live = table.get("keep"), table.get("live", False)
    if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 1):
        raise FitscopeError(f"{words.path(path)}: [tool.fitscope] keep is a number of runs: keep = 50.")
    if not isinstance(live, bool):
        raise FitscopeError(f"{words.path(path)}: [tool.fitscope] live is true or false.")
    return Settings(keep, live)
