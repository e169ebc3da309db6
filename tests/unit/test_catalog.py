"""What holds for every rule of the catalog."""

import re

import pytest

from fitscope.manual import page
from fitscope.rules import CATALOG, find
from fitscope.rules.rule import BACKENDS, FAMILIES, Rule

WITHOUT_EXAMPLE = {
    "input-bound",  # what is left where nothing narrower is certain
    "progress-bar",  # a bar is drawn fast into a file: only a terminal or a notebook makes it slow
    "invisible-accelerator",  # these need a GPU
    "idle-accelerator",
    "memory-pressure",  # would make the machine swap
    "thread-oversubscription",  # its price depends on what else the kernel has to run at that instant
}


def test_codes_and_names_are_unique():
    assert len({rule.code for rule in CATALOG}) == len({rule.name for rule in CATALOG}) == len(CATALOG)


def test_the_catalog_is_in_the_order_of_the_codes():
    assert [rule.code for rule in CATALOG] == sorted(rule.code for rule in CATALOG)


@pytest.mark.parametrize("rule", CATALOG, ids=lambda rule: rule.name)
class TestEveryRule:
    def test_has_a_code_of_its_family(self, rule):
        assert re.fullmatch(r"FS\d{3}", rule.code)
        assert rule.code[2] == str(FAMILIES.index(rule.family) + 1)

    def test_has_a_name_that_reads_after_allow(self, rule):
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
        assert not rule.name.startswith(("use-", "add-", "avoid-", "no-", "dont-"))

    def test_is_found_by_name_and_by_code(self, rule):
        assert find(rule.name) is find(rule.code.lower()) is rule

    def test_has_a_page_that_says_what_it_is_how_it_is_seen_and_what_to_change(self, rule):
        text = page(rule).text
        assert page(rule).title.endswith(".")
        assert "fitscope says so" in text or "fitscope counts" in text
        assert "Change: " in text
        assert f"allow {rule.name}" in text

    def test_has_examples_that_are_python_and_differ(self, rule):
        assert bool(rule.examples) != (rule.name in WITHOUT_EXAMPLE)
        for example in rule.examples:
            compile(example.slow, "slow.py", "exec")
            compile(example.fast, "fast.py", "exec")
            assert example.slow != example.fast
            assert set(example.backends) <= set(BACKENDS)
            assert example.line in example.slow

    def test_looks_at_a_run_in_its_own_way(self, rule):
        assert type(rule).diagnose is not Rule.diagnose


def test_an_unknown_name_is_no_rule():
    assert find("slow-computer") is None
