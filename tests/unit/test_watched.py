"""How long steps took that the training thread only dispatched: from the instants at which they were done."""

from fitscope.observe.callbacks import Watched
from fitscope.observe.recorder import Region


def dispatch(watched, region, *, steps, began, each=1):
    watched.dispatched += [(region, each, 0 if number else began) for number in range(steps)]


def test_a_step_lasts_since_the_one_before_it_was_done():
    watched, region = Watched([]), Region()
    dispatch(watched, region, steps=3, began=1000)
    watched.done += [1040, 1075, 1105]
    watched.settle()
    assert region.take_durations() == [40, 35, 30]


def test_steps_that_are_not_done_are_settled_later_and_the_order_of_the_pool_does_not_matter():
    watched, region = Watched([]), Region()
    dispatch(watched, region, steps=4, began=100)
    watched.done += [120, 110]
    watched.settle()
    watched.done += [140, 150]
    watched.settle()
    assert region.take_durations() == [10, 10, 20, 10]


def test_each_pass_begins_anew_and_an_execution_may_hold_several_steps():
    watched, region = Watched([]), Region()
    dispatch(watched, region, steps=1, began=100, each=5)
    watched.done += [200]
    watched.settle(final=True)
    dispatch(watched, region, steps=1, began=1000, each=5)
    watched.done += [1050]
    watched.settle(final=True)
    assert region.take_durations() == [20, 10]


def test_steps_of_a_validation_count_for_nobody():
    watched, region = Watched([]), Region()
    dispatch(watched, region, steps=2, began=100)
    dispatch(watched, None, steps=1, began=130)
    watched.done += [110, 120, 500]
    watched.settle()
    assert region.take_durations() == [10, 10]


def test_a_step_that_is_done_before_it_is_known_to_be_dispatched_waits_for_that():
    watched, region = Watched([]), Region()
    watched.done += [120]
    watched.settle()
    dispatch(watched, region, steps=1, began=100)
    watched.settle()
    assert region.take_durations() == [20]


def test_nothing_is_left_over_for_the_next_pass():
    watched, region = Watched([]), Region()
    dispatch(watched, region, steps=2, began=100)
    watched.done += [120]
    watched.settle(final=True)
    assert (watched.done, watched.dispatched) == ([], [])
