"""Causes in the machine, from runs of machines that are not at hand."""

import pytest
from made import Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import Called, MachineSample, Where

HARD = {"multiplications": 1_600_000, "batch_size": 128}
"""1.2 GFLOP in a step: at 20 ms a step, 61 GFLOP/s."""


def found(*, threads, cores=2.0, cpu=1.0, busy=None, held_up=0.0, workers=0, gpus=(), limit=None, **changes):
    """The findings on 400 steps of 20 ms each, on a machine that was used so much."""
    tree = Tree()
    root = tree.region("fit", Where("train.py", 40))
    tree.add(root, "step", "step", 8.0, count=400)
    settings = {
        "fact": "settings",
        "root": root,
        "device": "cpu",
        "threads": {"intra": threads, "inter": 1, "cores": cores, "environment": changes.pop("environment", {})},
        **HARD,
        **changes.pop("settings", {}),
    }
    facts = [settings]
    if workers:
        facts.append({"fact": "workers", "root": root, "source": "DataLoader", "workers": workers, "processes": True})
    sample = {
        "cores": ((busy if busy is not None else cpu) / 2,) * 2,
        "process_cpu": cpu,
        "memory_bytes": changes.pop("memory", 10**9),
        "io_wait": 0.0,
        "major_faults": changes.pop("faults", 0),
        "swap_bytes": changes.pop("swap", 0),
        "held_up": held_up,
    }
    samples = tuple(MachineSample(seconds=float(second), **sample) for second in range(1, 9))
    run = tree.run(
        called={root: Called(1, 400, 4, (0.02,) * 400)},
        facts=tuple(facts),
        backend="torch",
        samples=samples,
        machine={"cores": 2, "gpus": list(gpus), "memory_limit_bytes": limit},
        wall_seconds=9.0,
    )
    return {finding.name: finding for finding in diagnose(run, account(run)).findings}


def test_one_thread_on_two_cores_starves_a_training_that_computes():
    finding = found(threads=1, environment={"OMP_NUM_THREADS": "1"})["thread-starvation"]
    assert finding.says == "1 thread computes where 2 cores could (OMP_NUM_THREADS=1)."
    assert 1 < finding.estimated.low < finding.estimated.high <= 2.1


def test_the_work_of_a_subclassed_model_counts_too():
    work = {"multiplications": None, "costs_complete": True, "work": 6 * HARD["multiplications"]}
    assert "thread-starvation" in found(threads=1, settings=work)
    assert "thread-starvation" not in found(threads=1, settings=work | {"costs_complete": False})


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 2, "cpu": 1.9},
        {"threads": 1, "cores": 1.0},
        {"threads": 1, "busy": 1.9},
        {"threads": 1, "cpu": 1.8},
        {"threads": 1, "settings": {"multiplications": 1000}},
        {"threads": 1, "settings": {"device": "gpu"}},
        {"threads": None},
    ],
    ids=["as many as cores", "one core", "other programs", "both cores used", "nothing to compute", "gpu", "unknown"],
)
def test_threads_that_fit_are_not_mentioned(changes):
    assert not {"thread-starvation", "thread-oversubscription"} & set(found(**changes))


def test_threads_that_have_no_core_beside_the_workers_wait_for_one_another():
    finding = found(threads=2, workers=2, cpu=1.9, held_up=0.5)["thread-oversubscription"]
    assert "2 threads compute on 2 cores beside 2 worker processes" in finding.says
    assert "torch.set_num_threads(1)" in finding.remedy
    assert finding.estimated.low == pytest.approx(1.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 2, "workers": 2, "held_up": 0.1},
        {"threads": 2, "workers": 0, "held_up": 0.5},
        {"threads": 1, "workers": 2, "held_up": 0.5},
        {"threads": 2, "workers": 2, "held_up": 0.5, "busy": 2.6},
    ],
    ids=["nobody is held up", "threads fit", "one thread waits for nobody", "other programs"],
)
def test_threads_that_are_not_held_up_by_one_another_are_not_mentioned(changes):
    assert "thread-oversubscription" not in found(**{"cpu": 1.9, **changes})


def test_a_container_that_is_full_is_memory_pressure():
    assert "memory-pressure" in found(threads=2, cpu=1.9, limit=1_050_000_000, faults=400)
    assert "memory-pressure" in found(threads=2, cpu=1.9, swap=10**9, faults=400)
    assert "memory-pressure" not in found(threads=2, cpu=1.9, limit=1_050_000_000)
    assert "memory-pressure" not in found(threads=2, cpu=1.9, limit=8_000_000_000, faults=400)


def test_what_hides_a_gpu_is_named():
    finding = found(threads=2, cpu=1.9, gpus=["V100"], environment={"CUDA_VISIBLE_DEVICES": ""})[
        "invisible-accelerator"
    ]
    assert "CUDA_VISIBLE_DEVICES='' hides it" in finding.says
    assert "invisible-accelerator" not in found(threads=2, cpu=1.9)
