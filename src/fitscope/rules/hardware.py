"""Causes in the machine: an accelerator that idles, memory that runs out, steps that get slower."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from fitscope import words
from fitscope.limits import DEVICE_VARIABLES, THREAD_VARIABLES, starved
from fitscope.model import Evidence, Line, Part, Region
from fitscope.rules.case import FEW_LOOKS, FOREIGN_CORES, Case, counted, seconds_of, share, took
from fitscope.rules.rule import Cause, Rule, example


class HardwareRule(Rule):
    """A cause in the machine."""

    family = "hardware"


class InvisibleAccelerator(HardwareRule):
    """The machine has a GPU, and the training runs on the CPU.

    A CPU-only wheel, a missing driver library or a hidden device: the backend goes on without a word.

    fitscope says so when the driver lists a GPU and the weights are on the CPU.

    Change: what `fitscope doctor` says; most often install the backend's wheel for the GPU, or take back
    `CUDA_VISIBLE_DEVICES`.
    """

    code = "FS601"
    name = "invisible-accelerator"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Compares the devices that exist with the one that trains."""
        gpus = case.run.machine.get("gpus") or ()
        for region in case.regions("fit")[:1]:
            settings = case.settings(region)
            if not gpus or settings.get("device") != "cpu":
                continue
            environment = (settings.get("threads") or {}).get("environment", {})
            hidden = [f"{name}={environment[name]!r}" for name in DEVICE_VARIABLES if name in environment]
            yield Cause(
                says="The machine has a GPU, and the training runs on the CPU"
                + (f": {' and '.join(hidden)} hides it." if hidden else "."),
                where=region.where,
                evidence=(Evidence("GPUs that the driver lists", len(gpus), "count"),),
                saves=(0.0, 0.9 * seconds_of(region, "step")),
                remedy="`fitscope doctor` says why: a wheel for the CPU only, no driver library, or a variable.",
            )


class IdleAccelerator(HardwareRule):
    """The GPU waits for most of the time.

    fitscope says so when the GPU was busy for less than half of the training on average, and names the part that
    it waits for.

    Change: what the other findings say about that part.
    """

    code = "FS602"
    name = "idle-accelerator"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at the utilization that was sampled, and at who kept the device waiting."""
        use = case.account.use
        if use is None or not use.gpu_utilization or max(use.gpu_utilization) >= 0.5:
            return
        for region in case.regions("fit")[:1]:
            others = [part for part in region.parts if part.phase != "step"]
            part = max(others, key=lambda each: each.seconds, default=None)
            if part is not None and case.settings(region).get("device") == "gpu" and case.matters(part.seconds, 0.1):
                yield Cause(
                    says=f"The GPU waits, for {part.phase}: {part.name} above all.",
                    where=part.where or region.where,
                    evidence=(
                        share("busy was the GPU", max(use.gpu_utilization)),
                        share(f"of the training is {part.phase}", part.seconds / case.seconds),
                    ),
                    saves=(0.0, part.seconds),
                    remedy="See the finding on that part.",
                )


class MemoryPressure(HardwareRule):
    """The machine ran short of memory and swapped.

    fitscope says so when memory was swapped out on this machine, or the process filled its container's memory, and it
    had to read pages back from disk all the time.

    Change: a smaller `shuffle` or `cache`, data as `uint8` until it is used, a smaller batch.
    """

    code = "FS603"
    name = "memory-pressure"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Looks at swap and at page faults."""
        use = case.account.use
        if use is None or not case.regions() or case.run.wall_seconds < 5:
            return
        faults = use.major_faults / case.run.wall_seconds
        limit = int(case.run.machine.get("memory_limit_bytes") or 0)
        full = limit > 0 and use.memory_peak_bytes >= 0.9 * limit
        if (use.swap_bytes < 200e6 and not full) or faults < 50:
            return
        swapped = f"{words.size(use.swap_bytes)} were swapped out"
        yield Cause(
            says=f"The machine ran short of memory: {swapped}."
            if not full
            else f"The training filled the {words.size(limit)} of memory that its container has.",
            where=case.regions()[0].where,
            evidence=(
                Evidence("of memory used at most", use.memory_peak_bytes, "bytes"),
                Evidence("swapped out", use.swap_bytes, "bytes"),
                Evidence("page faults from disk per second", faults, "count"),
            ),
            saves=(0.0, 0.3 * case.seconds),
            remedy="Keep less in memory: a smaller shuffle buffer or cache, uint8 data, a smaller batch.",
        )


