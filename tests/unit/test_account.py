import pytest
from made import Tree, sink, train

from fitscope import store
from fitscope.account import BooksError, account
from fitscope.model import Called, Compile, Line, MachineSample, Sampled, Stage, Where

HERE, THERE = Where("train.py", 40), Where("train.py", 90)


def parts(region):
    """Phase and name of every part, with its seconds."""
    return {(part.phase, part.name): part.seconds for part in region.parts}


def only(run):
    """The one region of a run."""
    (region,) = account(run).regions
    return region


# --- the books ---------------------------------------------------------------------------------------------


def test_the_parts_add_up_to_the_wall_time():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "data", "arrays", 5)
    tree.add(fit, "step", "step", 30, 10)
    callback = tree.add(fit, "callback", "Saves.on_epoch_end", 4)
    tree.add(callback, "gc", "collecting garbage", 2)
    tree.add(callback, "checkpoint", "saving", 9)
    validation = tree.add(fit, "validation", "validation", 1)
    tree.add(validation, "step", "step", 13, 7)
    region = only(tree.run())
    assert region.wall_seconds == 64
    assert sum(part.seconds for part in region.parts) == 64
    assert sum(part.share for part in region.parts) == 1


def test_the_parts_come_dearest_first_with_their_shares_and_counts():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "data", "arrays", 2, 4)
    tree.add(fit, "step", "step", 6, 3)
    region = only(tree.run())
    assert [(part.phase, part.share, part.count) for part in region.parts] == [("step", 0.75, 3), ("data", 0.25, 4)]


def test_time_that_the_call_itself_owns_is_the_unexplained_rest():
    tree = Tree()
    fit = tree.add(0, "region", "fit", 3, where=HERE)
    tree.add(fit, "step", "step", 1)
    assert parts(only(tree.run())) == {("unexplained", "rest"): 3, ("step", "step"): 1}


def test_books_that_do_not_balance_are_refused():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "step", "step", 3)
    tree.add(fit, "data", "arrays", -1, 0)
    with pytest.raises(BooksError):
        account(tree.run())


def test_a_recorded_training_is_accounted_to_the_second(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock, steps=4)
    recording.remove_sink(written)
    region = only(store.read(written.path))
    assert (region.call, region.where, region.calls, region.steps, region.epochs) == ("fit", HERE, 1, 4, 1)
    assert region.wall_seconds == 12
    assert parts(region) == {("step", "step"): 8, ("data", "arrays"): 4}
    assert (region.step_seconds.median, region.step_seconds.p95) == (3, 3)


# --- who owns what -----------------------------------------------------------------------------------------


def test_garbage_collected_in_a_callback_is_gc_with_the_callbacks_name():
    tree = Tree()
    fit = tree.region(where=HERE)
    callback = tree.add(fit, "callback", "Waits.on_epoch_end", 4, where=THERE)
    tree.add(callback, "gc", "collecting garbage", 2, 3)
    region = only(tree.run())
    assert parts(region) == {("callback", "Waits.on_epoch_end"): 4, ("gc", "Waits.on_epoch_end"): 2}
    assert region.parts[1].count == 3


def test_garbage_collected_while_saving_in_a_callback_is_gc_and_not_the_checkpoint():
    tree = Tree()
    fit = tree.region(where=HERE)
    callback = tree.add(fit, "callback", "Saves.on_epoch_end", 1)
    saving = tree.add(callback, "checkpoint", "saving", 8)
    tree.add(saving, "gc", "collecting garbage", 2)
    assert parts(only(tree.run())) == {
        ("callback", "Saves.on_epoch_end"): 1,
        ("checkpoint", "Saves.on_epoch_end"): 8,
        ("gc", "Saves.on_epoch_end"): 2,
    }


