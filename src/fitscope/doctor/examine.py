"""Each thing that can be wrong with a machine, looked at once, with one sentence about it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from fitscope import limits, machine, words
from fitscope.doctor import speed

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
PATIENCE = 40.0
"""Seconds that one backend may take to answer."""
SLOW_DISK = 30e6
"""Bytes per second: less than this and any training that reads its data waits for it."""
LITTLE_MEMORY = 0.05
"""Of all memory: with less than this left a training will swap or be killed."""

LOOKING = 0.5
"""Seconds for which the other programs are watched."""
BUSY_CORES = 0.5

FINE, WRONG, UNKNOWN = "fine", "wrong", "unknown"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: fine, wrong, or not to be told; and the numbers that this rests on."""

    name: str
    state: str
    says: str
    facts: dict[str, Any] = field(default_factory=dict)


def examine(folder: Path = Path()) -> Iterator[Check]:
    """All checks, one after the other, so that they do not disturb what the next one measures."""
    found = machine.accelerators()
    if any(each.driver for each in found) and not _users(found):
        found = machine.by_nvidia_smi() or found
    allowed = limits.limits()
    yield accelerator(found, machine.driver_version())
    yield load(psutil.cpu_percent(interval=LOOKING) / 100 * allowed["cores"], allowed)
    answers: dict[str, dict[str, Any]] = {}
    installed = [name for name in BACKENDS if importlib.util.find_spec(name) is not None]
    for name in installed:
        answers[name] = ask(name, without_device=any(each.users for each in found))
        yield backend(name, answers[name], found)
    if not installed:
        yield Check(
            "backend",
            UNKNOWN,
            f"Neither TensorFlow nor JAX nor PyTorch is installed for {sys.executable}: "
            "what a backend would see and reach is not known.",
        )
    yield threads(allowed, {name: answer["threads"] for name, answer in answers.items() if "threads" in answer})
    yield memory(allowed)
    yield measured("disk", lambda: disk(folder))
    yield measured("memory bandwidth", lambda: bandwidth(allowed))


def accelerator(found: list[machine.Accelerator], driver: str | None) -> Check:
    """Whether there is a GPU, and a driver for it."""
    facts = {"devices": [each.name for each in found], "driver": driver, "in_use_by": _users(found)}
    without = [each.name for each in found if not each.driver]
    if without:
        says = f"{', '.join(without)} is in the machine, but no driver has it: install the vendor's driver."
        return Check("accelerator", WRONG, says, facts)
    if not found:
        return Check("accelerator", FINE, "There is no GPU in this machine, as far as its bus tells.", facts)
    says = ", ".join(each.name for each in found) + (f", driver {driver}" if driver else "")
    if facts["in_use_by"]:
        says += f"; in use by {_processes(found)}: the backends are asked without it, and nothing is measured on it"
    return Check("accelerator", FINE, f"{says}.", facts)


def load(busy: float, allowed: dict[str, Any]) -> Check:
    """Whether other programs leave the processors alone: what is measured beside them is too low."""
    facts = {"cores_busy": busy}
    if busy < BUSY_CORES:
        return Check("other programs", FINE, "They leave the processors alone.", facts)
    says = f"They use {busy:.1f} of {words.count(allowed['cores'], 'core')} now: the rates below are lower for it."
    return Check("other programs", UNKNOWN, says, facts)


def backend(name: str, answer: dict[str, Any], found: list[machine.Accelerator]) -> Check:
    """Whether a backend works, whether it sees the GPU that exists, and what it reaches."""
    title = BACKENDS[name]
    if "problem" in answer:
        return Check(title, WRONG, f"{title} is installed but does not work: {answer['problem']}", answer)
    reaches = f"a matrix multiplication in float32 reaches {_flops(answer['flops'])}"
    says = f"{answer['version']}, {answer['wheel']} wheel"
    if answer["devices"]:
        seen = words.count(len(answer["devices"]), "device")
        return Check(title, FINE, f"{says}, sees {seen}; {reaches}.", answer)
    if not any(each.driver for each in found):
        return Check(title, FINE, f"{says}; on the CPU {reaches}.", answer)
    if _users(found):
        return Check(title, UNKNOWN, f"{says}; not asked for its GPU, which is in use. On the CPU {reaches}.", answer)
    if answer["wheel"] == "CPU":
        why = "this wheel is built for the CPU only; install the one for the GPU"
    elif answer["hidden"]:
        why = "hidden by " + ", ".join(f"{key}={value!r}" for key, value in answer["hidden"].items())
    else:
        why = "its driver or a library that the wheel needs is missing or too old"
    return Check(title, WRONG, f"{says}, does not see the GPU that is there: {why}.", answer)


