"""Two versions of a training side by side: each in a copy of the folder, in turns, until the difference is known."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from fitscope import confine, machine, store, words
from fitscope.account import account
from fitscope.compare import student
from fitscope.model import Account, FitscopeError, Run, Speedup
from fitscope.observe import removals, start
from fitscope.rules.case import FOREIGN_CORES
from fitscope.rules.compiling import USUAL as FIRST
from fitscope.supervise import append, last_words, recorded

LEAST_PAIRS, MOST_PAIRS, MOST_DISTURBED = 3, 8, 4
CONFIDENCE = 0.99
"""Of a single look; with a look after each of up to eight pairs, 96 of 100 experiments that change nothing say so."""
USUAL, WEIGHT = 0.06, 2
"""How far the ratios of two pairs of runs usually lie apart (as logarithms, one standard deviation), and how many
further pairs that is worth."""
NARROW, NARROW_SHARE = 0.15, 0.1
"""An interval is good enough when it reaches this far to either side, as a share, and this much of the effect."""
LARGEST = 2 << 30
LINKED = 64 << 20
"""Bytes: what is copied at most, and from which size on a file is linked where writing to it can be forbidden."""
NOT_COPIED = (".git", ".fitscope", "__pycache__", ".venv", "venv", "node_modules", ".ipynb_checkpoints")
SEED = "1234"
ROUNDING = 1e-3
"""Two losses that are as near to each other, as a share, differ by rounding."""
IN_THE_END = 1e-4
"""The same for the sums of weights where there are other records on the way to them."""
TRAINED = 30.0
"""Seconds of training after which a trial of a long training is ended."""
GRACE = 5.0
NO_MEMORY = -1000
"""In the place of an exit code: the run was ended because it left nothing of the memory."""
LEAST_MEMORY = 0.03
"""Of the machine's memory: an attempt that leaves less is ended, before others suffer."""
KEPT_OUTPUT = 20_000