class SlowingDown(HardwareRule):
    """Steps get slower as the training goes on.

    Something grows: a list in a callback, a graph, a history, the memory.

    fitscope says so when the steps are divided into five stretches, their medians rise from one to the next, not all
    at once, and the last is at least 1.5 times the first.

    Change: find what grows; the report names the hook or the line that the steps were found in, and the memory that
    the process gained meanwhile.
    """

    code = "FS604"
    name = "slowing-down"
    rank = 30
    examples = (example("slowing-down", estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Compares five stretches of every training."""
        if case.foreign_cores >= FOREIGN_CORES:
            return  # another program that began meanwhile looks the same
        for region in case.regions("fit", "loop", "train_on_batch"):
            if region.call == "fit" and region.calls > 1:
                continue  # several trainings may differ
            if case.run.backend == "jax" and not region.forced_sync:
                continue  # there a step is timed where it is dispatched
            durations = region.durations[max(10, len(region.durations) // 50) :]
            if len(durations) < 250 or region.wall_seconds < 2:
                continue
            size = len(durations) // 5
            middles = [median(durations[start : start + size]) for start in range(0, 5 * size, size)]
            # What grows does so all along; a machine that is disturbed, or buffers that run empty, come all at once.
            rising = sum(later >= 1.05 * earlier for earlier, later in pairwise(middles)) >= 3
            rising = rising and middles[-1] >= 0.9 * max(middles)
            # Single long steps, such as those that compile, are no growth. Steps of the first fifth got slower, too.
            begin = max(0.25 * middles[0], middles[0] - max(0.0, middles[1] - middles[0]) / 2)
            lost = size * sum(max(0.0, middle - begin) for middle in middles)
            if not rising or middles[-1] < 1.5 * middles[0] or not case.matters(lost, 0.1):
                continue
            use = case.account.use
            hook, line = _grows_in(region), _found_at(region)
            where = hook.where if hook is not None else line.where if line is not None else None
            grown = use.memory_grown_bytes if use is not None else 0
            with_memory = f"; the process grew by {words.size(grown)} meanwhile" if grown > 200e6 else ""
            yield Cause(
                says=f"Steps got {middles[-1] / middles[0]:.1f} times slower over the run{with_memory}.",
                where=where or region.where,
                evidence=(
                    took("per step in the first fifth", middles[0]),
                    took("per step in the last fifth", middles[-1]),
                    *([share(f"of the looks at the step found it in {line.function}", line.share)] if line else []),
                ),
                saves=case.saves(0.9 * lost),
                remedy="Find what grows from step to step (a list, a graph, a history), and keep it bounded.",
                claims=frozenset({f"{id(region)}:growth"}),
                shares={f"{id(region)}:hook:{hook.name}": 0.9 * lost} if hook is not None else {},
            )


def _grows_in(region: Region) -> Part | None:
    """The hook that takes the longest, if one does."""
    hooks = [part for part in region.parts if part.phase == "callback" and part.share >= 0.2]
    return hooks[0] if hooks else None


def _found_at(region: Region) -> Line | None:
    """The line of the user's code that most looks at the steps found, if no hook grows."""
    if _grows_in(region) is not None:
        return None
    lines = [line for part in region.parts if part.phase == "step" for line in part.lines]
    found = max(lines, key=lambda line: line.samples, default=None)
    return found if found is not None and found.share >= 0.6 and found.samples >= FEW_LOOKS else None


HELD_UP = 0.25
"""The part of the time that threads want a core in which they had none, from which on there are too many of them."""
SETS_THREADS = r"set_num_threads|intra_op_parallelism_threads|OMP_NUM_THREADS"
HARD_STEP = 1e8
"""Floating point operations in a step from which on several threads pay."""
WORKING = 2e9
"""Operations per second: a step that does fewer spends its time elsewhere, and threads are not what it lacks."""


class ThreadRule(HardwareRule):
    """A number of threads that does not fit the cores, in a training whose steps compute."""

    def computing(self, case: Case) -> Iterable[tuple[Region, int, float, float]]:
        """Regions on the CPU whose steps compute: with threads, usable cores and operations per second."""
        for region in case.regions("fit", "train_on_batch"):
            settings = case.settings(region)
            threads = settings.get("threads") or {}
            each, batch = case.work(region), settings.get("batch_size")
            step = seconds_of(region, "step")
            if settings.get("device") != "cpu" or not threads.get("intra") or not each or not batch or not step:
                continue
            operations = each * batch
            rate = operations * region.steps / step
            if operations >= HARD_STEP and rate >= WORKING and case.matters(step, 0.3):
                yield region, int(threads["intra"]), float(threads["cores"]), rate

    def set_by(self, case: Case, region: Region) -> str:
        """Which variables set the threads, as words in brackets; nothing if none does."""
        environment = case.settings(region)["threads"].get("environment", {})
        found = [f"{name}={environment[name]}" for name in THREAD_VARIABLES if name in environment]
        return f" ({', '.join(found)})" if found else ""

    def setter(self, case: Case) -> str:
        """How the number is set on this backend."""
        if case.run.backend == "tensorflow":
            return "tf.config.threading.set_intra_op_parallelism_threads"
        return "torch.set_num_threads"


class ThreadOversubscription(ThreadRule):
    """More threads compute than there are cores for them, and they wait for one another.

    The threads of one operation finish together: one that has no core holds all of them up. Workers that load data
    take cores from them; a number of threads may have been copied from a larger machine; and in a container that is
    given a part of the machine, backends count all of its cores.

    fitscope says so when threads and worker processes are more than the cores that the process may use, the steps
    compute, and the kernel counted that threads of the training wanted a core and had none for a large part of the
    time.

    Change: fewer threads, so that they fit beside the workers: `torch.set_num_threads`, `OMP_NUM_THREADS`,
    `tf.config.threading.set_intra_op_parallelism_threads`.
    """

    code = "FS605"
    name = "thread-oversubscription"

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Holds threads and workers against the cores, and against what the kernel counted."""
        use = case.account.use
        if case.foreign_cores >= FOREIGN_CORES or use is None or use.held_up is None:
            return  # other programs hold threads up, too
        for region, threads, cores, _ in self.computing(case):
            workers = max((fact["workers"] for fact in case.facts("workers", region) if fact["processes"]), default=0)
            if threads < 2 or threads + workers <= cores or use.held_up < HELD_UP:
                continue
            step = seconds_of(region, "step")
            fitting = max(1, int(cores) - workers) if workers else max(1, int(cores))
            beside = f" beside {words.count(workers, 'worker process')}" if workers else ""
            yield Cause(
                says=f"{words.count(threads, 'thread')} compute on {words.count(int(cores), 'core')}{beside}"
                f"{self.set_by(case, region)}: they wait for one another.",
                where=case.find(SETS_THREADS, imported=True) or region.where,
                evidence=(
                    counted("threads that compute one operation", threads),
                    counted("cores that the process may use", cores),
                    share("of the time that its threads wanted a core, they had none", use.held_up),
                    share("of the training is the step", step / case.seconds),
                ),
                saves=(0.0, use.held_up * step),
                remedy=f"Compute with fewer threads: {self.setter(case)}({fitting}).",
                claims=frozenset({f"{id(region)}:threads"}),
            )


class ThreadStarvation(ThreadRule):
    """The backend computes with fewer threads than there are cores.

    `OMP_NUM_THREADS=1` of a batch system or a launcher, or a number that was set for a loader's workers.

    fitscope says so when the backend has at most half as many threads as the process may use cores, the steps compute
    (from the model's multiplications and the measured time), and the other cores were idle.

    Change: as many threads as cores: `torch.set_num_threads`, `OMP_NUM_THREADS`,
    `tf.config.threading.set_intra_op_parallelism_threads`.
    """

    code = "FS606"
    name = "thread-starvation"
    examples = (example("thread-starvation", backends=("torch",), estimable=False),)

    def diagnose(self, case: Case) -> Iterable[Cause]:
        """Holds the threads against the cores that were idle."""
        use = case.account.use
        if case.foreign_cores >= FOREIGN_CORES:
            return  # cores that other programs use are not idle
        for region, threads, cores, rate in self.computing(case):
            if not starved(threads, cores) or use is None or use.process_cpu > threads + 0.4:
                continue
            step = seconds_of(region, "step")
            gain = min(cores / threads, 8.0)
            yield Cause(
                says=f"{words.count(threads, 'thread')} {'computes' if threads == 1 else 'compute'} where "
                f"{words.count(int(cores), 'core')} could{self.set_by(case, region)}.",
                where=case.find(SETS_THREADS, imported=True) or region.where,
                evidence=(
                    counted("threads that compute one operation", threads),
                    counted("cores that the process may use", cores),
                    counted("cores that it used", use.process_cpu),
                    counted("GFLOP/s that the step reached", rate / 1e9),
                ),
                saves=(step * (1 - 1 / (1 + 0.2 * (gain - 1))), step * (1 - 1 / gain)),
                remedy=f"Compute with as many threads as there are cores: {self.setter(case)}({int(cores)}).",
                claims=frozenset({f"{id(region)}:threads"}),
            )


RULES = (
    InvisibleAccelerator(),
    IdleAccelerator(),
    MemoryPressure(),
    SlowingDown(),
    ThreadOversubscription(),
    ThreadStarvation(),
)
