"""Runs for the page to show: one with something in every corner, one with hostile names, one with a million steps."""

from contextlib import ExitStack
from dataclasses import replace
from random import Random
from unittest.mock import patch

from made import Clock, Tree, sink

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import (
    Called,
    Compile,
    Evidence,
    Finding,
    LayerAccount,
    LayerCost,
    MachineSample,
    Mark,
    Patch,
    Sampled,
    Speedup,
    Stage,
    Tick,
    Where,
)
from fitscope.observe import ledger, recorder, runfile
from fitscope.observe.ledger import Place

EPOCHS, STEPS = 3, 40
SOURCE = """import keras


class Waits(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        wait()
"""


def full(folder, name="Waits.on_train_batch_end", file="train.py"):
    """The report of a run with epochs, outliers, a pipeline, lines, a validation, a GPU and two regions."""
    (folder / "train.py").write_text(SOURCE)
    tree = Tree()
    fit = tree.region(where=Where(file, 40))
    data = tree.add(fit, "data", "tf.data", 27.5, 120)
    step = tree.add(fit, "step", "step", 24.0, 120)
    compiled = tree.add(fit, "compile", "tracing", 3.0, 1)
    callback = tree.add(fit, "callback", name, 21.25, 120, Where(file, 5))
    tree.add(tree.add(callback, "call", "predict", 0, 0, Where(file, 6)), "step", "step", 2.5, 4)
    validation = tree.add(fit, "validation", "")
    tree.add(validation, "data", "tf.data", 6.0, 30)
    tree.add(validation, "step", "step", 3.0, 30)
    tree.add(fit, "checkpoint", "ModelCheckpoint.on_epoch_end", 1.5, 3)
    tree.add(fit, "unexplained", "rest", 0.75)
    predict = tree.region("predict", where=Where(file, 50))
    tree.add(predict, "step", "step", 4.0, 8)
    random = Random(3)
    durations = [random.uniform(0.5, 0.7) for _ in range(EPOCHS * STEPS)]
    durations[0], durations[57] = 6.5, 3.25
    spent = {data: 9.0, step: 8.0, callback: 7.0}
    ticks = [
        Tick(10.0 + at, {step: 0.25, data: 0.5, **({compiled: 3.0} if at == 0 else {})}, {fit: 2}) for at in range(60)
    ]
    marks = [Mark(fit, 30.0 + 25 * at, at + 1, STEPS * (at + 1), dict(spent)) for at in range(EPOCHS)]
    samples = [
        MachineSample(at, (0.5, 0.75), 0.5 + at % 3 / 2, 10**9 + at * 10**6, 0.1, 0, 0, ((0.3, 2 * 10**9),))
        for at in range(2, 90)
    ]
    run = tree.run(
        script=file,
        path=f".fitscope/{file[:20]}.run",
        cwd=str(folder),
        started=(folder / "train.py").stat().st_mtime + 1,
        wall_seconds=104.0,
        called={fit: Called(2, EPOCHS * STEPS, EPOCHS, tuple(durations)), predict: Called(1, 8, 0, (0.5,) * 8)},
        stages={fit: (Stage("ParallelMap", Where(file, 3), 0.225, 4), Stage("Prefetch", Where(file, 9), 0.001, 1))},
        compiles={fit: (Compile("train_step", "changed shape", "(8, 3) -> (5, 3)", 3, 4.0),)},
        sampled=(Sampled(callback, Where(file, 6), "on_train_batch_end", 90),),
        facts=(
            {"fact": "workers", "root": fit, "source": "PyDataset", "workers": 4, "processes": True},
            {
                "fact": "pipeline",
                "root": fit,
                "stages": [
                    {"kind": "prefetch", "where": Where(file, 9), "parallel": None},
                    {"kind": "map", "where": Where(file, 3), "parallel": 4},
                    {"kind": "tensorslice", "where": Where(file, 2), "parallel": None},
                ],
            },
            {"fact": "problem", "says": f"{name} could not be read."},
        ),
        samples=tuple(samples),
        ticks=tuple(ticks),
        marks=tuple(marks),
    )
    report = diagnose(run, account(run))
    finding = Finding(
        code="FS201",
        name="blocking-callback",
        family="callbacks",
        says=f"The training stands still while {name} works.",
        where=Where(file, 5),
        evidence=(Evidence("of the training is spent in it", 0.225, "share"), Evidence("calls", 120, "count")),
        estimated=Speedup(1.2, 1.6),
        remedy="Do it less often.",
        verified=Speedup(1.31, 1.42),
        proof=f"{name} off, in 12 pairs of stretches with and without",
        patch=Patch(
            f"--- a/{file}\n+++ b/{file}\n@@ -5 +5 @@\n-    {name}\n+    fitscope.Every({name})\n", "fewer calls"
        ),
    )
    found = (finding, replace(finding, verified=None, proof="no verdict: busy"))
    return replace(report, findings=found, doubts=("Other programs were busy.",), layers=layer_account(name))


