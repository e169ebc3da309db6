"""Preprocessing that is done once: the deterministic part of a dataset, on disk, for every backend."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fitscope import words
from fitscope.remedy.storing.cuts import Asked, Block, Source, choose, reading_speeds
from fitscope.remedy.storing.elements import StoreError
from fitscope.remedy.storing.records import BEGUN, LOCK, Plan, Store, read_begun, read_manifest
from fitscope.remedy.storing.sources import source_of
from fitscope.remedy.storing.writing import SPEED, Writer, remove, strangers, write_atomically

CHUNK_BYTES = 32 << 20
CHUNK_SECONDS = 5.0
"""A kill loses one chunk at most: so much data, or so much time."""


def materialize(
    dataset: Any,
    folder: str | os.PathLike[str],
    *,
    deterministic: bool | None = None,
    inputs: Sequence[str | os.PathLike[str]] = (),
    workers: int | None = None,
    overwrite: bool = False,
) -> Store:
    """Runs the deterministic part of a preprocessing once, to disk, and opens it as a dataset for any backend.

    `dataset` is a tf.data.Dataset, a `keras.utils.PyDataset`, a map-style torch Dataset, or any object with `__len__`
    and `__getitem__` that gives examples. Of a tf.data pipeline the stages up to the first random one or batch are
    candidates; where to cut is decided by measuring a sample, and `store.why` says why. Shuffles, random augmentation
    and batches are never frozen: `store.as_tf()` applies them anew to the stored elements.

    A call that was interrupted, even killed, goes on where it was when it is made again; a complete store is opened
    at once. A store that was made by other code or from other inputs is refused, unless `overwrite=True` makes it
    again.

    Python code cannot be proven to be deterministic: a sample is run twice, and code that names a random generator is
    not stored, unless `deterministic=True` vouches for it. `inputs` names files and folders that the code reads where
    fitscope cannot see it, so that changes of them are noticed.

    `__getitem__` is called ahead by threads or, where it is Python code that keeps others waiting, by processes:
    what is fastest on the first items, and as many as gain, or `workers`. Pass 1 if it must be called in turn.

    >>> import tempfile
    >>> import fitscope
    >>> import tensorflow as tf
    >>> images = tf.data.Dataset.range(100).map(lambda i: (tf.fill((8, 8), i), i % 2))
    >>> augmented = images.shuffle(100).map(lambda x, y: (x + tf.random.uniform((), 0, 9, tf.int64), y)).batch(10)
    >>> store = fitscope.materialize(augmented, tempfile.mkdtemp())
    >>> len(store), store[3][1]
    (100, array(1))
    >>> len(store.as_tf())
    10
    >>> store.as_pydataset(batch_size=50, augment=lambda batch: batch)[0][0].shape
    (50, 8, 8)
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise ValueError(f"materialize: workers must be a whole number of at least 1, not {workers!r}")
    if isinstance(inputs, str | os.PathLike):
        raise TypeError(f"materialize: inputs must be a list of paths: inputs=[{os.fspath(inputs)!r}]")
    for path in map(Path, inputs):
        if not path.exists():
            raise FileNotFoundError(f"materialize: there is no {path}, which inputs names")
    if not isinstance(folder, str | os.PathLike):
        raise TypeError(f"materialize: folder must be a path, not {folder!r}")
    place = Path(folder)
    before = None if overwrite else _plan_in(place)
    settled = before.cut if before is not None else None
    source = source_of(dataset, Asked(place, deterministic, [Path(each) for each in inputs], workers, settled))
    if before is not None:
        _refuse_other(place, before, source)
    if before is None or read_manifest(place) is None:
        _make_folder(place)
        with _locked(place):
            _make(place, source, overwrite)
    store = Store(place)
    store.remainder = source.remainder(store.plan.cut)
    return store


def _make(folder: Path, source: Source, overwrite: bool) -> None:
    """Makes a store, or goes on with one; nothing where another process has just made it."""
    plan = None if overwrite else _plan_in(folder)
    if plan is None:
        remove(folder)
        plan = _planned(folder, source)
        write_atomically(folder / BEGUN, json.dumps(plan.to_json()).encode())
    else:
        _refuse_other(folder, plan, source)
    if read_manifest(folder) is None:
        _write(folder, plan, source)


def _plan_in(folder: Path) -> Plan | None:
    """The plan of the store in this folder, complete or not."""
    value = read_manifest(folder)
    return Plan.from_json(value) if value is not None else read_begun(folder)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = strangers(folder)
    except OSError as error:
        raise OSError(error.errno, f"No store can be made in {folder}: {error.strerror}") from error
    if others:
        raise StoreError(f"{folder} holds other files ({', '.join(others[:3])}): choose an empty or new folder.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps others from writing the same store; a kill frees it."""
    try:
        file = (folder / LOCK).open("w")
    except OSError as error:
        raise OSError(error.errno, f"{folder} cannot be written to: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreError(f"Another process is making the store in {folder}: wait for it to finish.") from error
        yield


def _refuse_other(folder: Path, plan: Plan, source: Source) -> None:
    now = source.fingerprint(plan.cut)
    if now is not None and (now.code, now.inputs) == (plan.code, plan.inputs):
        return
    code = now is None or now.code != plan.code
    made = "made by other code" if code else "made from other inputs (files or arrays have changed)"
    raise StoreError(f"{folder} was {made}: delete {folder} or pass overwrite=True.")


def _planned(folder: Path, source: Source) -> Plan:
    cuts = source.cuts()
    free = shutil.disk_usage(folder).free
    fitting = [cut for cut in cuts if cut.needed < free]
    if not fitting:
        needed = words.size(min(cut.needed for cut in cuts))
        raise OSError(errno.ENOSPC, f"{folder} has {words.size(free)} free, and the store needs about {needed}")
    chosen, why = choose(fitting, *reading_speeds(folder / SPEED))
    if source.stopped:
        why += f" No further, because {source.stopped}."
    found = source.fingerprint(chosen.cut)
    assert found is not None
    return Plan(chosen.layout, chosen.length, found.code, found.inputs, chosen.cut, why, source.batch_size)


def _write(folder: Path, plan: Plan, source: Source) -> None:
    writer = Writer(folder, plan)
    try:
        with _progress(plan.length, writer.rows) as advance:
            if writer.rows < plan.length:
                _fill(writer, source.blocks(plan.cut, plan.layout, writer.rows), advance)
        writer.finish()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno, f"{folder} is full: make room and call materialize again, it goes on where it was"
            ) from error
        raise
    finally:
        writer.close()


def _fill(writer: Writer, blocks: Iterator[Block], advance: Callable[[int], None]) -> None:
    flushed = time.monotonic()
    try:
        for rows, columns in blocks:
            writer.add(rows, columns)
            advance(rows)
            if writer.pending > CHUNK_BYTES or time.monotonic() - flushed > CHUNK_SECONDS:
                writer.flush()
                flushed = time.monotonic()
    finally:
        # Ends the threads that make elements, also if writing failed.
        if isinstance(blocks, Generator):
            blocks.close()


@contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if somebody looks."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("materialize"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda rows: bar.advance(task, rows)
