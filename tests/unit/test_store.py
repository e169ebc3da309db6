import os
import random

import pytest
from made import sink, train

from fitscope import store
from fitscope.model import Compile, FitscopeError, MachineSample, Sampled, Stage, Where

BYTES = [bytes([byte]) for byte in b'\x00\n 019-.eE"\\{}[],:nt\x80\xff']
SAMPLE = {"cores": [0.5, 1.0], "cpu": 1.5, "rss": 1000, "iowait": 0.1, "majflt": 2, "swap": 3, "gpus": [[0.5, 7]]}


def record(recorder, clock, path):
    """A file with everything in it that a run can have; returns the root of its region."""
    written = sink(path)
    recorder.add_sink(written)
    written.line({"machine": {"cores": 2}})
    recorder.fact("backend", backend="jax", keras="3.15.1")
    recorder.fact("versions", versions={"keras": "3.15.1"})
    for steps in (2, 3):
        root = train(recorder, clock, steps=steps)
        step = recorder.tree.node(root, "step", "step")
        recorder.stages.row(root, "Items.__getitem__", "/project/load.py", 3)[:] = [4 * 10**9, 20, 2, 6, 9, 3, 10**9]
        recorder.compiles.row(root, "step", "changed shape", "(8,) -> (9,)", "/project/train.py", 7)[:] = [
            2,
            3 * 10**9,
        ]
        recorder.lines.row(step, "/project/loss.py", 12, "loss", "files")[0] += steps
        recorder.lines.row(-root, "/elsewhere/load.py", 5, "load", "")[0] += 1
        recorder.beside.row("Waits")[:] = [5 * 10**9, 1]
        recorder.unseparated.row(root)[0] += 1
        recorder.own.row("sampling")[0] = 10**9
        recorder.flush()
        written.line({"t": 1.25, "sample": SAMPLE})
    recorder.remove_sink(written)
    written.line({"t": 20, "ended": "exit", "exit_code": 3, "wall_seconds": 20.5})
    written.close()
    return root


@pytest.fixture
def file(recording, clock, tmp_path):
    path = tmp_path / "a.run"
    record(recording, clock, path)
    return path


def test_what_was_recorded_is_what_is_read(recording, clock, tmp_path):
    root = record(recording, clock, tmp_path / "a.run")
    run = store.read(tmp_path / "a.run")
    node = {node.phase: node for node in run.nodes.values()}
    step = node["step"].id
    assert (run.version, run.script, run.argv, run.cwd) == ("0.0", "train.py", ("--epochs", "1"), "/project")
    assert (run.ended, run.exit_code, run.wall_seconds) == ("exit", 3, 20.5)
    assert (run.backend, run.versions, run.machine) == ("jax", {"keras": "3.15.1"}, {"cores": 2})
    assert {phase: (n.seconds, n.count) for phase, n in node.items()} == {
        "region": (0, 0),
        "data": (5, 5),
        "step": (10, 5),
    }
    assert (node["region"].id, node["region"].name, node["region"].where) == (root, "fit", Where("train.py", 40))
    assert (node["step"].parent, node["data"].parent, node["data"].name) == (root, root, "arrays")
    called = run.called[root]
    assert (called.calls, called.steps, called.epochs, called.durations) == (2, 5, 2, (3.0,) * 5)
    assert run.stages == {root: (Stage("Items.__getitem__", Where("load.py", 3), 2.0, 2, 10.0, 3.0, 0.25),)}
    assert run.compiles == {root: (Compile("step", "changed shape", "(8,) -> (9,)", 2, 3.0, Where("train.py", 7)),)}
    assert run.sampled == (
        Sampled(step, Where("loss.py", 12), "loss", 5, "files"),
        Sampled(-root, Where("/elsewhere/load.py", 5), "load", 2),
    )
    assert (run.beside, run.own["sampling"]) == ({"Waits": 5.0}, 1.0)
    assert [fact["fact"] for fact in run.facts] == ["backend", "versions"]
    assert run.unseparated == {root}
    assert run.samples == (MachineSample(1.25, (0.5, 1.0), 1.5, 1000, 0.1, 2, 3, ((0.5, 7),)),) * 2
    assert run.path == str(tmp_path / "a.run")


def test_a_run_without_an_end_was_killed_at_its_last_line(recording, clock, tmp_path):
    written = sink(tmp_path / "a.run")
    recording.add_sink(written)
    train(recording, clock)
    recording.flush()
    run = store.read(written.path)
    recording.remove_sink(written)
    assert (run.ended, run.exit_code, run.wall_seconds) == ("killed", None, written.age())


def test_the_supervisors_word_on_the_end_outweighs_the_scripts_own(file):
    with file.open("ab") as lines:
        lines.write(b'{"t":21,"ended":"killed","exit_code":137,"wall_seconds":21.5}\n')
    run = store.read(file)
    assert (run.ended, run.exit_code, run.wall_seconds) == ("killed", 137, 21.5)


# --- damage ------------------------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere_past_its_first_line_is_read_up_to_there(file, tmp_path):
    whole, content = store.read(file), file.read_bytes()
    cut = tmp_path / "cut.run"
    for offset in range(content.index(b"\n") + 1, len(content)):
        cut.write_bytes(content[:offset])
        run = store.read(cut)
        assert all(node.seconds <= whole.nodes[node.id].seconds for node in run.nodes.values())
        for root, called in run.called.items():
            assert called.durations == whole.called[root].durations[: len(called.durations)]


