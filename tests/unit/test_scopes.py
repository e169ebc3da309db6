"""A step's time by scope: every instant has an owner, and the owners' times add up to the step."""

import gzip
import json

import pytest
from traces import hlo_program, scoped_xspace

from fitscope.trace import scopes
from fitscope.trace.hlo import Computation, Instruction, place
from fitscope.trace.scopes import NOBODY, Event, Segment, flat, scope_of, split

CONV, DENSE = ("1", False), ("2", False)


def seconds(step):
    return {scope: spent.seconds for scope, spent in step.scopes.items()}


def segment(start, end, scope, holds=False):
    return Segment(start, end, scope, holds, False, 1)


def test_what_runs_at_once_shares_the_time():
    step = split([segment(0, 4, CONV), segment(2, 6, DENSE)], 0, 6)
    assert seconds(step) == {CONV: 3, DENSE: 3, NOBODY: 0}


def test_a_gap_belongs_to_the_operation_that_ends_it():
    step = split([segment(0, 1, CONV), segment(3, 4, DENSE)], 0, 4)
    assert seconds(step) == {CONV: 1, DENSE: 3, NOBODY: 0}
    assert step.scopes[DENSE].waiting == 2


def test_before_the_first_operation_and_after_the_last_is_nobody():
    step = split([segment(2, 3, CONV)], 0, 10)
    assert seconds(step) == {CONV: 1, NOBODY: 9}


def test_what_only_holds_others_has_the_time_that_they_leave():
    step = split([segment(0, 10, CONV, holds=True), segment(2, 6, DENSE)], 0, 10)
    assert seconds(step) == {CONV: 6, DENSE: 4, NOBODY: 0}
    assert step.scopes[CONV].waiting == 6


def test_operations_are_cut_at_the_ends_of_the_step():
    step = split([segment(-5, 1, CONV), segment(3, 30, DENSE)], 0, 4)
    assert seconds(step) == {CONV: 1, DENSE: 3, NOBODY: 0}
    assert sum(seconds(step).values()) == step.seconds


def test_nested_events_of_a_thread_do_not_count_twice():
    events = [Event(0, 10, CONV, False), Event(2, 5, DENSE, False), Event(3, 4, None, False)]
    found = [(each.start, each.end, each.scope) for each in flat(events)]
    assert found == [(0, 2, CONV), (2, 3, DENSE), (3, 4, DENSE), (4, 5, DENSE), (5, 10, CONV)]


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("StatefulPartitionedCall/fitscope.5./sequential_1/fitscope.12./conv2d_1/Relu:_FusedConv2D", ("12", False)),
        ("gradient_tape/fitscope.5./sequential_1/fitscope.12._1/conv2d_1/Conv2DBackpropInput", ("12", True)),
        ("jit(train_step)/jvp(fitscope.0.)/dense/dot_general", ("0", False)),
        ("jit(train_step)/transpose(jvp(fitscope.0.))/dense/dot_general", ("0", True)),
        ("fitscope.optimizer./fitscope.u3./adam/mul", ("u3", False)),
        ("sequential/dense/MatMul", None),
    ],
)
def test_the_innermost_scope_of_a_name_counts(name, scope):
    assert scope_of(name) == scope


def test_an_instruction_that_the_compiler_made_belongs_to_its_neighbors():
    back = "jit(step)/transpose(jvp(fitscope.7.))/conv"
    instructions = {
        1: Instruction("gradient", "multiply", back),
        2: Instruction("activations", "copy", "jit(step)/jvp(fitscope.6.)/max"),
        3: Instruction("filter_gradient", "convolution", "", [1, 2]),
        4: Instruction("new_weights", "subtract", "jit(step)/fitscope.u7./sub", [3]),
        5: Instruction("numbers", "iota", ""),
        6: Instruction("window", "reduce-window", "", [5, 2]),
        7: Instruction("scatter", "scatter", "jit(step)/transpose(jvp(fitscope.6.))/scatter", [6]),
        8: Instruction("of_the_step", "add", "jit(step)/add", [4]),
        9: Instruction("turned", "transpose", "", [1]),
        10: Instruction("later_gradient", "convolution", "", [2, 9]),
        11: Instruction("turned_back", "copy", "", [10]),
        12: Instruction("other_weights", "subtract", "jit(step)/fitscope.u8./sub", [11]),
    }
    found = {name: each.scope for name, each in place({0: Computation(instructions, 8)}, scope_of).items()}
    assert found["filter_gradient"] == ("7", True)
    assert found["window"] == found["numbers"] == ("6", True)
    assert found["of_the_step"] is None
    # Not to the layer whose activations it is computed from, though they are the first to be known.
    assert found["later_gradient"] == found["turned_back"] == ("8", True)