def layer_account(name="conv"):
    """What three parts of a step cost."""
    conv = LayerCost(
        name=name,
        part="layer",
        kind="Conv2D",
        calls=2,
        seconds=0.0375,
        share=0.75,
        plus_minus=0.00125,
        forward_seconds=0.0125,
        backward_seconds=0.02,
        update_seconds=0.005,
        parameters=9248,
        activation_bytes=1_605_632,
        flops=3_000_000_000,
        forward_flops=1_000_000_000,
        flops_per_second=92.3e9,
        peak_share=0.615,
        bound="compute",
        output=(32, 28, 28, 16),
    )
    nothing = {"kind": "", "parameters": 0, "activation_bytes": 0, "flops": None, "forward_flops": None, "output": ()}
    nothing |= {"flops_per_second": None, "peak_share": None, "calls": 1, "backward_seconds": 0.0}
    nothing |= {"update_seconds": 0.0, "bound": "dispatch"}
    loss = replace(conv, name="loss", part="loss", seconds=0.0025, share=0.05, forward_seconds=0.0025, **nothing)
    rest = replace(loss, name="rest of the step", part="rest", seconds=0.01, share=0.2, forward_seconds=0.01)
    return LayerAccount(
        script="train.py",
        argv=(),
        cwd="/project",
        started=2.0,
        backend="tensorflow",
        versions={"keras": "3.15.1"},
        device="cpu",
        model="model",
        batch=((32, 28, 28, 3), (32,)),
        jit_compile=False,
        step_seconds=0.05,
        plus_minus=0.00175,
        steps=300,
        profiled_steps=48,
        profiled_seconds=0.0525,
        peak_flops=150e9,
        bandwidth=22e9,
        layers=(conv, loss, rest),
        notes=("Other programs were busy.",),
    )


def long_run(path, steps=1_000_000):
    """The report of a run of very many steps, written by the recorder itself under a clock of its own."""
    clock = Clock()
    with ExitStack() as patches:
        for module in (ledger, runfile):
            patches.enter_context(patch.object(module, "clock", clock))
        _train_long(path, steps, clock)
    run = store.read(path)
    return diagnose(run, account(run))


def _train_long(path, steps, clock):
    recording = recorder.Recorder()
    written = sink(path)
    recording.add_sink(written)
    book = recording.ledger()
    root = recording.root(book, "fit", Place("/project/train.py", 40))
    data, step = recording.tree.node(root, "data", "arrays"), recording.tree.node(root, "step", "step")
    region = recording.regions[root]
    region.calls += 1
    random = Random(5)
    for _ in range(100):
        for _ in range(steps // 10_000):
            durations = [round(random.uniform(0.9e6, 1.2e6)) for _ in range(100)]
            region.durations += durations
            region.steps += len(durations)
            book.enter(data)
            clock.now += sum(durations) // 4
            book.enter(step)
            clock.now += sum(durations) - sum(durations) // 4
        region.durations[-1] += 10**9
        region.epochs += 1
        region.mark(book.enter(step), book.spent)
        recording.flush()
    book.back(book.outside)
    recording.remove_sink(written)
    written.close()
