"""Writes the generated parts of the documentation, or with --check says which of them are stale.

The command line reference in README comes from the commands' own help, the list of phases from the model, the list
of causes and a page for each from the rules.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fitscope.cli import COMMANDS, group
from fitscope.manual import page
from fitscope.model import PHASES
from fitscope.rules import CATALOG

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


def causes() -> str:
    rows = [f"| [{rule.name}](docs/causes/{rule.name}.md) | {page(rule).title} |" for rule in CATALOG]
    return "\n".join(["| cause | what it is |", "|---|---|", *rows])


BLOCKS = {"commands": commands, "phases": phases, "causes": causes}


def main() -> None:
    pages = {ROOT / "docs" / "causes" / f"{rule.name}.md": f"{page(rule).text}\n" for rule in CATALOG}
    pages[ROOT / "README.md"] = readme()
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (ROOT / "docs" / "causes").glob("*.md") if path not in pages]
    if "--check" in sys.argv:
        if stale:
            sys.exit(f"stale, run `make docs`: {', '.join(str(path.relative_to(ROOT)) for path in stale)}")
        return
    for path in stale:
        if path in pages:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path])
        else:
            path.unlink()


def readme() -> str:
    text = (ROOT / "README.md").read_text()
    for name, make in BLOCKS.items():
        if f"<!-- /{name} -->" not in text:
            sys.exit(f"README.md has no block {name}")
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        text = f"{before}<!-- {name} -->\n{make()}\n<!-- /{name} -->{rest.partition(f'<!-- /{name} -->')[2]}"
    return text


if __name__ == "__main__":
    main()