def test_a_model_saved_by_a_callback_is_a_checkpoint_with_the_callbacks_name_and_line():
    tree = Tree()
    fit = tree.region(where=HERE)
    callback = tree.add(fit, "callback", "Saves.on_epoch_end", 1, where=THERE)
    saving = tree.add(callback, "checkpoint", "saving", 4)
    tree.add(saving, "logs", "reading the logs", 2)
    region = only(tree.run())
    assert parts(region) == {("checkpoint", "Saves.on_epoch_end"): 6, ("callback", "Saves.on_epoch_end"): 1}
    assert {part.where for part in region.parts} == {THERE}


def test_a_model_saved_by_nobody_in_particular_is_a_checkpoint_too():
    tree = Tree()
    tree.add(tree.region(where=HERE), "checkpoint", "saving", 4)
    assert parts(only(tree.run())) == {("checkpoint", "saving"): 4}


def test_a_prediction_inside_a_callback_is_an_inner_part_of_the_callback():
    tree = Tree()
    fit = tree.region(where=HERE)
    callback = tree.add(fit, "callback", "Draws.on_epoch_end", 1, 2, where=THERE)
    predict = tree.add(callback, "call", "predict", 0, 0, where=Where("train.py", 91))
    tree.add(predict, "setup", "preparing", 2)
    tree.add(predict, "step", "step", 8, 4)
    region = only(tree.run())
    (part,) = region.parts
    assert (part.phase, part.name, part.seconds, part.count) == ("callback", "Draws.on_epoch_end", 11, 2)
    (inner,) = part.inner
    assert (inner.phase, inner.name, inner.where, inner.seconds) == ("call", "predict", Where("train.py", 91), 10)


def test_two_predictions_on_two_lines_of_a_callback_are_two_inner_parts():
    tree = Tree()
    fit = tree.region(where=HERE)
    callback = tree.add(fit, "callback", "Draws.on_epoch_end", 1)
    for line, seconds in ((5, 2), (6, 8)):
        tree.add(tree.add(callback, "call", "predict", 0, 0, where=Where("a.py", line)), "step", "step", seconds)
    (part,) = only(tree.run()).parts
    assert [(inner.where.line, inner.seconds) for inner in part.inner] == [(6, 8), (5, 2)]


def test_a_call_that_no_callback_made_belongs_to_the_step():
    tree = Tree()
    fit = tree.region("loop", where=HERE)
    evaluate = tree.add(fit, "call", "evaluate", 0, 0, where=THERE)
    tree.add(evaluate, "data", "arrays", 3)
    run = tree.run(facts=({"fact": "loop-trains", "root": fit},))
    assert parts(only(run)) == {("step", "evaluate inside"): 3}


def test_what_validation_does_are_parts_of_the_validation():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "step", "step", 16)
    validation = tree.add(fit, "validation", "validation", 1)
    tree.add(validation, "data", "tf.data", 2)
    tree.add(validation, "step", "step", 4)
    callback = tree.add(validation, "callback", "Waits.on_test_batch_end", 8)
    tree.add(tree.add(callback, "call", "predict", 0, 0), "step", "step", 32)
    assert parts(only(tree.run())) == {
        ("step", "step"): 16,
        ("validation", "unexplained"): 1,
        ("validation", "data: tf.data"): 2,
        ("validation", "step: step"): 4,
        ("validation", "Waits.on_test_batch_end"): 40,
    }


def test_hooks_of_the_same_name_on_two_lines_are_two_parts():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "callback", "LambdaCallback.on_epoch_end", 1, where=HERE)
    tree.add(fit, "callback", "LambdaCallback.on_epoch_end", 2, where=THERE)
    assert [(part.where, part.seconds) for part in only(tree.run()).parts] == [(THERE, 2), (HERE, 1)]


# --- regions -----------------------------------------------------------------------------------------------


