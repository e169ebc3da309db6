"""Whatever a run holds, every form of the report can be made of it."""

import json
from random import Random

import pytest
from made import Tree

from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.model import PHASES, Called, MachineSample, Mark, Stage, Tick, Where
from fitscope.report.to_html import to_html
from fitscope.report.to_json import to_json
from fitscope.report.to_markdown import to_markdown
from fitscope.report.to_perfetto import to_perfetto
from fitscope.report.to_tensorboard import scalars


def strange_run(seed):
    """A run as it might be read from a damaged or an interrupted recording: any part may be missing or empty."""
    random = Random(seed)
    tree, called, stages, ticks, marks = Tree(), {}, {}, [], []
    for _ in range(random.choice([0, 1, 2, 3, 30, 150])):
        where = random.choice([None, Where("a.py", random.randrange(1, 99)), Where("/x/b.py", 0)])
        call = random.choice(["fit", "predict", "train_on_batch"])
        root = tree.region(call, where, thread=random.randrange(3))
        names = ["", "x", "A.on_epoch_end", "A.on_train_batch_end"]
        lengths = [0, 1e-9, 1e-4, 0.3, 20, 1e5]
        nodes = [
            tree.add(root, random.choice(PHASES), random.choice(names), random.choice(lengths), 3, where)
            for _ in range(random.randrange(6))
        ]
        kept = random.choice([0, 1, 2, 11, 500])
        durations = tuple(random.choice([1e-6, 0.01, 0.02, 3]) for _ in range(kept))
        called[root] = Called(1, kept * random.choice([1, 8]), random.randrange(3), durations)
        if random.random() < 0.5:
            cost, working = random.choice([None, 0.0, 0.1]), random.choice([None, 0.5])
            stages[root] = (Stage("map", where, cost, random.randrange(1, 9), working=working),) * 2
        for _ in range(random.randrange(4)):
            spent = {node: random.choice([-0.5, 0.1, 1]) for node in nodes}
            ticks.append(Tick(float(len(ticks)), spent, {root: random.randrange(4)}))
        for number in range(random.randrange(3)):
            spent = {node: random.choice([0, 0.1, 1, -0.1]) for node in nodes}
            marks.append(Mark(root, float(number), number + 1, 5 * (number + 1), spent))
    gpus = random.choice([(), ((0.5, 1),)])
    samples = [
        MachineSample(float(at), (0.5,), random.random(), random.choice([0, 10**9]), random.random() / 10, 0, 0, gpus)
        for at in range(random.choice([0, 1, 3, 50]))
    ]
    return tree.run(
        called=called,
        stages=stages,
        ticks=tuple(ticks),
        marks=tuple(marks),
        samples=tuple(samples),
        wall_seconds=random.choice([0.0, 1.0, 100.0]),
        machine=random.choice([{}, {"cores": 2}]),
        backend=random.choice([None, "jax"]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_every_form_can_be_made_of_a_strange_run(seed):
    run = strange_run(seed)
    report = diagnose(run, account(run))
    page = to_html(report)
    assert page.rstrip().endswith("</html>")
    assert len(page) < 2_000_000
    assert to_markdown(report).startswith("**")
    assert json.loads(to_json(report))["regions"] == [] or run.nodes
    assert all(event["dur"] >= 0 for event in json.loads(to_perfetto(report))["traceEvents"] if event["ph"] == "X")
    assert all(scalar.step >= 0 for scalar in scalars(report))
