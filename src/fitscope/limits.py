"""What a process may use of the machine: cores by affinity and by control group, memory, threads by setting.

Standard library only: the recorder notes it from inside the user's program, `doctor` asks for it from outside.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "NPROC",
)
DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "JAX_PLATFORMS", "JAX_PLATFORM_NAME")
UNLIMITED = 1 << 60
"""Bytes: a limit of this size is the first generation's way to write none."""


def limits(root: Path = Path("/")) -> dict[str, Any]:
    """Cores in the machine, cores that this process may run on, the group's processor quota and memory limit."""
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return {"cores": cores, "usable_cores": usable, **group_limits(root)}


def group_limits(root: Path = Path("/")) -> dict[str, Any]:
    """What the control groups of this process allow: the tightest on the way up. None where nothing is set."""
    quotas, memories = [], []
    for folder in _groups(root, "cpu"):
        quota = _quota(folder)
        if quota is not None:
            quotas.append(quota)
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(folder / name)
            if limit is not None and limit < UNLIMITED:
                memories.append(limit)
    return {"quota_cores": min(quotas, default=None), "memory_limit_bytes": min(memories, default=None)}


def group_memory_used(root: Path = Path("/")) -> int | None:
    """What the processes of this control group use together, where it has a limit of its own."""
    for folder in _groups(root, "memory"):
        for name in ("memory.current", "memory.usage_in_bytes"):
            used = _number(folder / name)
            if used is not None:
                return used
    return None


def settings(names: tuple[str, ...]) -> dict[str, str]:
    """The environment variables among these that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}


def backend_threads(name: str) -> dict[str, int | None]:
    """How many threads a loaded backend computes one operation with, and how many operations it runs at once.

    None is for what it does not say; TensorFlow says 0 before it has decided.
    """
    found: dict[str, int | None] = {"intra": None, "inter": None}
    module: Any = sys.modules.get(name)
    if module is None:
        return found
    with contextlib.suppress(Exception):  # an unusual build: what it does not say is not known
        if name == "torch":
            found = {"intra": int(module.get_num_threads()), "inter": int(module.get_num_interop_threads())}
        elif name == "tensorflow":
            threading = module.config.threading
            found = {
                "intra": int(threading.get_intra_op_parallelism_threads()),
                "inter": int(threading.get_inter_op_parallelism_threads()),
            }
    return found


def may_use(cores: int, quota: float | None) -> float:
    """Processors that a process may keep busy: those it may run on, or what its group is given, if that is less."""
    return min(float(cores), quota or float("inf"))


def crowded(threads: int, may: float) -> bool:
    """Whether so many threads get in each other's way on so many cores."""
    return threads >= max(2 * may, may + 2)


def starved(threads: int, may: float) -> bool:
    """Whether so few threads leave half of the cores or more idle."""
    return may >= 2 and threads <= may / 2


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process' group and of those above it, in both generations of control groups."""
    mounted = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "", "")
        if controllers == "":
            bases = [mounted, mounted / "unified"]
        elif controller in controllers.split(","):
            bases = [mounted / controllers, mounted / controller]
        else:
            continue
        for base in bases:
            folder = base / path.lstrip("/")
            while folder != base and base in folder.parents:
                if folder.is_dir():
                    yield folder
                folder = folder.parent
            if base.is_dir():
                yield base


def _quota(folder: Path) -> float | None:
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
            return None if quota == "max" else int(quota) / int(period)
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return quota_us / int((folder / "cpu.cfs_period_us").read_text()) if quota_us > 0 else None
    return None


def _number(file: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text())
    return None
