"""The machine's verdicts, from facts of machines that are not at hand, and once from this one."""

import importlib.util
import json

import pytest
from click.testing import CliRunner

from fitscope import machine
from fitscope.cli import group
from fitscope.doctor import speed
from fitscope.doctor.examine import FINE, UNKNOWN, WRONG, accelerator, ask, backend, disk, measured, threads
from fitscope.machine import Accelerator

CPU_WHEEL = {"version": "2.0", "wheel": "CPU", "devices": [], "flops": 5e10, "hidden": {}}
GPU = Accelerator("Tesla V100", driver=True)
BOX = {"cores": 64, "usable_cores": 64, "quota_cores": None, "memory_limit_bytes": None}


def bus(root, **devices):
    for name, (kind, vendor) in devices.items():
        folder = root / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        for file, text in {"class": kind, "vendor": vendor, "device": "0x1db1"}.items():
            (folder / file).write_text(f"{text}\n")
    return root


def test_a_gpu_on_the_bus_without_a_driver_is_found_and_is_wrong(tmp_path):
    root = bus(tmp_path, a=("0x030200", "0x10de"), b=("0x020000", "0x10de"), c=("0x030000", "0x1234"))
    (found,) = machine.accelerators(root)
    assert (found.name, found.driver) == ("NVIDIA GPU 0x1db1", False)
    check = accelerator([found], None)
    assert check.state == WRONG
    assert "no driver" in check.says


def test_gpus_that_the_driver_lists_are_named_by_it(tmp_path):
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:00:1e.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t\t Tesla V100-SXM2-16GB\nIRQ: 33\n")
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX Kernel Module  550.54.15  Tue\n")
    assert machine.accelerators(tmp_path) == [Accelerator("Tesla V100-SXM2-16GB", driver=True)]
    assert machine.driver_version(tmp_path) == "550.54.15"


def test_a_cpu_wheel_beside_a_gpu_is_wrong_and_says_why():
    check = backend("torch", CPU_WHEEL, [GPU])
    assert check.state == WRONG
    assert "built for the CPU only" in check.says
    hidden = backend("torch", {**CPU_WHEEL, "wheel": "CUDA 12.4", "hidden": {"CUDA_VISIBLE_DEVICES": ""}}, [GPU])
    assert hidden.state == WRONG
    assert "CUDA_VISIBLE_DEVICES=''" in hidden.says
    assert backend("torch", CPU_WHEEL, []).state == FINE
    assert backend("torch", {**CPU_WHEEL, "wheel": "CUDA 12.4", "devices": ["Tesla V100"]}, [GPU]).state == FINE


def test_a_gpu_that_another_process_uses_is_left_alone_and_that_is_said():
    used = Accelerator("Tesla V100", driver=True, users=(4711,))
    assert "in use by process 4711" in accelerator([used], "550").says
    check = backend("jax", CPU_WHEEL, [used])
    assert check.state == UNKNOWN
    assert "in use" in check.says


@pytest.mark.parametrize(
    ("limits", "intra", "state", "says"),
    [
        ({"quota_cores": 2.0}, 64, WRONG, "64 threads where 2 cores"),
        ({"quota_cores": 2.0}, 0, WRONG, "64 threads where 2 cores"),
        ({"quota_cores": 2.0}, 2, FINE, "limited to 2 by the container"),
        ({}, 1, WRONG, "1 thread where 64 cores"),
        ({}, 64, FINE, "64 of 64 cores usable"),
        ({"usable_cores": 1}, 1, FINE, "1 of 64 cores usable"),
    ],
)
def test_threads_are_held_against_the_cores_that_may_be_used(limits, intra, state, says):
    check = threads({**BOX, **limits}, {"tensorflow": {"intra": intra, "inter": 0}})
    assert check.state == state
    assert says in check.says


def test_a_backend_that_does_not_answer_is_a_sentence():
    answer = ask("no_such_backend", without_device=False)
    assert "no_such_backend" in answer["problem"]
    assert backend("torch", answer, []).state == WRONG


def test_without_a_backend_the_rest_is_examined_and_it_says_so(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(speed, "COPYING", 0.01)
    monkeypatch.setattr(speed, "MOST_WRITTEN", speed.BLOCK)
    done = CliRunner().invoke(group, ["doctor", "--json"])
    value = json.loads(done.output)
    checks = {check["name"]: check for check in value["checks"]}
    assert list(checks) == [
        "accelerator",
        "other programs",
        "backend",
        "threads",
        "memory",
        "disk",
        "memory bandwidth",
    ]
    assert "not known" in checks["backend"]["says"]
    assert checks["disk"]["facts"]["bytes_per_second"] > 0
    assert done.exit_code == (0 if value["fine"] else 1)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_not_measured(tmp_path):
    check = measured("disk", lambda: disk(tmp_path / "none"))
    assert check.state == UNKNOWN
    assert check.says.startswith("Not measured")
