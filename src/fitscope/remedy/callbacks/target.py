"""A path that only ever holds a complete file: written beside it, put on the disk, moved there."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import string
from collections.abc import Callable
from pathlib import Path


class Target:
    """Where checkpoints go: a path that may hold fields such as `{epoch:02d}`, and the temporary files beside it."""

    def __init__(self, template: str, suffix: str) -> None:
        self.template = Path(template)
        self._suffix = suffix
        self._mark = f".{re.sub(r'{[^}]*}', '_', self.template.name)}."

    def check(self) -> None:
        """Raises an OSError if nothing can be written there, as far as this is known before the first save."""
        if "{" not in str(self.template) and self.template.is_dir():
            raise IsADirectoryError(f"The checkpoint {self.template} is a directory; give the path of a file.")
        self.check_folder()

    def check_folder(self) -> None:
        """Makes the folder that checkpoints go to and tries to write there; raises an OSError if that fails."""
        folder = self.template.parent
        if "{" in str(folder):
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = self._temporary(folder)
            probe.touch()
            probe.unlink()
        except OSError as error:
            reason = f"No checkpoint can be written into {folder.absolute()}: {error.strerror}."
            raise OSError(error.errno, reason) from error

    def remove_leftovers(self) -> None:
        """Removes what earlier runs, killed while they wrote to this target, have left."""
        folder = self.template.parent.absolute()
        parts = [_any_value(part) for part in folder.relative_to(folder.anchor).parts]
        pattern = str(Path(*parts, glob.escape(self._mark) + "*.fitscope-tmp*"))
        for leftover in Path(folder.anchor).glob(pattern):
            pid = leftover.name[len(self._mark) :].partition(".")[0]
            if pid.isdecimal() and (int(pid) == os.getpid() or not _runs(int(pid))):
                leftover.unlink(missing_ok=True)

    def replace(self, path: Path, write: Callable[[Path], None]) -> None:
        """Has a temporary file written and moved to `path`, so that there always is a complete file or none."""
        path = Path(os.path.realpath(path))
        temporary = self._temporary(path.parent)
        try:
            write(temporary)
            _sync(temporary)
            temporary.replace(path)
            _sync(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def _temporary(self, folder: Path) -> Path:
        return folder / f"{self._mark}{os.getpid()}.fitscope-tmp{self._suffix}"


def _any_value(template: str) -> str:
    """A pattern for `glob` that matches the template with anything in its fields."""
    parts = string.Formatter().parse(template)
    return "".join(glob.escape(literal) + ("" if field is None else "*") for literal, field, _, _ in parts)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _sync(path: Path) -> None:
    """Has the operating system put a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
