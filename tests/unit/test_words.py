import pytest

from fitscope import words
from fitscope.model import Speedup, Where


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.000_000_5, "0.50 µs"),
        (0.000_789, "789 µs"),
        (0.045_6, "45.6 ms"),
        (1.234, "1.23 s"),
        (12.34, "12.3 s"),
        (99.9, "99.9 s"),
        (750, "12 min 30 s"),
        (11_100, "3 h 05 min"),
        (-0.045_6, "-45.6 ms"),
    ],
)
def test_a_duration_has_three_figures_and_the_unit_that_fits(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.000_999_6, "1.00 ms"), (0.999_6, "1.00 s"), (9.996, "10.0 s"), (99.97, "1 min 40 s"), (3599.6, "1 h 00 min")],
)
def test_a_duration_that_rounds_up_to_the_next_unit_is_told_in_that_unit(value, text):
    assert words.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 %"),
        (0.000_1, "<0.1 %"),
        (0.003, "0.3 %"),
        (0.042, "4.2 %"),
        (0.099_6, "10 %"),
        (0.81, "81 %"),
        (1, "100 %"),
    ],
)
def test_a_share_never_looks_like_nothing_unless_it_is(value, text):
    assert words.share(value) == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "step", "0 steps"),
        (1, "step", "1 step"),
        (1_000_000, "step", "1,000,000 steps"),
        (3, "epoch", "3 epochs"),
        (2, "process", "2 processes"),
        (2, "batch", "2 batches"),
    ],
)
def test_a_count_agrees_with_its_noun(number, noun, text):
    assert words.count(number, noun) == text


def test_a_place_below_the_script_keeps_its_folders_and_another_only_its_name():
    assert words.place(Where("data/load.py", 7)) == "data/load.py:7"
    assert words.place(Where("/opt/lib/load.py", 7)) == "…/load.py:7"
    assert words.place(None) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.50 kB"), (512e6, "512 MB"), (3.4e9, "3.40 GB"), (2e12, "2.00 TB")],
)
def test_an_amount_of_memory_has_three_figures_and_the_unit_that_fits(value, text):
    assert words.size(value) == text


def test_an_amount_of_memory_that_rounds_up_to_the_next_unit_is_told_in_that_unit():
    assert words.size(999_700_000) == "1.00 GB"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (2.13, 2.31, "2.1 to 2.3 times faster"),
        (1.31, 1.42, "1.31 to 1.42 times faster"),
        (11.9, 14.2, "12 to 14 times faster"),
        (3.01, 3.04, "3.0 times faster"),
        (0.98, 1.03, "not confirmed: 0.98 to 1.03 times as fast"),
    ],
)
def test_what_an_experiment_showed_is_an_interval_or_not_confirmed(low, high, text):
    assert words.verified(Speedup(low, high)) == text
