"""`fitscope materialize`: deterministic preprocessing once, to disk."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from fitscope import words
from fitscope.model import FitscopeError


@click.command("materialize", short_help="Run deterministic preprocessing once, to disk.")
@click.argument("function", metavar="SCRIPT.py:FUNCTION")
@click.option("-o", "--output", "folder", required=True, type=click.Path(path_type=Path), metavar="DIR")
@click.option("--deterministic", is_flag=True, help="Vouch for Python code whose results never differ.")
@click.option("--input", "inputs", multiple=True, type=click.Path(exists=True), help="A file or folder that is read.")
@click.option("--workers", type=click.IntRange(min=1), help="Threads or processes that make elements.")
@click.option("--overwrite", is_flag=True, help="Make a store again that was made by other code.")
def command(
    function: str, folder: Path, deterministic: bool, inputs: tuple[str, ...], workers: int | None, overwrite: bool
) -> None:
    """Run deterministic preprocessing once, to disk.

    FUNCTION is called without arguments and returns the dataset: a tf.data.Dataset, a PyDataset, a torch Dataset or a
    sequence of examples. The script is imported for it, so what it does at its top level happens, too; put the
    training below `if __name__ == "__main__"`.

    \b
    fitscope materialize train.py:dataset -o prepared

    The training then calls fitscope.materialize(dataset(), "prepared"), which opens the store at once, and refuses it
    when the code or its inputs have changed since. Called again after an interruption, the command goes on where it
    was.
    """
    from fitscope.remedy.storing.materialize import materialize

    try:
        dataset = _dataset(function)
        store = materialize(
            dataset,
            folder,
            deterministic=deterministic or None,
            inputs=inputs,
            workers=workers,
            overwrite=overwrite,
        )
    except OSError as error:
        ours = error.filename is None and error.strerror is not None
        raise FitscopeError(error.strerror if ours else str(error)) from error
    except FitscopeError:
        raise
    except Exception as error:
        raise FitscopeError(_failure(error, Path(function.rpartition(":")[0]))) from error
    click.echo(store.why, err=True)
    click.echo(f"{words.count(len(store), 'element')}, {words.size(store.nbytes)} in {folder}")


def _failure(error: Exception, script: Path) -> str:
    """What went wrong in the user's code, and where."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}."
    frames = [each for each in traceback.extract_tb(error.__traceback__) if Path(each.filename).name == script.name]
    place = f"{script}, line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    return f"{place}{type(error).__name__}: {error}"


def _dataset(function: str) -> Any:
    """What the function gives; its script is imported under its own name."""
    file, colon, name = function.rpartition(":")
    path = Path(file)
    if not colon or not name:
        raise FitscopeError(f"{function} names no function: write SCRIPT.py:FUNCTION.")
    if not path.is_file():
        raise FitscopeError(f"There is no script {path}.")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FitscopeError(f"{path} is not a Python script.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise FitscopeError(f"{path} has no function {name}.")
    return found()
