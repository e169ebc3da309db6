"""Device traces: what they show, against intervals that are known, and what is no trace."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import traces

from fitscope.model import FitscopeError
from fitscope.trace.intervals import both, total, union, without
from fitscope.trace.read import read

RECORDED = Path(__file__).parents[3] / "shared" / "traces"
"""Traces of real GPUs, which are not part of the project."""
recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded GPU traces in {RECORDED}")


def written(folder: Path, content: bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("dialect", ["2021", "today"])
@pytest.mark.parametrize("base", [traces.BASE, 1000.5], ids=["microseconds", "nanoseconds"])
def test_busy_time_and_gaps_of_a_kineto_trace_are_those_of_its_intervals(tmp_path, dialect, base):
    shown = read(written(tmp_path, traces.kineto(dialect, base=base)))
    (use,) = shown.devices
    assert use.busy_seconds == pytest.approx(0.070)
    assert use.busy_share == shown.busy_share == pytest.approx(0.35)
    idle = {each.cause: each.seconds for each in use.idle}
    assert idle == pytest.approx({"data": 0.080, "copy": 0.010, "dispatch": 0.010, "sync": 0.010, "other": 0.020})
    assert use.busy_seconds + sum(idle.values()) == pytest.approx(use.window_seconds)
    assert (use.communication_seconds, use.exposed_seconds) == pytest.approx((0.020, 0.010))
    assert (shown.steps, shown.step_seconds) == (2, pytest.approx(0.1))
    assert shown.cause == "data"
    assert "the wait for data is the cause" in shown.verdict


def test_a_kineto_trace_without_a_wait_does_not_blame_the_data(tmp_path):
    shown = read(written(tmp_path, traces.kineto("today", waits=1)))
    assert shown.cause != "data"
    assert "data" not in shown.verdict


def test_copies_are_counted_by_kind_and_kernels_by_name(tmp_path):
    shown = read(written(tmp_path, traces.kineto("today")))
    (copied,) = shown.copies
    assert (copied.kind, copied.count, copied.bytes) == ("host to device, pageable", 2, 2_000_000)
    assert copied.seconds == pytest.approx(0.010)
    assert [(each.name, each.count) for each in shown.kernels] == [
        ("volta_sgemm", 4),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", 2),
    ]
    assert shown.gaps[0].host == traces.LOADING


def test_stamps_keep_their_nanoseconds(tmp_path):
    """Two kernels of 1 ns, 3 ns apart, at stamps that a float would round to a quarter of a microsecond."""
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7}
    first = json.dumps({**kernel, "ts": 0, "dur": 0}).replace('"ts": 0', '"ts": 1712195495505583.101')
    second = json.dumps({**kernel, "ts": 0, "dur": 0}).replace('"ts": 0', '"ts": 1712195495505583.104')
    text = f'{{"traceEvents": [{first}, {second}]}}'.replace('"dur": 0', '"dur": 0.001').encode()
    (use,) = read(written(tmp_path, text)).devices
    assert use.window_seconds == pytest.approx(4e-9)
    assert use.busy_seconds == pytest.approx(2e-9)


def test_an_xspace_gives_each_device_its_share_and_its_gaps(tmp_path):
    shown = read(written(tmp_path, gzip.compress(traces.xspace()), "host.xplane.pb.gz"))
    shares = {use.name: use.busy_share for use in shown.devices}
    assert shares == pytest.approx({"GPU 0": 0.3, "GPU 1": 0.6, "GPU 2": 0.0})
    idle = {each.cause: each.seconds for each in shown.devices[0].idle}
    assert idle["data"] == pytest.approx(0.040), "the pipeline's own thread works beside the training and is no wait"
    assert idle["dispatch"] == pytest.approx(0.005), "a frame of Python says nothing of what happens in it"
    assert shown.steps == 1
    assert any("GPU 2 has no kernels" in note for note in shown.notes)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (gzip.compress(b""), "is empty"),
        (traces.xspace()[:-200], "is cut off or damaged"),
        (traces.xspace()[:60], "is cut off or damaged"),
        (gzip.compress(traces.kineto("today"))[:-100], "is cut off or damaged"),
        (traces.kineto("today")[:-100], "is cut off or damaged"),
        (b'{"traceEvents": [{"ph": "X", "cat": "mine", "ts": 1, "dur": 2}]}', "holds no events of torch.profiler"),
        (b'{"a": 1}', "holds no traceEvents"),
        (b"[" * 100_000, "damaged"),
        (b'{"fitscope_run": 1}\n{"t": 1}\n', "fitscope show"),
        (b"import keras\n", "is not a device trace"),
        (b'[project]\nname = "x"\n', "is not a device trace"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is not a device trace"),
        (bytes(1000), "is not a device trace"),
    ],
)
def test_what_is_no_trace_gets_one_sentence(tmp_path, content, says):
    with pytest.raises(FitscopeError, match=says) as raised:
        read(written(tmp_path, content))
    assert "\n" not in str(raised.value)


def test_no_cut_of_a_trace_is_a_traceback(tmp_path):
    for content in (traces.xspace(), traces.kineto("today")):
        for size in range(0, len(content), 37):
            with contextlib.suppress(FitscopeError):
                read(written(tmp_path, content[:size]))


def test_a_folder_stands_for_the_newest_trace_in_it(tmp_path):
    folder = tmp_path / "plugins" / "profile"
    folder.mkdir(parents=True)
    written(folder, traces.xspace(), "host.xplane.pb")
    assert read(tmp_path).format == "XSpace"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FitscopeError, match="without a device trace"):
        read(tmp_path / "empty")


def test_the_command_reads_a_trace_and_ends_with_2_for_what_is_none(tmp_path):
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "fitscope", "trace", *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    path = written(tmp_path, traces.kineto("2021"))
    shown = call(str(path))
    assert shown.returncode == 0
    assert "the wait for data is the cause" in " ".join(shown.stdout.split())
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80
    value = json.loads(call(str(path), "--json").stdout)
    assert value["schema"] == 1
    assert value["devices"][0]["busy_share"] == pytest.approx(0.35)
    missing = call("none.pb")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "fitscope: there is no file none.pb.\n"


def test_intervals_are_joined_crossed_and_subtracted():
    joined = union([(5, 6), (0, 2), (1, 3), (3, 4), (7, 7)])
    assert joined == [(0, 4), (5, 6)]
    assert both(joined, [(1, 5.5)]) == [(1, 4), (5, 5.5)]
    assert without([(0, 10)], joined) == [(4, 5), (6, 10)]
    assert without(joined, [(1, 2), (3, 5.5)]) == [(0, 1), (2, 3), (5.5, 6)]
    assert total(joined) == 5


# --- recorded on a CPU by `fitscope run --trace`, cut down to two steps ---------------------------------------


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("tensorflow_cpu.xplane.pb.gz", "MatMul"),
        ("jax_cpu.xplane.pb.gz", "dot"),
        ("torch_cpu.pt.trace.json.gz", "mm"),
    ],
)
def test_a_trace_of_a_cpu_shows_the_host_and_says_what_it_cannot_see(name, operation):
    shown = read(Path(__file__).parent / "recorded" / name)
    host = {spent.name: spent.seconds for spent in shown.host}
    assert shown.steps == 2
    assert host["data"] >= 2 * 0.005, "20 ms of loading were planted in each step; on TensorFlow the step hides some"
    assert 2 * 0.003 <= host["callback"] <= 2 * 0.020
    assert any(operation in spent.name for spent in shown.operations[:2])
    assert (shown.devices, shown.kernels, shown.busy_share) == ((), (), None)
    assert any("no device in this trace" in note for note in shown.notes)


# --- recorded on real GPUs -----------------------------------------------------------------------------------


def direct_share(path: Path, start: float, seconds: float) -> float:
    """The share of a window in which any kernel ran, straight from the JSON."""
    events = [event for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if event["ph"] == "X"]
    known = {"kernel", "Kernel", "cpu_op", "Operator", "cuda_runtime", "Runtime", "user_annotation"}
    first = min(float(event["ts"]) for event in events if event.get("cat") in known)
    low, high = first + start * 1e6, first + (start + seconds) * 1e6
    busy = reached = 0.0
    kernels = [(float(each["ts"]), float(each["dur"])) for each in events if each.get("cat") in ("kernel", "Kernel")]
    for begin, long in sorted(kernels):
        begin, end = max(begin, low, reached), min(begin + long, high)
        busy += max(0.0, end - begin)
        reached = max(reached, end)
    return busy / (high - low)


@recorded
@pytest.mark.parametrize(
    ("name", "data", "named"),
    [("kineto_resnet50_workers0", 0.4158, True), ("kineto_resnet50_workers4", 0.0085, False)],
)
def test_the_data_wait_of_the_v100_pair_is_named_in_the_first_only(name, data, named):
    shown = read(RECORDED / f"{name}.json.gz")
    waits = next(spent for spent in shown.host if spent.name == "data")
    assert waits.seconds == pytest.approx(data, abs=1e-4)
    assert (shown.cause == "data") == named
    assert ("the wait for data is the cause" in shown.verdict) == named


@recorded
@pytest.mark.parametrize(
    "name",
    [
        "kineto_resnet50_workers0",
        "kineto_resnet50_workers4",
        "hta_v100_ns",
        "hta_a100_world2",
        "hta_rank0",
        "hta_rank1",
    ],
)
def test_busy_shares_are_those_of_the_kernel_intervals(name):
    path = RECORDED / f"{name}.json.gz"
    (use,) = read(path).devices
    assert use.busy_share == pytest.approx(direct_share(path, use.window_start, use.window_seconds), abs=0.002)
    assert use.busy_seconds + sum(idle.seconds for idle in use.idle) == pytest.approx(use.window_seconds)


@recorded
def test_communication_is_named_where_it_is():
    assert "communication" in read(RECORDED / "hta_rank0.json.gz").verdict
    assert "communication" not in read(RECORDED / "hta_v100_ns.json.gz").verdict


@recorded
def test_the_8_gpus_of_an_xspace_have_their_own_shares():
    shown = read(RECORDED / "bert_8gpu.xplane.pb")
    shares = {use.name: round(use.busy_share, 2) for use in shown.devices}
    assert len(shares) == 8
    assert shares == {**dict.fromkeys(shares, 0.0), "GPU 4": 0.75, "GPU 6": 0.70}
    assert shown.step_seconds == pytest.approx(0.0213, abs=1e-4)
