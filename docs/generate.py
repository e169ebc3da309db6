"""Writes the generated parts of the documentation, or with --check says which of them are stale.

The command line reference in README comes from the commands' own help; the list of phases from the model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fitscope.cli import COMMANDS, group
from fitscope.model import PHASES

ROOT = Path(__file__).parent.parent
MEANING = {
    "data": "the training thread waits for input",
    "transfer": "copies from host to device",
    "step": "dispatch, device, and the wait for it",
    "compile": "tracing and compiling",
    "callback": "one hook of one callback, by its name",
    "logs": "turning logs into numbers",
    "progress": "the progress bar",
    "validation": "everything inside; the name says which part",
    "checkpoint": "saving, also by a callback",
    "epoch": "start and end of an epoch and of its iterator",
    "gc": "Python's garbage collector",
    "setup": "preparing: adapters, building the model",
    "unexplained": "the rest, with fitscope's own work",
}


def commands() -> str:
    lines = ["```"]
    context = click.Context(group, info_name="fitscope")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=context) as inner:
            pieces = " ".join(command.collect_usage_pieces(inner))
        lines.append(f"fitscope {name} {pieces}".rstrip())
        lines.append(f"    {COMMANDS[name]}")
    return "\n".join([*lines, "```"])


def phases() -> str:
    rows = [f"| `{phase}` | {MEANING[phase]} |" for phase in PHASES]
    return "\n".join(["| phase | what it is |", "|---|---|", *rows])


BLOCKS = {"commands": commands, "phases": phases}


def main() -> None:
    path = ROOT / "README.md"
    text = old = path.read_text()
    for name, make in BLOCKS.items():
        if f"<!-- /{name} -->" not in text:
            sys.exit(f"README.md has no block {name}")
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}"
    if "--check" not in sys.argv:
        path.write_text(text)
    elif text != old:
        sys.exit("README.md is stale: run `make docs`")


if __name__ == "__main__":
    main()
