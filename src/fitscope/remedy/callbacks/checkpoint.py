"""Checkpoints that training does not wait for: a copy of the values now, the file from another thread."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from typing import Any

from keras.callbacks import ModelCheckpoint

from fitscope.remedy.callbacks.model_file import WEIGHTS, WHOLE, Snapshot, WrittenFile, obstacle
from fitscope.remedy.callbacks.orbax_folder import ORBAX, OrbaxSnapshot, OrbaxTarget, check_installed
from fitscope.remedy.callbacks.target import Target

State = Snapshot | WrittenFile | OrbaxSnapshot
"""A model as it was at one moment, ready to be written."""

# How long a second save that has fallen due waits for the logs of the first. They fail to come only if another
# callback has raised; Keras then raises that at the next batch.
_PATIENCE_SECONDS = 60.0


class BackgroundCheckpoint(ModelCheckpoint):  # type: ignore[misc]
    """`keras.callbacks.ModelCheckpoint`, except that training goes on while the file is written.

    The arguments are those of `ModelCheckpoint`, and so are the decisions when to save and under which name. On the
    training thread only a copy of the model's and the optimizer's values is taken. A thread writes it as a `.keras`
    file or, with `save_weights_only=True`, a `.weights.h5` file: with the values that `model.save` would have written
    at that step. A path that ends in `.orbax` is a folder written by Orbax (`pip install orbax-checkpoint`), which
    `keras.models.load_model` and `load_weights` read as well. At most one file is being written: a save that comes
    earlier waits for it. While a file is written, the values are in memory a second time.

    A file appears under its name only when it is complete and on the disk, so a kill at any time leaves the last
    complete checkpoint. What goes wrong while writing is raised in `fit`, at its next batch or epoch and at the end
    of training at the latest. `fit` returns when the last file is on the disk.

    >>> import tempfile, keras, numpy, fitscope
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse")
    >>> x, y = numpy.ones((8, 3)), numpy.ones((8, 1))
    >>> folder = tempfile.TemporaryDirectory()
    >>> best = fitscope.BackgroundCheckpoint(folder.name + "/best.keras", monitor="val_loss", save_best_only=True)
    >>> history = model.fit(x, y, epochs=2, validation_data=(x, y), callbacks=[best], verbose=0)
    >>> keras.models.load_model(folder.name + "/best.keras").count_params()
    4
    >>> folder.cleanup()
    """

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        initial_value_threshold: float | None = None,
    ) -> None:
        self._suffix = _suffix(os.fspath(filepath), save_weights_only)
        if isinstance(save_freq, int) and save_freq < 1:
            raise ValueError(f"`save_freq` is 'epoch' or a number of batches of at least 1, not {save_freq}.")
        keras_path = os.fspath(filepath)
        if self._suffix == ORBAX:
            check_installed()
            keras_path += WEIGHTS if save_weights_only else WHOLE  # Keras knows only files
        super().__init__(
            keras_path,
            monitor=monitor,
            verbose=verbose,
            save_best_only=save_best_only,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
            initial_value_threshold=initial_value_threshold,
        )
        self.filepath: str = os.fspath(filepath)
        # Keras need not wait for the device at every batch on our account: in `on_train_batch_end`, which it then
        # calls from threads of its own, logs are kept at most. The saving itself happens in hooks that Keras always
        # calls on the training thread.
        self.async_safe = True
        kind = OrbaxTarget if self._suffix == ORBAX else Target
        self._target = kind(self.filepath, self._suffix)
        self._writer: threading.Thread | None = None
        self._failure: tuple[Path, BaseException] | None = None
        self._warned = False
        self._undecided: list[tuple[int, State]] = []
        self._before_validation: State | None = None
        self._begin_counting()

    # --- hooks; Keras calls all but `on_train_batch_end` on the training thread ---

    def on_train_begin(self, logs: Any = None) -> None:
        """Finds out now, not after an epoch, whether checkpoints can be written."""
        self._finish_writing()
        self._target.check()
        self._target.remove_leftovers()
        self._begin_counting()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """A new epoch counts its batches from zero."""
        self._raise_failure()
        self._begin_counting()
        super().on_epoch_begin(epoch, logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Saves what fell due with the batch before."""
        self._raise_failure()
        if self.save_freq != "epoch" and not self._inline:
            self._note_end(batch - 1)
            self._decide()
            self._begun = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """On the training thread saves what is due; on a thread of Keras' keeps the logs for the next hook."""
        if self.save_freq == "epoch":
            return
        if threading.get_ident() == self._training_thread:
            self._inline = True
            super().on_train_batch_end(batch, logs)
        else:
            self._logs[batch] = logs or {}

    def on_test_begin(self, logs: Any = None) -> None:
        """Validation may change the model's state: keeps it if the epoch's last batch may have been due."""
        self._raise_failure()
        if not self._inline and self._begun > self._ended:
            self._decide()
            last = self._begun + int(self.model.steps_per_execution or 1) - 1
            if self._batches_seen_since_last_saving + last - self._ended >= self.save_freq:
                self._before_validation = self._take(self.model)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves, if it is epochs that count, or what fell due with the last batch."""
        self._raise_failure()
        if self._logs:  # all have come: Keras has waited for its threads
            self._note_end(max(self._logs))
            self._decide()
        super().on_epoch_end(epoch, logs)
        self._discard_undecided()

    def on_train_end(self, logs: Any = None) -> None:
        """Waits until the last file is on the disk."""
        self._finish_writing()

    # --- saves that fall due at a batch while Keras calls `on_train_batch_end` from other threads ---

    def _begin_counting(self) -> None:
        self._discard_undecided()
        self._training_thread = threading.get_ident()
        self._inline = False
        self._begun = self._ended = -1
        self._logs: dict[int, dict[str, Any]] = {}

    def _note_end(self, batch: int) -> None:
        """Keeps the state if a save is due; whether it is wanted, and its name, depend on logs that may yet come."""
        if batch <= self._ended:
            return
        if self._should_save_on_batch(batch):
            self._wait_for_logs()
            state, self._before_validation = self._before_validation or self._take(self.model), None
            self._undecided.append((batch, state))
        self._ended = batch

    def _wait_for_logs(self) -> None:
        patience = time.monotonic() + _PATIENCE_SECONDS
        while self._undecided and time.monotonic() < patience:
            self._decide()
            time.sleep(0.001)

    def _decide(self) -> None:
        """Saves, or not, the states whose logs have come."""
        while self._undecided and self._undecided[0][0] in self._logs:
            batch, state = self._undecided.pop(0)
            self._save_model(self._current_epoch, batch, self._logs[batch], state)
        wanted = {batch for batch, _ in self._undecided}
        for batch in list(self._logs):
            if batch <= self._ended and batch not in wanted:
                del self._logs[batch]

    def _discard_undecided(self) -> None:
        for state in [state for _, state in self._undecided] + [self._before_validation]:
            if state is not None:
                state.discard()
        self._undecided.clear()
        self._before_validation = None

    # --- saving ---

    def _save_model(self, epoch: int, batch: int | None, logs: Any, state: State | None = None) -> None:
        """Keras decides, names the file and calls `save` on what it takes for the model."""
        if self.save_best_only and self.monitor_op is None:
            self._set_monitor_op()  # Keras does this at the end of an epoch only, and fails before
        model: Any = self._model
        verbose: int = self.verbose
        self._model: Any = (saved := _Saved(self, self.model, state))
        try:
            super()._save_model(epoch=epoch, batch=batch, logs=logs or {})
        finally:
            self._model = model
            self.verbose: int = verbose
            if state is not None and not saved.handed_over:
                state.discard()

    def _take(self, model: Any) -> State:
        self._finish_writing()  # first, so that never more than two copies of the values are in memory
        if self._suffix == ORBAX:
            return OrbaxSnapshot(model, self.save_weights_only)
        reason = obstacle(model, self._suffix)
        if reason is None:
            return Snapshot(model, self._suffix)
        if not self._warned:
            self._warned = True
            message = f"{reason}, so BackgroundCheckpoint cannot copy its state: training waits for every save."
            warnings.warn(message, stacklevel=2)
        return WrittenFile(model, self._suffix)

    def _write_behind(self, path: Path, state: State) -> None:
        self._finish_writing()
        announce, self.verbose = self.verbose > 0, 0  # Keras would say at once that it has finished

        def write() -> None:
            try:
                self._target.replace(path, state.write)
            except BaseException as error:
                self._failure = path, error
            else:
                if announce:
                    print(f"\nfinished saving model to {path}", flush=True)

        # Not a daemon: a program that ends meanwhile, also by an exception, still gets its checkpoint.
        self._writer = threading.Thread(target=write, name="fitscope-checkpoint", daemon=False)
        self._writer.start()

    def _finish_writing(self) -> None:
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is None:
            return
        (path, error), self._failure = self._failure, None
        message = f"The checkpoint {path} could not be written: {error}"
        if isinstance(error, OSError):
            raise (OSError(error.errno, message) if error.errno else OSError(message)) from error
        raise RuntimeError(message) from error


class _Saved:
    """Stands in for the model while Keras saves it: hands its state over instead."""

    def __init__(self, checkpoint: BackgroundCheckpoint, model: Any, state: State | None) -> None:
        self._checkpoint = checkpoint
        self._model = model
        self._state = state
        self.handed_over = False

    def save(self, filepath: str, overwrite: bool = True) -> None:
        """What Keras calls as `model.save`."""
        checkpoint = self._checkpoint
        state = checkpoint._take(self._model) if self._state is None else self._state
        checkpoint._write_behind(Path(filepath).absolute(), state)
        self.handed_over = True

    save_weights = save

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def _suffix(path: str, weights_only: bool) -> str:
    suffix = WEIGHTS if weights_only else WHOLE
    if "://" in path:
        raise ValueError(f"BackgroundCheckpoint writes to a folder of this machine; {path} is not in one.")
    if path.endswith(ORBAX):
        return ORBAX
    if not path.endswith(suffix):
        hint = "" if weights_only or not path.endswith(WEIGHTS) else " Or pass save_weights_only=True."
        if not Path(path).suffix:
            hint = f" (A folder written by Orbax ends in `{ORBAX}`.)"
        wanted = f"With save_weights_only={weights_only} the path of a checkpoint ends in `{suffix}` or `{ORBAX}`"
        raise ValueError(f"{wanted}; {path} does not.{hint}")
    return suffix
