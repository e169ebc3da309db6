"""What the machine is and what it does while a training runs, read with psutil and, for GPUs, NVML."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable
from typing import Any

import psutil

SHORTEST = 0.2
"""Seconds: in less, the kernel's hundredths of a second of processor time are mostly rounding."""


def describe() -> dict[str, Any]:
    """What the machine has."""
    return {
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count() or 1,
        "usable_cores": len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": [name for name, _ in _gpus()],
    }


def _cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


class Meter:
    """Reads once a second what a process and its children, the cores and the GPUs are doing."""

    def __init__(self, pid: int, started: float, write: Callable[[dict[str, Any]], None]) -> None:
        self._process = psutil.Process(pid)
        self._started = started
        self._write = write
        self._cpu: dict[int, float] = {}
        self._faults = 0
        self._gpus = _gpus()
        psutil.cpu_percent(percpu=True)
        self._io_wait = getattr(psutil.cpu_times(), "iowait", 0.0)
        self._at = time.monotonic()

    def read(self) -> None:
        """Writes one sample; a process that is gone has none."""
        now = time.monotonic()
        passed = now - self._at
        if passed < SHORTEST:
            return
        try:
            family = [self._process, *self._process.children(recursive=True)]
        except psutil.Error:
            return
        busy, memory, faults = 0.0, 0, 0
        for member in family:
            with contextlib.suppress(psutil.Error):
                times = member.cpu_times()
                total = times.user + times.system
                busy += total - self._cpu.get(member.pid, total)
                self._cpu[member.pid] = total
                memory += member.memory_info().rss
                faults += _major_faults(member.pid)
        io_wait = getattr(psutil.cpu_times(), "iowait", 0.0)
        sample = {
            "cores": [round(percent / 100, 2) for percent in psutil.cpu_percent(percpu=True)],
            "cpu": round(busy / passed, 2),
            "rss": memory,
            "iowait": round(max(0.0, io_wait - self._io_wait) / passed, 3),
            "majflt": max(0, faults - self._faults),
            "swap": psutil.swap_memory().used,
        }
        if self._gpus:
            sample["gpus"] = [read() for _, read in self._gpus]
        self._at, self._io_wait, self._faults = now, io_wait, faults
        self._write({"t": round(time.time() - self._started, 2), "sample": sample})


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
