import gzip
import itertools
import json
from collections import defaultdict

import pytest
import shown_runs as runs

from fitscope.report.to_perfetto import to_perfetto, write


@pytest.fixture
def report(tmp_path):
    return runs.full(tmp_path)


def tracks(report):
    """The slices of each track, by its name."""
    events = json.loads(to_perfetto(report))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[names[event["tid"]]].append(event)
    return found


def test_epochs_and_steps_have_the_durations_that_were_measured(report):
    found = tracks(report)
    epochs = found["fit train.py:40: epochs"]
    assert [(event["name"], event["ts"] + event["dur"]) for event in epochs] == [
        ("epoch 1", 30e6),
        ("epoch 2", 55e6),
        ("epoch 3", 80e6),
    ]
    steps = found["fit train.py:40: steps (place laid out)"]
    durations = report.account.regions[0].durations
    assert [event["dur"] for event in steps] == pytest.approx([seconds * 1e6 for seconds in durations], abs=0.5)


def test_the_slices_of_a_track_do_not_overlap_as_perfetto_drops_those_that_do(report, tmp_path):
    for each in (report, runs.long_run(tmp_path / "long.run", 100_000)):
        for events in tracks(each).values():
            for before, after in itertools.pairwise(events):
                assert before["ts"] + before["dur"] <= after["ts"]


def test_the_phases_have_the_sums_of_the_course(report):
    found = defaultdict(float)
    for event in tracks(report)["fit train.py:40: phases (order laid out)"]:
        found[event["name"]] += event["dur"] / 1e6
    assert found == {"step": pytest.approx(15.0), "data": pytest.approx(30.0), "compile": pytest.approx(3.0)}


def test_the_trace_says_what_is_exact_and_what_is_laid_out(report):
    told = json.loads(to_perfetto(report))["otherData"]
    assert "duration of each step" in told["exact"]["steps"]
    assert "where a step begins" in told["laid out"]["steps"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_name_that_ends_in_gz_is_compressed(report, tmp_path, name):
    write(report, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["traceEvents"]