def test_a_fusion_belongs_to_the_heaviest_instruction_in_it():
    inner = {
        1: Instruction("dot", "dot", "jvp(fitscope.3.)/dot"),
        2: Instruction("max", "maximum", "jvp(fitscope.4.)/max"),
    }
    outer = {9: Instruction("fusion", "fusion", "jvp(fitscope.4.)/max", [], [1]), 10: Instruction("while", "while")}
    found = place({0: Computation(outer, 9), 1: Computation(inner, 2)}, scope_of)
    assert found["fusion"].scope == ("3", False)
    assert found["while"].holds


@pytest.mark.parametrize("noted_late", [False, True])
def test_a_profile_of_tensorflow_and_xla_is_read_scope_by_scope(tmp_path, noted_late):
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(scoped_xspace(noted_late))
    (step,) = scopes.read(path)
    found = {scope: round(1e3 * spent.seconds, 6) for scope, spent in step.scopes.items()}
    # 10 ms before the first operation; dot.1 goes on in another thread until 60 ms; the step ends at 100 ms.
    assert found == {("1", False): 20, ("2", False): 30, ("2", True): 20, NOBODY: 30}
    assert round(1e3 * step.seconds, 6) == 100


def test_a_profile_of_torch_is_read_scope_by_scope(tmp_path):
    def event(name, start, long, category="cpu_op", number=None):
        arguments = {} if number is None else {"args": {"Sequence number": number}}
        return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": long, "pid": 1, "tid": 1, **arguments}

    engine = "autograd::engine::evaluate_function: "
    events = [
        event("ProfilerStep#0", 0, 10_000, "user_annotation"),
        event("fitscope.1.", 1_000, 3_000, "user_annotation"),
        event("aten::conv2d", 1_500, 2_000, number=10),
        event("aten::detach", 3_600, 100, number=11),
        event("fitscope.2.", 4_000, 1_000, "user_annotation"),
        event("aten::linear", 4_000, 1_000, number=11),
        event(f"{engine}AddmmBackward0", 6_000, 1_000, number=11),
        event("aten::mm", 6_200, 500, number=12),
        event(f"{engine}torch::autograd::AccumulateGrad", 7_000, 500),
        event(f"{engine}ConvolutionBackward0", 7_500, 2_000, number=10),
    ]
    path = tmp_path / "a.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    (step,) = scopes.read(path)
    found = {scope: round(1e3 * spent.seconds, 6) for scope, spent in step.scopes.items()}
    assert found == {("1", False): 3, ("2", False): 1, ("2", True): 2.5, ("1", True): 2, NOBODY: 1.5}
    assert round(1e3 * step.scopes["1", False].waiting, 6) == 0.9


def test_what_a_device_runs_belongs_to_what_launched_it(tmp_path):
    def event(name, start, long, category, thread=1, **arguments):
        times = {"ts": start, "dur": long, "pid": 1, "tid": thread}
        return {"ph": "X", "cat": category, "name": name, **times, "args": arguments}

    events = [
        event("ProfilerStep#0", 0, 1_000, "user_annotation"),
        event("fitscope.1.", 0, 100, "user_annotation"),
        event("aten::conv2d", 10, 80, "cpu_op", **{"Sequence number": 1}),
        event("cudaLaunchKernel", 50, 5, "cuda_runtime", correlation=7),
        event("sgemm", 200, 400, "kernel", thread=9, correlation=7, device=0),
        event(
            "autograd::engine::evaluate_function: ConvolutionBackward0", 150, 50, "cpu_op", **{"Sequence number": 1}
        ),
        event("cudaLaunchKernel", 160, 5, "cuda_runtime", correlation=8),
        event("sgemm", 600, 300, "kernel", thread=9, correlation=8, device=0),
    ]
    path = tmp_path / "a.pt.trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    (step,) = scopes.read(path)
    found = {scope: round(1e6 * spent.seconds) for scope, spent in step.scopes.items()}
    assert found == {("1", False): 400, ("1", True): 300, NOBODY: 300}


def test_a_program_in_a_trace_is_found_by_its_name():
    from fitscope.trace import hlo

    found = hlo.programs(memoryview(hlo_program()), scope_of)
    assert found["jit_step(7)"]["dot.1"].scope == ("2", False)
