"""The command line: one module per command, errors turned into exit codes in one place."""

from __future__ import annotations

import importlib
import sys

import click

from fitscope.model import FitscopeError

COMMANDS = {
    "run": "Record an unmodified script and say where its training time went.",
    "show": "Show a recorded run.",
    "prove": "Show by experiment what each finding costs.",
    "fix": "Show or make the edits that remove the causes found.",
    "speedup": "Run, prove, fix and verify; ends with one diff.",
    "lint": "Find causes that the source alone shows.",
    "explain": "Explain a cause: what it is, how it is seen, what to change.",
    "compare": "Say what got slower or faster, noise taken into account.",
    "sweep": "Measure throughput, step time and memory over a setting.",
    "list": "List the recorded runs.",
    "materialize": "Run deterministic preprocessing once, to disk.",
    "layers": "Say what each layer costs in the real step.",
    "trace": "Read a device trace made here or elsewhere.",
    "doctor": "Examine the machine: what it has, what the backends see, what they reach.",
    "demo": "Record a bundled slow example.",
}


class Commands(click.Group):
    """Loads the module of a command only when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from the module of its name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fitscope.cli.{cmd_name}_")
        command: click.Command = module.command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fitscope", message="fitscope %(version)s")
def group() -> None:
    """Where every second of a Keras 3 training went.

    Start with:  fitscope run train.py
    """


def main() -> None:
    """The `fitscope` command."""
    try:
        group(prog_name="fitscope", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"fitscope: {error.format_message()}", err=True)
        sys.exit(2)
    except click.Abort:
        sys.exit(130)
    except FitscopeError as error:
        click.echo(f"fitscope: {error}", err=True)
        sys.exit(2)