def test_two_threads_that_train_on_the_same_line_are_one_region():
    tree = Tree()
    roots = [tree.region(where=HERE, thread=thread) for thread in (1, 2)]
    for root, seconds in zip(roots, (2, 4), strict=True):
        tree.add(root, "step", "step", seconds, 2)
    run = tree.run(
        called={roots[0]: Called(1, 2, 1, (1.0, 1.0)), roots[1]: Called(2, 3, 4, (5.0,))},
        compiles={root: (Compile("step", "first", "", 1, 3.0),) for root in roots},
    )
    region = only(run)
    assert (region.calls, region.steps, region.epochs, region.durations) == (3, 5, 5, (1.0, 1.0, 5.0))
    assert region.wall_seconds == 6
    assert [(part.seconds, part.count) for part in region.parts] == [(6, 4)]
    assert region.compiles == (Compile("step", "first", "", 2, 6.0),)


def test_the_same_workers_are_named_once():
    tree = Tree()
    roots = [tree.region(where=HERE, thread=thread) for thread in (1, 2)]
    facts = []
    for root in roots:
        tree.add(root, "step", "step", 1)
        facts.append({"fact": "workers", "root": root, "source": "PyDataset", "workers": 4, "processes": True})
    assert only(tree.run(facts=tuple(facts))).workers == ("PyDataset: 4 worker processes",)


def test_two_lines_and_two_calls_are_regions_of_their_own_dearest_first():
    tree = Tree()
    for call, where, seconds in (("fit", HERE, 1), ("fit", THERE, 4), ("predict", HERE, 2)):
        tree.add(tree.region(call, where), "step", "step", seconds)
    regions = account(tree.run()).regions
    assert [(r.call, r.where, r.wall_seconds) for r in regions] == [
        ("fit", THERE, 4),
        ("predict", HERE, 2),
        ("fit", HERE, 1),
    ]


def test_a_loop_is_a_region_only_if_it_trains():
    tree = Tree()
    idle, busy = tree.region("loop", HERE), tree.region("loop", THERE)
    for root in (idle, busy):
        tree.add(root, "step", "your code in the loop", 2)
    run = tree.run(facts=({"fact": "loop-trains", "root": busy},))
    assert [(region.call, region.where) for region in account(run).regions] == [("loop", THERE)]


def test_a_region_that_took_no_time_is_not_shown():
    tree = Tree()
    tree.add(tree.region(where=HERE), "step", "step", 0, 0)
    assert account(tree.run()).regions == ()


def test_what_is_known_of_one_region_is_not_told_of_another():
    tree = Tree()
    ours, theirs = tree.region("fit", HERE), tree.region("fit", THERE)
    below = tree.add(ours, "validation", "validation", 2)
    tree.add(theirs, "step", "step", 1)
    stage = Stage("map", None, 1.0, 1)
    run = tree.run(
        facts=(
            {"fact": "forced-sync", "root": ours, "callback": "Waits"},
            {"fact": "forced-sync", "root": below, "callback": "Waits"},
            {"fact": "workers", "root": below, "source": "DataLoader", "workers": 2, "processes": False},
        ),
        unseparated=frozenset({below}),
        stages={ours: (stage,)},
        compiles={below: (Compile("step", "first", "", 1, 1.0),)},
    )
    first, second = account(run).regions
    assert (first.forced_sync, first.workers) == (("Waits",), ("DataLoader: 2 worker threads",))
    assert first.notes == ("The wait for data could not be told from the step for a part of this region.",)
    assert (first.stages, len(first.compiles)) == ((stage,), 1)
    assert (second.forced_sync, second.workers, second.notes, second.stages, second.compiles) == ((),) * 5


# --- lines, steps, overhead, machine ----------------------------------------------------------------------


