"""`%%fitscope` at the top of a notebook cell: records the trainings in it and shows the report below it."""

from __future__ import annotations

from typing import Any

from fitscope.profiling import Profile, profile


def register(shell: Any) -> None:
    """Makes `%%fitscope` known to IPython."""

    from IPython.display import display

    def fitscope(line: str, cell: str) -> None:
        with profile(line.strip() or None) as recording:
            result = shell.run_cell(cell)
        shell.user_ns["run"] = recording
        if result.error_before_exec or result.error_in_exec or recording.account.regions:
            display(recording)
        else:
            print("fitscope: no training was seen in this cell.")

    fitscope.__doc__ = """Record the trainings in this cell; the report is printed below it and kept as `run`."""
    shell.register_magic_function(fitscope, magic_kind="cell", magic_name="fitscope")


__all__ = ["Profile", "register"]