def threads(allowed: dict[str, Any], by_backend: dict[str, dict[str, int | None]]) -> Check:
    """Whether backends compute with as many threads as there are cores for them."""
    may = limits.may_use(allowed["usable_cores"], allowed["quota_cores"])
    environment = limits.settings(limits.THREAD_VARIABLES)
    facts = {**allowed, "environment": environment, "backends": by_backend}
    cores = f"{allowed['usable_cores']} of {words.count(allowed['cores'], 'core')} usable"
    if allowed["quota_cores"] is not None:
        cores += f", limited to {allowed['quota_cores']:g} by the container"
    wrong = []
    for name, found in by_backend.items():
        intra = found["intra"] or allowed["usable_cores"]
        if limits.crowded(intra, may):
            wrong.append(
                f"{BACKENDS[name]} computes with {words.count(intra, 'thread')} where {may:g} cores may be used: "
                f"they get in each other's way. Set {_setting(name)} to {max(1, int(may))}"
            )
        elif limits.starved(intra, may):
            wrong.append(
                f"{BACKENDS[name]} computes with {words.count(intra, 'thread')} where {may:g} cores may be used"
                + (f" ({', '.join(f'{key}={value}' for key, value in environment.items())})" if environment else "")
            )
    if wrong:
        return Check("threads", WRONG, f"{cores}. {'. '.join(wrong)}.", facts)
    set_by = "".join(f", {key}={value}" for key, value in environment.items())
    return Check("threads", FINE, f"{cores}{set_by}; the backends' threads fit.", facts)


def _setting(name: str) -> str:
    return {"tensorflow": "TF_NUM_INTRAOP_THREADS", "jax": "NPROC"}.get(name, "OMP_NUM_THREADS")


def memory(allowed: dict[str, Any]) -> Check:
    """Whether there is memory left, in the machine and in the container."""
    state, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit, used = allowed["memory_limit_bytes"], limits.group_memory_used()
    total = min(state.total, limit or state.total)
    left = min(state.available, max(0, limit - used) if limit and used is not None else state.available)
    facts = {"total_bytes": total, "available_bytes": left, "limit_bytes": limit, "swap_used_bytes": swap.used}
    says = f"{words.size(left)} of {words.size(total)} free"
    if limit and limit < state.total:
        says += f" (the container's limit; the machine has {words.size(state.total)})"
    says += f", {words.size(swap.used)} swapped out" if swap.total else ", no swap"
    if left < LITTLE_MEMORY * total:
        return Check("memory", WRONG, f"{says}: a training that needs more will swap or be killed.", facts)
    return Check("memory", FINE, f"{says}.", facts)


def disk(folder: Path) -> Check:
    """How fast this folder's disk is read."""
    read = speed.disk_rate(folder)
    facts = {"bytes_per_second": read.bytes_per_second, "how": read.how}
    how = {"direct": "", "dropped": ", after the cache was dropped", "cached": ", from the cache: not the disk"}
    says = f"{words.size(read.bytes_per_second)}/s read in this folder, one block after the other{how[read.how]}"
    if read.bytes_per_second < SLOW_DISK:
        return Check("disk", WRONG, f"{says}: a training that reads its data from here waits for it.", facts)
    return Check("disk", UNKNOWN if read.how == "cached" else FINE, f"{says}.", facts)


def bandwidth(allowed: dict[str, Any]) -> Check:
    """How fast memory is copied."""
    count = max(1, min(8, int(limits.may_use(allowed["usable_cores"], allowed["quota_cores"]))))
    one, all_ = speed.copy_rate(1), speed.copy_rate(count)
    facts = {"one_thread": one, "threads": count, "all_threads": all_}
    says = f"{words.size(one)}/s copied by one thread, {words.size(all_)}/s by {count}."
    return Check("memory bandwidth", FINE, says, facts)


def ask(name: str, *, without_device: bool) -> dict[str, Any]:
    """What a backend says of itself, asked in a process of its own."""
    command = [sys.executable, "-m", "fitscope.doctor.probe", name, *(["--without-device"] if without_device else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {"problem": f"it did not answer within {PATIENCE:.0f} seconds."}
    except OSError as error:
        return {"problem": f"it could not be started ({error.strerror})."}
    hidden = {} if without_device else limits.settings(limits.DEVICE_VARIABLES)
    try:
        return {**json.loads(done.stdout.strip().splitlines()[-1]), "hidden": hidden}
    except (ValueError, IndexError):
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"problem": lines[-1].strip()[:300] if lines else f"it ended with exit code {done.returncode}."}


def measured(name: str, measure: Callable[[], Check]) -> Check:
    """A measurement, or why there is none."""
    try:
        return measure()
    except (OSError, AttributeError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or error
        return Check(name, UNKNOWN, f"Not measured: {reason}.")


def _users(found: list[machine.Accelerator]) -> list[int]:
    return sorted({pid for each in found for pid in each.users})


def _processes(found: list[machine.Accelerator]) -> str:
    users = _users(found)
    return f"process{'es' if len(users) > 1 else ''} {', '.join(map(str, users))}"


def _flops(value: float) -> str:
    return f"{value / 1e12:.1f} TFLOP/s" if value >= 1e12 else f"{value / 1e9:.0f} GFLOP/s"
