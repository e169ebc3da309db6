"""Device traces of known content: Kineto JSON in both dialects, and XSpace, written field by field."""

from __future__ import annotations

import json
from typing import Any

DIALECTS = {
    "2021": {"kernel": "Kernel", "copy": "Memcpy", "runtime": "Runtime", "operation": "Operator", "note": "Operator"},
    "today": {
        "kernel": "kernel",
        "copy": "gpu_memcpy",
        "runtime": "cuda_runtime",
        "operation": "cpu_op",
        "note": "user_annotation",
    },
}
LOADING = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
BASE = 1_712_195_495_000_000
"""Microseconds: stamps of this size with three digits behind the point do not fit into a float."""


def kineto(dialect: str, *, waits: int = 40, base: float | int = BASE) -> bytes:
    """Two steps of 100 ms on one GPU: a wait for data, a copy, 30 ms of compute and 10 ms of NCCL in each."""
    names = DIALECTS[dialect]
    events: list[dict[str, Any]] = []

    def add(kind: str, name: str, start: int, milliseconds: int, device: int | None = None, **more: Any) -> None:
        where = {"pid": 0, "tid": "stream 7"} if device is not None else {"pid": 77, "tid": 77}
        arguments = {"args": {"device": device, **more}} if device is not None else {}
        times = {"ts": base + start * 1000, "dur": milliseconds * 1000}
        events.append({"ph": "X", "cat": names[kind], "name": name, **times, **where, **arguments})

    for step in range(2):
        begin = 100 * step
        add("note", f"ProfilerStep#{step}", begin, 100)
        add("note", LOADING, begin, waits)
        add("copy", "Memcpy HtoD (Pageable -> Device)", begin + 40, 5, 0, bytes=1_000_000)
        add("operation", "aten::conv2d", begin + 45, 5)
        add("runtime", "cudaLaunchKernel", begin + 49, 1)
        add("kernel", "volta_sgemm", begin + 50, 20, 0)
        add("kernel", "volta_sgemm", begin + 60, 20, 0)
        add("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float", begin + 75, 10, 0)
        add("runtime", "cudaStreamSynchronize", begin + 85, 5)
    properties = [{"id": 0, "name": "Tesla V100"}]
    return json.dumps({"schemaVersion": 1, "deviceProperties": properties, "traceEvents": events}).encode()


def xspace() -> bytes:
    """Two GPUs and a host: GPU 0 computes for 30 of 100 ms, GPU 1 for 60; the host waits for data from 0 to 40 ms."""
    return b"".join(
        [
            _plane("/device:GPU:0", {"Stream #1(Compute)": [("sgemm", 50, 20), ("sgemm", 60, 20)]}),
            _plane("/device:GPU:1", {"Stream #1(Compute)": [("sgemm", 40, 60)], "Steps": [("0", 0, 100)]}),
            _plane("/device:GPU:2", {}),
            _plane(
                "/host:CPU",
                {
                    "python": [("train", 0, 100), ("$train.py:7 main", 0, 100), ("cuLaunchKernel", 45, 5)],
                    "tf_data_iterator_get_next/1": [("IteratorGetNextOp::DoCompute", 0, 40)],
                    "tf_data_iterator_resource/2": [("IteratorGetNextOp::DoCompute", 0, 100)],
                },
                {"train": {"step_num": 0}},
            ),
            _field(4, b"host"),
        ]
    )


def _plane(
    name: str, lines: dict[str, list[tuple[str, float, float]]], stats: dict[str, dict[str, int | str]] | None = None
) -> bytes:
    names = sorted({event for events in lines.values() for event, _, _ in events})
    kinds = sorted({stat for found in (stats or {}).values() for stat in found})
    body = _field(2, name.encode())
    for line, events in lines.items():
        content = _field(2, line.encode()) + _number(3, 1_000_000)
        for event, start, milliseconds in events:
            values = _number(1, names.index(event) + 1) + _number(2, int(start * 1e9))
            values += _number(3, int(milliseconds * 1e9))
            for stat, value in (stats or {}).get(event, {}).items():
                told = _number(4, value) if isinstance(value, int) else _field(5, value.encode())
                values += _field(4, _number(1, kinds.index(stat) + 1) + told)
            content += _field(4, values)
        body += _field(3, content)
    for index, event in enumerate(names, start=1):
        body += _field(4, _number(1, index) + _field(2, _number(1, index) + _field(2, event.encode())))
    for index, stat in enumerate(kinds, start=1):
        body += _field(5, _number(1, index) + _field(2, _number(1, index) + _field(2, stat.encode())))
    return _field(1, body)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def scoped_xspace(noted_late: bool = False) -> bytes:
    """A step of 100 ms: an operation of TensorFlow, then instructions of XLA, one of which goes on elsewhere.

    What ends it there may first go on with the instruction that waited for it, and note the end after that.
    """
    end = ("end: dot.1", 80.001, 0.001) if noted_late else ("end: dot.1", 60, 0.001)
    goes_on = [("ThunkExecutor::Execute", 60, 20.0005)] if noted_late else []
    tensorflow = "StatefulPartitionedCall/fitscope.1./conv2d/Conv2D:_FusedConv2D"
    instruction = {"hlo_module": "jit_step", "program_id": 7}
    return hlo_program() + _plane(
        "/host:CPU",
        {
            "python": [("train", 0, 100)],
            "tf_Compute/1": [(tensorflow, 10, 20), ("dot.1", 30, 10), ("unknown::event", 50, 40)],
            "tf_XLAEigen/2": [("elsewhere", 5, 1), end, *goes_on, ("dot.2", 60, 20)],
        },
        {
            "train": {"step_num": 0},
            "dot.1": {**instruction, "hlo_op": "dot.1", "_p": 5},
            "end: dot.1": {"_c": 5},
            "dot.2": {**instruction, "hlo_op": "dot.2"},
        },
    )


def hlo_program() -> bytes:
    """The plane in which a trace keeps its programs, with one of two instructions."""
    names = {
        1: ("dot.1", "jit(step)/jvp(fitscope.2.)/dot"),
        2: ("dot.2", "jit(step)/transpose(jvp(fitscope.2.))/dot"),
    }
    instructions = b"".join(
        _field(
            2, _field(1, name.encode()) + _field(2, b"dot") + _field(7, _field(2, scope.encode())) + _number(35, at)
        )
        for at, (name, scope) in names.items()
    )
    module = _field(1, b"jit_step") + _field(3, _field(1, b"main") + instructions + _number(5, 1) + _number(6, 2))
    stat = _number(1, 1) + _field(6, _field(1, module))
    metadata = _number(1, 1) + _field(2, b"jit_step(7)") + _field(5, stat)
    return _field(1, _field(2, b"/host:metadata") + _field(4, _number(1, 1) + _field(2, metadata)))
