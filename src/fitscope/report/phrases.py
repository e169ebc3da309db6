"""The sentences of a report, as the terminal, the page and Markdown all say them."""

from __future__ import annotations

from pathlib import Path

from fitscope import words
from fitscope.model import Account, Line, Part, Region, Report, Run, Stage

ENDED = {
    "completed": "",
    "exception": "ended by an exception",
    "exit": "ended by sys.exit",
    "interrupted": "interrupted",
    "terminated": "terminated",
    "killed": "killed",
}
NAMES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
CLOSING, MUCH_CLOSING = "closing the input pipeline", 0.1
"""From this share of a training on it is worth a remark: without the autotuner one took 0.6 to 0.85 of the time."""
OUTSIDE = 0.01
"""From this share of the script on, what was outside of any training is told."""
USER_CODE = ("callback", "checkpoint", "data", "step")


def headline(run: Run) -> list[str]:
    """What was run, for how long, on what, and how it ended."""
    script = Path(run.script).name if Path(run.script).is_absolute() else run.script
    parts = [script or "script", words.seconds(run.wall_seconds)]
    if run.backend:
        parts.append(f"Keras {run.versions.get('keras', '3')} on {NAMES.get(run.backend, run.backend)}")
    ended = ENDED.get(run.ended, run.ended)
    if ended:
        parts.append(f"{ended}, exit code {run.exit_code}" if run.exit_code is not None else ended)
    return parts


def nothing(account: Account) -> str:
    """What is said where no training was seen."""
    if account.notes:
        return "No training was seen."
    return (
        "No training was seen: the script called no fit, evaluate, predict or train_on_batch of a Keras 3 model, "
        "and no loop over a dataset with a Keras model in it or with a Keras optimizer."
    )


def verdict(report: Report) -> str:
    """The one sentence to read: the dearest finding, or that there is none."""
    if not report.account.regions:
        return nothing(report.account)
    if report.findings:
        return report.findings[0].says
    return all_is_well(report) or report.doubts[0]


def title(region: Region) -> str:
    """What trained, and where in the code."""
    return f"{region.call} {words.place(region.where)}".rstrip()


def facts(region: Region) -> list[str]:
    """How long a region took, how often it was called, and how long its steps were."""
    found = [words.seconds(region.wall_seconds)]
    if region.calls > 1:
        found.append(words.count(region.calls, "call"))
    if region.epochs:
        found.append(words.count(region.epochs, "epoch"))
    found.append(words.count(region.steps, "step"))
    if region.step_seconds is not None:
        median, p95 = words.seconds(region.step_seconds.median), words.seconds(region.step_seconds.p95)
        found.append(f"{median} per step (p95 {p95})")
    return found


def unseen(report: Report) -> list[str]:
    """What was not seen, or not for certain."""
    account = report.account
    found = [*account.notes, *report.doubts]
    for region in account.regions:
        found += region.notes
        found += [
            f"{words.share(part.share)} of {title(region)} could not be explained."
            for part in region.parts
            if part.phase == "unexplained" and part.name == "rest" and part.share >= 0.005
        ]
    if any(cost.kind == "sampled" for cost in account.lines):
        found.append("Lines of code marked ≈ were found by looking at the program many times a second.")
    if any("processes" in workers for region in account.regions for workers in region.workers):
        found.append("The time inside worker processes is not seen; the wait for them is.")
    if account.use is not None and account.use.gpu_utilization:
        found.append("On a GPU the step is what the host saw of it: launching, and waiting when logs are read.")
    if account.regions and account.outside_seconds >= OUTSIDE * report.run.wall_seconds:
        outside = words.seconds(account.outside_seconds)
        found.append(
            f"{outside} of the script were outside of any training (imports, preparing data) and are not split up."
        )
    return found


def all_is_well(report: Report) -> str:
    """What is said where there is nothing to change; empty where something makes that doubtful."""
    if report.findings or report.doubts or not report.account.regions:
        return ""
    return "Nothing found that is worth changing: no cause took 3 % of the training or more."


def label(part: Part) -> str:
    """The name of a part, after its phase."""
    name = "" if part.name in (part.phase, "") else part.name
    if part.phase == "gc":
        return f"gc, during: {name}"
    return f"{part.phase}: {name}" if name else part.phase


def line_of_code(line: Line, part: Part) -> str:
    """Where in the user's code the time of a part went."""
    function = "" if part.name.endswith(line.function) else f" in {line.function}"
    return f"≈{words.share(line.share)} at {words.place(line.where)}{function}"


def remarks(region: Region) -> list[str]:
    """What is worth knowing of a region beside its parts."""
    found = []
    stage = slowest(region)
    if stage is not None:
        found.append(_slowest(stage))
    for workers in region.workers:
        found.append(f"Input by {workers}.")
    closing = sum(part.seconds for part in region.parts if part.name == CLOSING)
    from_dataset = any((part.phase, part.name) == ("data", "tf.data") for part in region.parts)
    if from_dataset and closing >= MUCH_CLOSING * region.wall_seconds:
        found.append(
            f"Closing the tf.data pipeline took {words.seconds(closing)}, as TensorFlow's ends now and then do. With "
            "options.autotune.enabled = False on the dataset that was not seen; AUTOTUNE then adapts no more."
        )
    again = [item for item in region.compiles if item.cause not in ("first", "variables created")]
    if again:
        item = max(again, key=lambda item: item.seconds)
        times = words.count(sum(each.count for each in again), "time")
        detail = f" ({item.detail})" if item.detail else ""
        found.append(f"Compiled again {times}: {item.function}, {item.cause}{detail}.")
    if region.forced_sync:
        names = ", ".join(region.forced_sync)
        verb = "makes" if len(region.forced_sync) == 1 else "make"
        found.append(f"{names} {verb} Keras wait for every step (a batch-end hook without async_safe).")
    found.extend(region.notes)
    return found


def slowest(region: Region) -> Stage | None:
    """The stage of the input that holds the training up, if it waits for data at all."""
    slowest = next((stage for stage in region.stages if stage.seconds_per_batch), None)
    # Around a loading function of the user's, Keras makes a pipeline: the function is what the user knows.
    yours = next((stage for stage in region.stages if stage.working is not None and stage.seconds_per_batch), None)
    if slowest is not None and yours is not None and _busy(yours) >= 0.7 * _busy(slowest):
        slowest = yours
    waits = sum(part.share for part in region.parts if part.phase == "data")
    return slowest if waits >= 0.05 else None


def _busy(stage: Stage) -> float:
    return stage.seconds_per_batch or 0.0


def _slowest(stage: Stage) -> str:
    where = f" ({words.place(stage.where)})" if stage.where else ""
    parallel = f", {stage.parallelism} at once" if stage.parallelism > 1 else ", one at a time"
    seconds = words.seconds(stage.seconds_per_batch or 0.0)
    return f"Slowest in the input: {stage.name}{where}, {seconds} of work per batch{parallel}."