Scores = dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Version:
    """A script with its arguments, and the files that are different in this version of it."""

    name: str
    command: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Contents by path, relative to the folder."""


@dataclass(frozen=True)
class Attempt:
    """How one run of a version ended, and what was recorded of it."""

    run: Run | None
    code: int | None
    """None if it was not done when its time was over; NO_MEMORY if it was ended before it took the last of it."""
    output: str
    """The end of what it printed."""
    seconds: float

    @property
    def stopped(self) -> bool:
        """Whether it was ended because enough was recorded."""
        return self.run is not None and _was_stopped(self.run)


@dataclass(frozen=True)
class Trial:
    """One run of one version."""

    seconds: float
    """Of all training."""
    step_seconds: float
    """Of all training but what happens once (preparing, the first compiling), by the number of training steps."""
    whole: bool
    """Whether the training came to its end; a long one is ended early."""
    losses: Scores
    """By epoch, of every training in turn."""
    weights: Scores
    """Sums of the weights of every model at the end."""
    foreign: float
    """Processors that other programs used meanwhile."""


@dataclass(frozen=True)
class Outcome:
    """What an experiment showed."""

    speedup: Speedup | None
    """How many times faster the second version is; None without a verdict."""
    same: str
    """equal, equal to rounding, equal in the end (other records, the same weights), within noise, different, or
    unknown: the losses and weights of the two."""
    pairs: int
    doubt: str = ""
    """Why there is no verdict, or why it is a weak one."""
    early: bool = False
    """Whether their steps were compared, compiling and preparing apart, as one of the two was ended early."""

    @property
    def faster(self) -> bool:
        """Whether the second version is faster beyond doubt."""
        return self.speedup is not None and self.speedup.low > 1

    @property
    def keeps_training(self) -> bool:
        """Whether nothing speaks against the two being the same training."""
        return self.same != "different"


def compare_versions(
    folder: Path,
    one: Version,
    other: Version,
    budget: float,
    tell: Callable[[str], None] = lambda text: None,
    seconds: float = TRAINED,
) -> Outcome:
    """Runs two versions in turns until the ratio of their times is known well enough, or the budget is spent.

    A run is ended after so many seconds of training.
    """
    deadline = time.monotonic() + budget
    with Workspace(folder) as workspace:
        pairs: list[tuple[Trial, Trial]] = []
        disturbed: list[tuple[Trial, Trial]] = []
        while len(pairs) < MOST_PAIRS and len(disturbed) < MOST_DISTURBED:
            began = time.monotonic()
            order = (one, other) if (len(pairs) + len(disturbed)) % 2 == 0 else (other, one)
            trials = {version.name: workspace.run(version, deadline, seconds) for version in order}
            pair = trials[one.name], trials[other.name]
            foreign = max(trial.foreign for trial in pair)
            if foreign >= FOREIGN_CORES:
                disturbed.append(pair)
                tell(f"other programs used {foreign:.1f} processors: this pair does not count")
            else:
                pairs.append(pair)
                before, after = _times(pair)
                per_step = " per step" * _early(pair)
                tell(f"{words.seconds(before)}{per_step} as it is, {words.seconds(after)} edited")
            enough = len(pairs) >= LEAST_PAIRS and _clear(_interval(pairs))
            if enough or time.monotonic() + (time.monotonic() - began) > deadline:
                break
        return _outcome(pairs, disturbed)


def _outcome(pairs: Sequence[tuple[Trial, Trial]], disturbed: Sequence[tuple[Trial, Trial]]) -> Outcome:
    both = [*pairs, *disturbed]
    same = sameness([pair[0] for pair in both], [pair[1] for pair in both])
    if len(pairs) < LEAST_PAIRS:
        doubt = f"{words.count(len(pairs), 'pair')} of runs fitted into the budget: three are needed"
        if disturbed:
            doubt = f"other programs were busy in {words.count(len(disturbed), 'pair')} of runs, too few are left"
        return Outcome(None, same, len(pairs), doubt)
    low, high = _interval(pairs)
    early = any(_early(pair) for pair in pairs)
    return Outcome(Speedup(math.exp(low), math.exp(high)), same, len(pairs), early=early)


def _interval(pairs: Sequence[tuple[Trial, Trial]]) -> tuple[float, float]:
    """Student's interval for the mean of the logarithms of the ratios: a pair is one measurement.

    Three pairs tell little of how far pairs lie apart: what they usually do counts as much as `WEIGHT` further ones.
    """
    ratios = [math.log(one / other) for one, other in map(_times, pairs)]
    middle, freedom = fmean(ratios), len(ratios) - 1 + WEIGHT
    spread = math.sqrt((sum((ratio - middle) ** 2 for ratio in ratios) + WEIGHT * USUAL**2) / freedom)
    half = student(CONFIDENCE, freedom) * spread / math.sqrt(len(ratios))
    return middle - half, middle + half


def _early(pair: tuple[Trial, Trial]) -> bool:
    return not (pair[0].whole and pair[1].whole)


def _times(pair: tuple[Trial, Trial]) -> tuple[float, float]:
    """What to compare: the whole training, or its steps where one of the two was ended early."""
    if _early(pair):
        return pair[0].step_seconds, pair[1].step_seconds
    return pair[0].seconds, pair[1].seconds


def _clear(interval: tuple[float, float]) -> bool:
    low, high = interval
    effect = abs(low + high) / 2
    return (low > 0 or high < 0) and (high - low) / 2 <= math.log1p(NARROW) + NARROW_SHARE * effect


def sameness(one: Sequence[Trial], other: Sequence[Trial]) -> str:
    """Whether two versions train the same, as far as their losses and weights show."""
    found = [_apart(a, b) for a, b in zip(one, other, strict=True)]
    known = [each for each in found if each is not None]
    if not known:
        return "unknown"
    apart = max(known)
    if any(map(_other_records, one, other)):
        return "equal in the end" if apart <= IN_THE_END else "different"
    if apart == 0:
        return "equal"
    usual = max((_apart(one[0], each) or 0.0 for each in one[1:]), default=0.0)
    if apart <= ROUNDING:
        return "equal to rounding"
    return "within noise" if usual > 0 and apart <= 3 * usual else "different"


def _other_records(one: Trial, other: Trial) -> bool:
    """Whether some of the losses are those of other epochs, so that only the weights can tell: of whole trainings."""
    if not (one.whole and other.whole and one.weights and other.weights) or len(one.losses) != len(other.losses):
        return False
    same_models = {name: len(each) for name, each in one.weights.items()} == {
        name: len(each) for name, each in other.weights.items()
    }
    return same_models and any(len(each) != len(other.losses.get(name, ())) for name, each in one.losses.items())


def _apart(one: Trial, other: Trial) -> float | None:
    """The largest difference, as a share; infinite if there are other models or epochs; None if nothing is known."""
    whole = one.whole and other.whole
    names = [name for name in {**one.losses, **other.losses} if len(one.losses) == len(other.losses)]
    # An edit may replace fits by single steps: the trainings are then not the same in number, but the weights are.
    compared = [(one.losses.get(name, ()), other.losses.get(name, ())) for name in names]
    if not whole:
        compared = [(a[: min(len(a), len(b))], b[: min(len(a), len(b))]) for a, b in compared]
    elif len(one.weights) == len(other.weights) or not any(a and b for a, b in compared):
        # An edit may make fewer models: the losses tell as much as the weights of all that there were.
        compared += [
            (one.weights.get(name, ()), other.weights.get(name, ())) for name in {**one.weights, **other.weights}
        ]
    if _other_records(one, other):
        compared = [(a, b) for a, b in compared if len(a) == len(b)]
    if any(len(a) != len(b) for a, b in compared):
        return math.inf
    pairs = [(a, b) for first, second in compared for a, b in zip(first, second, strict=True)]
    differences = [
        0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b) / max(abs(a), abs(b)) for a, b in pairs
    ]
    return max((math.inf if math.isnan(each) else each for each in differences), default=None)


# --- running one version -------------------------------------------------------------------------------------


class Workspace:
    """A place where versions of a script run without touching the user's files: each run in a copy of the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._place = tempfile.TemporaryDirectory(prefix="fitscope-", ignore_cleanup_errors=True)
        self._top = Path(self._place.name)
        self._guard = confine.Guard.beneath([self._top, Path("/dev"), *_caches()])
        self._number = 0

    def __enter__(self) -> Workspace:
        size = sum(file.stat().st_size for file in self._files() if not self._linked(file))
        free = shutil.disk_usage(self._top).free
        if size > min(LARGEST, free // 2):
            self._place.cleanup()
            raise FitscopeError(
                f"{self.folder} holds {words.size(size)} that would have to be copied for an experiment: start it in "
                "a folder that holds the code, with large data elsewhere."
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._guard is not None:
            self._guard.close()
        self._place.cleanup()

    def run(self, version: Version, deadline: float, seconds: float = TRAINED) -> Trial:
        """Runs a version once, from the state in which the user's folder is now; ends it after so much training."""
        path = self.record(version, deadline, seconds)
        run = store.read(path)
        return _trial(run, stopped=_was_stopped(run))

    def record(self, version: Version, deadline: float, seconds: float = TRAINED) -> Path:
        """Runs a version once; the run file, as if the script had run in the user's folder."""
        path = self._top / f"{self._number + 1}.run"
        started = time.time()
        meter = _Samples(started, lambda line: append(path, line))
        with self.copied(version) as place:
            environment = recorded(self._environment(place), path, started, seconds)
            code, last = self._start(version, place, environment, deadline, _Exit(path).look, meter)
            if code is None:
                raise FitscopeError(f"{version.name} was not done when the time for the experiment was over.")
            if not path.is_file():
                raise FitscopeError(f"no training was seen in {version.name}{_reason(last)}.")
            append(path, {"machine": machine.describe()})
            ended = {"t": round(time.time() - started, 3), "ended": "completed", "exit_code": code}
            append(path, {**ended, "wall_seconds": ended["t"]})
            run = store.read(path)
            if code != 0 and not _was_stopped(run):
                raise FitscopeError(f"{version.name} ended with exit code {code}{_reason(last)}.")
            if not account(run).regions:
                raise FitscopeError(f"no training was seen in {version.name}{_reason(last)}.")
            here, there = (json.dumps(str(each))[1:-1].encode() for each in (place, self.folder))
            path.write_bytes(path.read_bytes().replace(here, there))
        return path

    def attempt(
        self,
        version: Version,
        deadline: float,
        told: Mapping[str, str],
        watch: Callable[[Path], None] = lambda path: None,
    ) -> Attempt:
        """Runs a version once, however it ends; `told` are variables of its environment.

        `watch` may look at its run file once a second.
        """
        path = self._top / f"{self._number + 1}.run"
        started, began = time.time(), time.monotonic()
        meter, exits = _Samples(started, lambda line: append(path, line)), _Exit(path)

        def look(pid: int) -> int | None:
            watch(path)
            return NO_MEMORY if machine.memory_left() < LEAST_MEMORY else exits.look(pid)

        with self.copied(version) as place:
            environment = recorded({**self._environment(place), **told}, path, started)
            code, _ = self._start(version, place, environment, deadline, look, meter)
            append(path, {"t": round(time.time() - started, 3), "ended": "completed", "exit_code": code})
            output = (self._top / "output").read_bytes()[-KEPT_OUTPUT:].decode(errors="replace")
            run = store.read(path) if path.is_file() else None
            return Attempt(run, code, output, time.monotonic() - began)

    def alternate(
        self, version: Version, plan: Mapping[str, Any], deadline: float, look: Callable[[Path, _Samples], bool]
    ) -> tuple[Path, _Samples, str]:
        """Runs a version with a cause removed by turns, until `look` has seen enough; gives what was written.

        With it come the machine's samples and, where the script ended by itself in an error, its last line.
        """
        path = self._top / f"{self._number + 1}.stretches"
        meter = _Samples(time.time(), lambda line: None)
        with self.copied(version) as place:
            inject = recorded(self._environment(place), path, meter.started)
            environment = {name: value for name, value in inject.items() if name != start.RUN}
            environment[removals.PLAN] = json.dumps({**plan, "file": str(path), "top": str(place), "seed": int(SEED)})
            code, last = self._start(
                version, place, environment, deadline, lambda pid: 0 if look(path, meter) else None, meter
            )
        return path, meter, _reason(last) if code else ""

    @contextlib.contextmanager
    def copied(self, version: Version) -> Iterator[Path]:
        """A copy of the folder with the files of a version in it; gone afterwards."""
        self._number += 1
        place = self._top / str(self._number)
        try:
            self._copy(place)
            for name, content in version.files.items():
                (place / name).write_bytes(content)
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _environment(self, place: Path) -> dict[str, str]:
        temporary = self._top / "tmp"
        temporary.mkdir(exist_ok=True)
        found = [self._moved(entry, place) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        changed = {
            start.SEED: SEED,
            "PYTHONHASHSEED": SEED,
            "TMPDIR": str(temporary),
            "PWD": str(place),
            "PYTHONPATH": os.pathsep.join(filter(None, found)),
        }
        return {**os.environ, **changed}

    def _start(
        self,
        version: Version,
        place: Path,
        environment: Mapping[str, str],
        deadline: float,
        look: Callable[[int], int | None],
        samples: _Samples,
    ) -> tuple[int | None, str]:
        """Starts a version in a session of its own and waits for it; gives its exit code and its last line.

        `look` is asked once a second for the process: a number ends it, as its exit code.
        """
        output = self._top / "output"
        with output.open("wb") as file:
            child = subprocess.Popen(
                version.command,
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=self._enter,
            )
            try:
                code = _wait(child, look, samples, deadline)
            finally:
                _end(child)
        lines = output.read_text(errors="replace").strip().splitlines()
        return code, lines[-1] if lines else ""

    def _enter(self) -> None:
        """In the child, before it becomes the script: if memory runs out it goes first; then it is confined."""
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
            file.write("1000")
        if self._guard is not None:
            self._guard.enter()

    def _moved(self, entry: str, place: Path) -> str:
        """A folder of PYTHONPATH, in the copy if it is below the folder that was copied."""
        path = Path(entry).resolve() if entry else None
        return str(place / path.relative_to(self.folder)) if path and path.is_relative_to(self.folder) else entry

    def _copy(self, place: Path) -> None:
        place.mkdir()
        for file in self._files():
            target = place / file.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if file.is_symlink():
                target.symlink_to((file.parent / file.readlink()).absolute())
            elif self._linked(file):
                target.symlink_to(file)
            else:
                shutil.copy2(file, target)

    def _files(self) -> Iterator[Path]:
        for top, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if name not in NOT_COPIED]
            for name in [*folders, *names]:
                path = Path(top, name)
                if path.is_symlink() or (name in names and path.is_file()):
                    yield path

    def _linked(self, file: Path) -> bool:
        """Whether a file is too large to copy and cannot be written through a link."""
        return self._guard is not None and not file.is_symlink() and file.stat().st_size > LINKED


def unguarded() -> str:
    """What the runs of an experiment may do to other files, where the system cannot forbid it; else nothing."""
    guard = confine.Guard.beneath([])
    if guard is None:
        return "this system cannot forbid it: what the script writes outside of its folder it writes now, too"
    guard.close()
    return ""


def _caches() -> list[Path]:
    """Folders that hold nothing but what can be made again."""
    home = Path.home()
    return [path for path in (home / ".cache", home / ".keras") if path.is_dir()]


class _Samples:
    """What the machine did, second by second, while a child ran."""

    def __init__(self, started: float, write: Callable[[dict[str, Any]], None]) -> None:
        self.started = started
        self.foreign: list[tuple[float, float]] = []
        """Seconds since the start, and the processors that other programs used up to then."""
        self._write = write

    def add(self, line: dict[str, Any]) -> None:
        """One more sample."""
        sample = line["sample"]
        self.foreign.append((line["t"], max(0.0, sum(sample["cores"]) - sample["cpu"])))
        self._write(line)


def _wait(
    child: subprocess.Popen[bytes], look: Callable[[int], int | None], samples: _Samples, deadline: float
) -> int | None:
    """Waits for a child and measures the machine once a second; None if the time is over."""
    meter: machine.Meter | None = None
    with contextlib.suppress(Exception):
        meter = machine.Meter(child.pid, samples.started, samples.add)
    while True:
        try:
            code = child.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            if meter is not None:
                meter.read()  # from the beginning: the first look at a process knows nothing of what it used before
            found = look(child.pid)
            if found is not None:
                return found
            if time.monotonic() > deadline + GRACE:
                return None
        else:
            return code


class _Exit:
    """Whether a script is done but its process does not end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since: float | None = None

    def look(self, pid: int) -> int | None:
        """Its exit code, once it has had time enough to end."""
        last = last_words(self._path, pid)
        if not last.get("exiting"):
            return None
        self._since = self._since or time.monotonic()
        return int(last.get("exit_code") or 0) if time.monotonic() - self._since > GRACE else None


def _was_stopped(run: Run) -> bool:
    """Whether a run was ended because enough was recorded."""
    return any(fact["fact"] == "stopped" for fact in run.facts)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends what a child has left running, its children included."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=GRACE)
            if number == signal.SIGTERM:
                time.sleep(0.05)


def _reason(last: str) -> str:
    return f": {last.strip()[:200]}" if last.strip() else ""


def _trial(run: Run, *, stopped: bool) -> Trial:
    whole = account(run)
    use = whole.use
    foreign = max(0.0, use.cores_busy - use.process_cpu) if use is not None and len(use.over_time) > 2 else 0.0
    seconds = sum(region.wall_seconds for region in whole.regions)
    training = [region for region in whole.regions if region.call in ("fit", "loop", "train_on_batch")]
    steps = sum(region.steps for region in training or whole.regions)
    return Trial(seconds, (seconds - once(whole)) / max(1, steps), not stopped, *scores_of(run), foreign)


def once(whole: Account) -> float:
    """Seconds that a training takes once, however long it is: preparing, and compiling for the first time."""
    regions = whole.regions
    spent = sum(part.seconds for region in regions for part in region.parts if part.phase in ("compile", "setup"))
    again = sum(item.seconds for region in regions for item in region.compiles if item.cause not in FIRST)
    return max(0.0, spent - again)


def scores_of(run: Run) -> tuple[Scores, Scores]:
    """The losses by epoch, of every training in turn, and the sums of all weights at the end."""
    histories = [fact["scores"] for fact in run.facts if fact["fact"] == "history"]
    sums = [fact["sums"] for fact in run.facts if fact["fact"] == "weights"]
    losses = {
        f"{name} of training {number}": tuple(values)
        for number, scores in enumerate(histories, 1)
        for name, values in scores.items()
    }
    return losses, {name: tuple(values) for each in sums for name, values in each.items()}


def script_version(name: str, script: Path, arguments: Sequence[str], files: Mapping[str, bytes]) -> Version:
    """A version of a script that is started by Python, as `python SCRIPT ARGS…` is."""
    return Version(name, (sys.executable, script.as_posix(), *arguments), files)
