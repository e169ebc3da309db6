"""What the machine is and what it does while a training runs, read with psutil and, for GPUs, NVML."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from fitscope.limits import limits

SHORTEST = 0.2
"""Seconds: in less, the kernel's hundredths of a second of processor time are mostly rounding."""
MOST_APART = 10.0
"""Seconds between two of the dearer looks, at most."""


@dataclass(frozen=True)
class Accelerator:
    """A device that exists, whoever sees it: by its driver, or on the bus alone."""

    name: str
    driver: bool
    users: tuple[int, ...] = ()
    """Processes that compute on it now, as far as the driver tells."""


def describe() -> dict[str, Any]:
    """What the machine has."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [each.name for each in accelerators() if each.driver],
        **limits(),
    }


VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD"}
DISPLAY, COMPUTE = ("0x0300", "0x0302", "0x0380"), ("0x1200",)
"""Classes of devices on the bus: graphics, and processing accelerators."""


def accelerators(root: Path = Path("/")) -> list[Accelerator]:
    """The GPUs that exist: as NVML or the driver's own files list them, else as they sit on the bus."""
    if root == Path("/"):
        by_nvml = _by_nvml()
        if by_nvml:
            return by_nvml
        if platform.system() == "Darwin" and platform.machine() == "arm64":
            return [Accelerator("Apple GPU", driver=True)]
    listed = [Accelerator(_nvidia_name(file), driver=True) for file in _folder(root, "proc/driver/nvidia/gpus")]
    return listed or _on_the_bus(root)


def driver_version(root: Path = Path("/")) -> str | None:
    """The version of NVIDIA's driver, if it is loaded."""
    with contextlib.suppress(OSError):
        words = (root / "proc/driver/nvidia/version").read_text().split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    return None


def _by_nvml() -> list[Accelerator]:
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [
            Accelerator(
                str(pynvml.nvmlDeviceGetName(handle)),
                driver=True,
                users=tuple(process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)),
            )
            for handle in handles
        ]
    except Exception:
        return []