def test_sampled_lines_belong_to_the_part_and_those_of_other_threads_to_the_region():
    tree = Tree()
    fit = tree.region(where=HERE)
    step = tree.add(fit, "step", "step", 3)
    callback = tree.add(fit, "callback", "Draws.on_epoch_end", 2)
    predict = tree.add(tree.add(callback, "call", "predict", 0, 0), "step", "step", 1)
    run = tree.run(
        sampled=(
            Sampled(step, HERE, "loss", 1),
            Sampled(step, THERE, "loss", 3),
            Sampled(predict, THERE, "draw", 5),
            Sampled(-fit, THERE, "load", 7),
        )
    )
    region = only(run)
    lines = {part.phase: part.lines for part in region.parts}
    assert lines["step"] == (Line(THERE, "loss", 3, 0.75), Line(HERE, "loss", 1, 0.25))
    assert lines["callback"] == (Line(THERE, "draw", 5, 1.0),)
    assert region.threads == (Line(THERE, "load", 7, 1.0),)


def test_the_longest_step_shows_in_the_95th_percentile_and_not_in_the_median():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "step", "step", 1)
    steps = only(tree.run(called={fit: Called(1, 10, 1, (1.0,) * 9 + (50.0,))})).step_seconds
    assert (steps.median, steps.p95) == (1, 50)


def test_a_region_without_steps_has_no_step_time():
    tree = Tree()
    tree.add(tree.region(where=HERE), "setup", "preparing", 1)
    assert only(tree.run()).step_seconds is None


def test_the_overhead_is_what_was_timed_and_a_passage_for_every_entry():
    tree = Tree()
    fit = tree.region(where=HERE)
    tree.add(fit, "step", "step", 16, 6)
    tree.add(fit, "unexplained", "fitscope itself", 1, 2)
    run = tree.run(own={"writing": 2.0, "sampling": 3.0}, facts=({"fact": "seam", "seconds": 0.5},))
    found = account(run)
    assert found.overhead_seconds == 1 + 2 + 3 + 8 * 0.5
    assert found.overhead_share == 10 / 17


def test_a_run_without_training_has_no_regions_and_no_overhead_share():
    found = account(Tree().run(own={"writing": 1.0}))
    assert (found.regions, found.overhead_share, found.use) == ((), 0, None)


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"fact": "failure", "says": "KeyError: 'x'"}, "Recording stopped: KeyError: 'x'."),
        ({"fact": "keras-too-old", "version": "2.15"}, "Keras 2.15"),
        ({"fact": "legacy-keras"}, "legacy tf.keras"),
        ({"fact": "backend-unknown", "backend": "numpy"}, "backend numpy is unknown"),
        ({"fact": "stopped", "seconds": 60.0}, "after 60 s of training"),
    ],
)
def test_what_the_reader_has_to_know_is_a_note(fact, words):
    (note,) = account(Tree().run(facts=(fact,))).notes
    assert words in note


def machine_sample(number, **changes):
    values = {
        "seconds": float(number),
        "cores": (0.5, 1.0),
        "process_cpu": 1.0,
        "memory_bytes": 100 * number,
        "io_wait": 0.0,
        "major_faults": 1,
        "swap_bytes": number,
        "gpus": ((0.25, number), (0.75, 2 * number)),
    }
    return MachineSample(**{**values, **changes})


def test_the_use_of_the_machine_sums_up_its_samples():
    samples = tuple(machine_sample(number) for number in (1, 4, 3))
    use = account(Tree().run(samples=samples)).use
    assert (use.cores_busy, use.process_cpu) == (1.5, 1.0)
    assert (use.memory_peak_bytes, use.memory_grown_bytes) == (400, 200)
    assert (use.major_faults, use.swap_bytes) == (3, 4)
    assert (use.gpu_utilization, use.gpu_memory_peak_bytes) == ((0.25, 0.75), (4, 8))
    assert use.over_time == samples


@pytest.mark.parametrize("number", [600, 1199, 5000])
def test_of_a_long_run_at_most_600_samples_are_kept(number):
    samples = tuple(machine_sample(index) for index in range(number))
    kept = len(account(Tree().run(samples=samples)).use.over_time)
    assert 300 <= kept <= 600
