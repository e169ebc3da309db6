"""`%%fitscope` at the top of a notebook cell: records the trainings in it and shows the report below it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fitscope.profiling import Profile, profile


def register(shell: Any) -> None:
    """Makes `%%fitscope` known to IPython."""

    from IPython.display import display

    def fitscope(line: str, cell: str) -> None:
        __tracebackhide__ = True  # IPython shows the user's frames alone
        with profile(line.strip() or None) as recording:
            with _told_once(shell):
                result = shell.run_cell(cell)
            error = result.error_before_exec or result.error_in_exec
            if error is not None:
                recording.finish(error)
        shell.user_ns["run"] = recording
        if recording.account.regions:
            display(recording)
        elif error is None:
            print("fitscope: no training was seen in this cell.")
        if error is not None:
            if result.error_before_exec is not None:
                error.__traceback__ = None  # it is IPython's own
            raise error  # the notebook is told of it, and does not go on to the next cell

    fitscope.__doc__ = """Record the trainings in this cell; the report is printed below it and kept as `run`."""
    shell.register_magic_function(fitscope, magic_kind="cell", magic_name="fitscope")


@contextmanager
def _told_once(shell: Any) -> Iterator[None]:
    """What a cell raises is shown by IPython when it leaves the magic, not also where it was raised."""
    names = [name for name in ("showtraceback", "showsyntaxerror", "showindentationerror") if name not in vars(shell)]
    for name in names:
        setattr(shell, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name in names:
            delattr(shell, name)


__all__ = ["Profile", "register"]