def by_nvidia_smi() -> list[Accelerator]:
    """The GPUs that `nvidia-smi` lists, with the processes on them: another program, so only `doctor` starts it."""

    def ask(what: str, columns: str) -> list[list[str]]:
        words = ["nvidia-smi", f"--query-{what}={columns}", "--format=csv,noheader"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
        return [line.split(", ") for line in done.stdout.splitlines() if line.strip()]

    try:
        users: dict[str, list[int]] = {}
        for uuid, pid in ask("compute-apps", "gpu_uuid,pid"):
            users.setdefault(uuid, []).append(int(pid))
        return [
            Accelerator(name, driver=True, users=tuple(users.get(uuid, ()))) for name, uuid in ask("gpu", "name,uuid")
        ]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []


def _nvidia_name(folder: Path) -> str:
    with contextlib.suppress(OSError):
        for line in (folder / "information").read_text().splitlines():
            if line.startswith("Model:"):
                return line.split(":", 1)[1].strip()
    return "NVIDIA GPU"


def _on_the_bus(root: Path) -> list[Accelerator]:
    found = []
    amd_driver = (root / "dev/kfd").exists()
    for folder in _folder(root, "sys/bus/pci/devices"):
        with contextlib.suppress(OSError):
            kind = (folder / "class").read_text().strip()[:6]
            vendor = VENDORS.get((folder / "vendor").read_text().strip())
            if vendor and kind in DISPLAY + COMPUTE:
                device = (folder / "device").read_text().strip()
                found.append(Accelerator(f"{vendor} GPU {device}", driver=vendor == "AMD" and amd_driver))
    return found


def _folder(root: Path, path: str) -> list[Path]:
    with contextlib.suppress(OSError):
        return sorted((root / path).iterdir())
    return []


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_left() -> float:
    """The share of the machine's memory that is still to be had."""
    memory = psutil.virtual_memory()
    return float(memory.available / memory.total)


def processor_seconds(pid: int) -> float:
    """What a process has worked so far, all its threads together; nothing if it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


class Meter:
    """Reads once a second what a process and its children, the cores and the GPUs are doing.

    It may run inside the process that trains. Looking at every thread goes through many files, so that is done more
    and more rarely.
    """

    def __init__(self, pid: int, started: float, write: Callable[[dict[str, Any]], None]) -> None:
        self._process = psutil.Process(pid)
        self._started = started
        self._write = write
        self._known = set(psutil.pids())
        """The processes of the machine that were there at the last look: a child is one that came since."""
        self._family = [self._process, *self._process.children(recursive=True)]
        self._worked = sum(map(_worked, self._family))
        """What all of them had worked at the last look; a child that came since then has worked since it began."""
        self._threads: dict[str, tuple[int, int]] = {}
        self._faults = 0
        self._gpus = _gpus()
        psutil.cpu_percent(percpu=True)
        self._io_wait = getattr(psutil.cpu_times(), "iowait", 0.0)
        self._began = self._at = self._looked = time.monotonic()

    def read(self) -> None:
        """Writes one sample; a process that is gone has none."""
        now = time.monotonic()
        passed = now - self._at
        if passed < SHORTEST or not self._process.is_running():
            return
        held_up = self._look_closely(now)
        self._find_children()
        worked, memory, faults = 0.0, 0, 0
        for member in self._family:
            with contextlib.suppress(psutil.Error), member.oneshot():
                worked += _worked(member)
                memory += member.memory_info().rss
                faults += _major_faults(member.pid)
        io_wait = getattr(psutil.cpu_times(), "iowait", 0.0)
        sample = {
            "cores": [round(percent / 100, 2) for percent in psutil.cpu_percent(percpu=True)],
            "cpu": round(max(0.0, worked - self._worked) / passed, 2),
            "rss": memory,
            "iowait": round(max(0.0, io_wait - self._io_wait) / passed, 3),
            "majflt": max(0, faults - self._faults),
            "swap": psutil.swap_memory().used,
        }
        if held_up is not None:
            sample["held_up"] = round(held_up, 3)
        if self._gpus:
            sample["gpus"] = [read() for _, read in self._gpus]
        self._at, self._io_wait, self._faults, self._worked = now, io_wait, faults, worked
        self._write({"t": round(time.time() - self._started, 2), "sample": sample})

    def _find_children(self) -> None:
        there = set(psutil.pids())
        family = {member.pid: member for member in self._family if member.pid in there}
        for pid in sorted(there - self._known):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                if process.ppid() in family:
                    family[pid] = process
        self._known, self._family = there, list(family.values())

    def _look_closely(self, now: float) -> float | None:
        """Of the time that the process' threads wanted a core, the share without one."""
        passed = now - self._looked
        if self._threads and passed < min(MOST_APART, 1 + (now - self._began) / 5):
            return None
        before, self._threads, self._looked = self._threads, _threads(self._process.pid), now
        known = [task for task in self._threads if task in before]
        ran = sum(self._threads[task][0] - before[task][0] for task in known)
        waited = sum(self._threads[task][1] - before[task][1] for task in known)
        return waited / (ran + waited) if ran + waited > 0 else None


def _worked(process: psutil.Process) -> float:
    """Processor seconds of a process and of its children that have ended: a worker may be gone before it is seen."""
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(times.user + times.system + ended)


def _threads(pid: int) -> dict[str, tuple[int, int]]:
    """Nanoseconds that each thread ran, and that it wanted a core and had none; empty where nobody counts."""
    found: dict[str, tuple[int, int]] = {}
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for task in tasks:
            with contextlib.suppress(OSError, ValueError):
                with open(f"{task.path}/schedstat", "rb") as file:  # noqa: PTH123
                    ran, waited, *_ = file.read().split()
                found[task.name] = (int(ran), int(waited))
    return found


def _major_faults(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rsplit(b")", 1)[1].split()[9])
    return 0


def _gpus() -> list[tuple[str, Callable[[], tuple[float, int]]]]:
    """Name of and a reader for each NVIDIA GPU, where NVML and its Python package are there."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception:
        return []

    def reader(handle: Any) -> Callable[[], tuple[float, int]]:
        def read() -> tuple[float, int]:
            use = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
            return use, int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)

        return read

    return [(str(pynvml.nvmlDeviceGetName(handle)), reader(handle)) for handle in handles]
