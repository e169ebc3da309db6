"""Which stage is slow, from the times of a pipeline that is free up to each of its stages."""

import pytest

from fitscope.locate import Cost, located
from fitscope.model import Where


def cuts(*times):
    kinds = ("source", "map", "shuffle", "map", "batch", "map")
    return {
        "whole": times[0],
        "cuts": [
            {"kind": kind, "file": "train.py", "line": 10 + number, "seconds": seconds}
            for number, (kind, seconds) in enumerate(zip(kinds, times[1:], strict=False))
        ],
    }


@pytest.mark.parametrize("stages", [3, 4, 5, 6])
def test_the_slow_stage_is_named_wherever_it_stands(stages):
    for slow in range(stages):
        times = [0.003 + (0.020 if place <= slow else 0.0) - 0.0004 * place for place in range(stages + 1)]
        found = located(cuts(*times))
        assert found.slow == Cost(found.costs[slow].kind, Where("train.py", 10 + slow), pytest.approx(0.0204))


def test_it_is_told_with_its_place_and_its_part():
    assert (
        located(cuts(0.025, 0.025, 0.004)).says == "the slow stage is map train.py:11, 21.0 ms of 25.0 ms per batch"
    )


def test_where_two_stages_share_the_time_none_is_the_slow_one():
    assert located(cuts(0.025, 0.013, 0.002)).says == ""


def test_where_a_cut_seems_to_make_it_slower_that_is_noise():
    found = located(cuts(0.025, 0.026, 0.004))
    assert [cost.seconds for cost in found.costs] == [0.0, pytest.approx(0.022)]