def test_a_file_cut_off_in_its_first_line_is_no_run(file, tmp_path):
    content = file.read_bytes()
    cut = tmp_path / "cut.run"
    for offset in range(content.index(b"\n") + 1):
        cut.write_bytes(content[:offset])
        with pytest.raises(FitscopeError, match="is not a fitscope run file"):
            store.read(cut)


def test_a_file_with_a_changed_byte_is_read_or_called_damaged(file, tmp_path):
    chance = random.Random(0)
    content = file.read_bytes()
    changed = tmp_path / "changed.run"
    damaged = 0
    for _ in range(2000):
        offset = chance.randrange(len(content))
        changed.write_bytes(content[:offset] + chance.choice(BYTES) + content[offset + 1 :])
        try:
            store.read(changed)
        except FitscopeError:
            damaged += 1
    assert 0 < damaged < 2000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"import keras",
        b"import keras\n",
        b"null\n",
        b'"fitscope_run"\n',
        b'["fitscope_run"]\n',
        b'{"some": "json"}\n',
        pytest.param(b"[" * 100_000 + b"\n", id="too deep"),
        b"\x89PNG\r\n\x1a\n\x00\x00",
        pytest.param(bytes(range(256)) * 8, id="all bytes"),
        b'{"fitscope_run":1,"version":"0.0"}',
    ],
)
def test_what_is_no_run_file_is_called_so(tmp_path, content):
    path = tmp_path / "a.run"
    path.write_bytes(content)
    with pytest.raises(FitscopeError, match=r"a\.run is not a fitscope run file\.$"):
        store.read(path)


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"7",
        b'{"define":"node"}',
        b'{"define":"node","id":"one","key":[]}',
        b'{"define":"node","id":1,"key":[0,"region"]}',
        b'{"define":"node","id":Infinity,"key":[0,"region","fit",null,null,1]}',
        b'{"define":"node","id":1,"key":[0,"region","fit","a.py",Infinity,1]}',
        b'{"define":"node","id":1,"key":[1,"step","its own parent",null,null,0]}',
        b'{"t":1,"sample":{}}',
        b'{"t":"soon"}',
        b'{"t":1,"node":3}',
        b'{"t":1,"node":{"1":["long",1]}}',
        b'{"define":"lines","id":0,"key":[[],"a.py",1,"f",""]}',
        b'{"t":1,"sample":{"cores":["x"],"cpu":1,"rss":1,"iowait":0,"majflt":0,"swap":0}}',
        b'{"machine":7}',
        b'{"t":1,"own":{"5":[1]}}',
        b'{"t":1,"steps":{"1":"###"}}',
        b'{"t":1,"steps":{"1":"AAAA"}}',
        b'{"ended":"exit","wall_seconds":"long"}',
    ],
)
def test_a_line_that_no_recorder_writes_makes_the_file_damaged(file, line):
    with file.open("ab") as lines:
        lines.write(line + b"\n")
    with pytest.raises(FitscopeError, match=r"a\.run is damaged .*cannot be read"):
        store.read(file)


@pytest.mark.parametrize("schema", ["2", "1000", '"two"', "null"])
def test_a_file_of_a_newer_fitscope_asks_for_an_update(tmp_path, schema):
    path = tmp_path / "a.run"
    path.write_text(f'{{"fitscope_run":{schema},"version":"9.1"}}\n')
    with pytest.raises(FitscopeError, match=r"was written by a newer fitscope \(9\.1\): update fitscope"):
        store.read(path)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(FitscopeError, match=r"there is no file .*none\.run: `fitscope list`"):
        store.read(tmp_path / "none.run")
    with pytest.raises(FitscopeError, match="cannot be read: Is a directory"):
        store.read(tmp_path)


# --- the folder of runs ------------------------------------------------------------------------------------


def test_the_latest_run_is_the_one_written_last(tmp_path):
    for name, age in (("b.run", 30), ("a.run", 10), ("c.run", 20), ("notes.txt", 0)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert store.latest(tmp_path) == tmp_path / "a.run"


def test_a_folder_without_runs_says_how_to_record_one(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(FitscopeError, match=r"there are no runs in .*fitscope run train\.py"):
            store.latest(folder)


def test_what_cannot_be_read_is_left_out_of_the_runs(recording, clock, tmp_path):
    record(recording, clock, tmp_path / "b.run")
    record(recording, clock, tmp_path / "a.run")
    (tmp_path / "garbage.run").write_text("garbage")
    for name, age in (("b.run", 30), ("a.run", 10), ("garbage.run", 20)):
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert [path.name for path, _ in store.runs(tmp_path)] == ["b.run", "a.run"]


def test_two_runs_of_a_second_get_two_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store.time, "strftime", lambda form: "20260101-000000")
    names = []
    for _ in range(3):
        path = store.new_path("my train")
        path.parent.mkdir(exist_ok=True)
        path.touch()
        names.append(str(path))
    stem = ".fitscope/my_train-20260101-000000"
    assert names == [f"{stem}.run", f"{stem}-2.run", f"{stem}-3.run"]


@pytest.mark.parametrize("line", [b"import keras", b"\xff\xfe", pytest.param(b"[" * 100_000, id="too deep")])
def test_a_line_that_is_torn_is_left_out_and_said_to_be(file, line):
    whole = store.read(file)
    with file.open("ab") as lines:
        lines.write(line + b"\n")
    run = store.read(file)
    assert run.nodes == whole.nodes
    assert "damaged: left out" in run.facts[-1]["says"]
