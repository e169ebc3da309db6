import importlib
import importlib.util
import sys

import pytest

from fitscope.observe.imports import Finder


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a module that nobody has imported yet."""
    monkeypatch.syspath_prepend(tmp_path)
    written = []

    def write(name, source="value = 1\n"):
        written.append(name)
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture
def watch():
    """Watches for a module; gives the list that grows by what the module held when we acted."""
    finders = []

    def watch(name):
        seen = []
        finder = Finder({name: lambda: seen.append(getattr(sys.modules[name], "value", None))})
        finder.watch()
        finders.append(finder)
        return seen

    yield watch
    for finder in finders:
        finder.unwatch()


def test_the_action_comes_once_right_after_the_import(write, watch):
    name = write("late_module")
    seen = watch(name)
    assert seen == []
    importlib.import_module(name)
    assert seen == [1]
    importlib.import_module(name)
    importlib.reload(sys.modules[name])
    assert seen == [1]


def test_what_is_imported_already_is_acted_on_at_once(write, watch):
    name = write("early_module")
    importlib.import_module(name)
    seen = watch(name)
    assert seen == [1]
    importlib.reload(sys.modules[name])
    assert seen == [1]


def test_other_modules_are_nobodys_business(write, watch):
    seen = watch(write("watched_module"))
    importlib.import_module(write("other_module"))
    assert seen == []


def test_nothing_is_done_any_more_after_unwatch(write):
    name = write("unwatched_module")
    seen = []
    finder = Finder({name: lambda: seen.append(1)})
    finder.watch()
    finder.unwatch()
    finder.unwatch()
    importlib.import_module(name)
    assert seen == []


LOADERS = "value = (type(__loader__).__name__, type(__spec__.loader).__name__, __loader__ is __spec__.loader)\n"


def test_the_module_has_the_loader_that_it_has_without_us(write, watch):
    alone = importlib.import_module(write("alone_module", LOADERS))
    name = write("held_module", LOADERS)
    watch(name)
    held = importlib.import_module(name)
    assert held.value == alone.value
    assert type(held.__loader__) is type(alone.__loader__)
    assert held.__spec__.loader is held.__loader__
    assert held.__loader__.get_source(name) == LOADERS


def test_a_package_is_acted_on_after_its_init_and_finds_its_submodules(tmp_path, write, watch):
    (tmp_path / "held_package").mkdir()
    (tmp_path / "held_package" / "__init__.py").write_text("from held_package.inner import value\n")
    (tmp_path / "held_package" / "inner.py").write_text("value = 2\n")
    seen = watch("held_package")
    try:
        importlib.import_module("held_package")
        assert seen == [2]
    finally:
        for name in ("held_package", "held_package.inner"):
            sys.modules.pop(name, None)


def test_looking_for_a_module_without_importing_it_does_not_use_the_action_up(write, watch):
    """As transformers and others look whether TensorFlow or torch is there."""
    name = write("looked_for_module")
    seen = watch(name)
    assert importlib.util.find_spec(name) is not None
    importlib.import_module(name)
    assert seen == [1]


def test_a_failed_import_fails_as_without_us_and_a_second_try_is_acted_on(tmp_path, write, watch):
    name = write("failing_module", "raise ImportError('no such device')\n")
    seen = watch(name)
    with pytest.raises(ImportError, match="no such device"):
        importlib.import_module(name)
    assert (name in sys.modules, seen) == (False, [])
    write(name, "value = 'the second try works'\n")
    importlib.import_module(name)
    assert seen == ["the second try works"]


def test_a_module_that_is_not_there_is_missed_as_without_us(watch):
    seen = watch("no_such_module_anywhere")
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module_anywhere'"):
        importlib.import_module("no_such_module_anywhere")
    assert importlib.util.find_spec("no_such_module_anywhere") is None
    assert seen == []


def test_two_may_watch_for_the_same_module(write, watch):
    name = write("watched_by_two")
    first, second = watch(name), watch(name)
    module = importlib.import_module(name)
    assert (first, second) == ([1], [1])
    assert type(module.__loader__).__module__ == "_frozen_importlib_external"
