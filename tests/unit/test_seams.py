import functools
import inspect
import os
import sys
import threading
import traceback
import types
from pathlib import Path

import pytest

from fitscope.observe import seams as module
from fitscope.observe.ledger import NOWHERE
from fitscope.observe.seams import Seams, is_library, is_user, place_of, user_frame

SECOND = 1_000_000_000


class Trainer:
    """Stands for a class of Keras."""

    def fit(self, x=None, *, epochs=1):
        """Trains."""
        return (x, epochs)

    def fails(self, error):
        raise error


class Model(Trainer):
    """Inherits `fit`."""


class OwnFit(Trainer):
    """Brings its own `fit`."""

    def fit(self, x=None, *, epochs=1):
        return "own"


@pytest.fixture(autouse=True)
def nothing_is_held_afterwards():
    owners = {owner: dict(vars(owner)) for owner in (Trainer, Model, OwnFit)}
    yield
    for owner, before in owners.items():
        assert dict(vars(owner)) == before


@pytest.fixture
def seams(recording):
    recording.ledger()
    made = Seams(recording)
    yield made
    made.release()


def nothing(*_):
    return None


def boom(*_):
    raise RuntimeError("a mistake in fitscope")


# --- holding -----------------------------------------------------------------------------------------------


def test_a_held_function_gets_and_gives_what_it_did_before(seams):
    seams.hold(Trainer, "fit", nothing, nothing)
    assert Trainer().fit(7, epochs=2) == (7, 2)
    assert Trainer().fit(x=7) == (7, 1)


def test_before_and_after_stand_around_the_call_and_share_a_token(seams, recording):
    seen = []
    trainer = Trainer()

    def before(ledger, owner, args, kwargs):
        seen.append(("before", ledger, owner, args, kwargs))
        return "token"

    seams.hold(Trainer, "fit", before, lambda *after: seen.append(("after", *after)))
    trainer.fit(7, epochs=2)
    ledger = recording.ledger()
    assert seen == [
        ("before", ledger, trainer, (7,), {"epochs": 2}),
        ("after", ledger, "token", (7, 2), None),
    ]


def test_a_held_function_still_looks_like_itself(seams):
    signature = inspect.signature(Trainer.fit)
    seams.hold(Trainer, "fit", nothing, nothing)
    assert (Trainer.fit.__name__, Trainer.fit.__doc__) == ("fit", "Trains.")
    assert inspect.signature(Trainer.fit) == signature


def test_a_thread_that_does_not_train_is_not_observed(recording):
    seen = []
    seams = Seams(recording)
    seams.hold(Trainer, "fit", lambda *_: seen.append("before"), lambda *_: seen.append("after"))
    assert Trainer().fit(7) == (7, 1)
    seams.release()
    assert seen == []
    assert recording.ledgers == {}


def test_a_function_held_for_anyone_makes_its_thread_one_that_is_observed(recording):
    seams = Seams(recording)
    seams.hold(Trainer, "fit", nothing, nothing, anyone=True)
    Trainer().fit()
    seams.release()
    assert list(recording.ledgers) == [threading.get_ident()]


def test_what_is_not_there_is_not_held(seams):
    seams.hold(Trainer, "no_such_method", nothing, nothing)
    assert seams.held == []
    assert not hasattr(Trainer, "no_such_method")


# --- releasing ---------------------------------------------------------------------------------------------


def test_release_puts_the_very_same_functions_back(recording):
    before = dict(vars(Trainer))
    seams = Seams(recording)
    seams.hold(Trainer, "fit", nothing, nothing)
    seams.hold(Trainer, "fails", nothing, nothing)
    seams.replace(Trainer, "new", 1)
    assert [name for _, name in seams.held] == ["fit", "fails", "new"]
    seams.release()
    assert dict(vars(Trainer)) == before
    assert seams.held == []


def test_release_takes_an_inherited_function_away_again(recording):
    seams = Seams(recording)
    seams.hold(Model, "fit", nothing, nothing)
    assert "fit" in vars(Model)
    seams.release()
    assert "fit" not in vars(Model)
    assert Model.fit is Trainer.fit


def test_parent_and_child_held_together_are_both_put_back(recording):
    before = [dict(vars(owner)) for owner in (Trainer, OwnFit, Model)]
    seams = Seams(recording)
    for owner in (Trainer, OwnFit, Model, Trainer):
        seams.hold(owner, "fit", nothing, nothing)
    assert (OwnFit().fit(), Model().fit(3)) == ("own", (3, 1))
    seams.release()
    assert [dict(vars(owner)) for owner in (Trainer, OwnFit, Model)] == before


def test_a_static_method_that_was_replaced_is_a_static_method_again(recording):
    class Owner:
        @staticmethod
        def make():
            return "made"

    before = vars(Owner)["make"]
    seams = Seams(recording)
    seams.replace(Owner, "make", staticmethod(lambda: "ours"))
    assert Owner.make() == "ours"
    seams.release()
    assert vars(Owner)["make"] is before


def test_release_puts_back_what_raised(recording):
    before = dict(vars(Trainer))
    seams = Seams(recording)
    seams.hold(Trainer, "fails", boom, boom)
    recording.ledger()
    with pytest.raises(ValueError, match="theirs"):
        Trainer().fails(ValueError("theirs"))
    seams.release()
    assert dict(vars(Trainer)) == before


def test_what_somebody_put_in_our_place_stays_theirs(recording):
    class Owner:
        def fit(self):
            return "original"

    def theirs(self):
        return "theirs"

    seams = Seams(recording)
    seams.hold(Owner, "fit", nothing, nothing)
    Owner.fit = theirs
    seams.release()
    assert vars(Owner)["fit"] is theirs


def test_what_somebody_took_away_stays_away(recording):
    class Owner(Trainer):
        pass

    seams = Seams(recording)
    seams.hold(Owner, "fit", nothing, nothing)
    del Owner.fit
    seams.release()
    assert "fit" not in vars(Owner)


def test_a_wrapper_that_somebody_kept_does_nothing_after_the_release(recording):
    seen = []
    seams = Seams(recording)
    seams.hold(Trainer, "fit", lambda *_: seen.append("before"), lambda *_: seen.append("after"), anyone=True)
    kept = Trainer().fit
    seams.release()
    assert kept(7) == (7, 1)
    assert seen == []


def test_other_things_are_undone_last_first_and_once(recording):
    undone = []
    seams = Seams(recording)
    seams.on_release(lambda: undone.append(1))
    seams.on_release(lambda: undone.append(2))
    seams.release()
    seams.release()
    assert undone == [2, 1]


def test_something_that_cannot_be_undone_does_not_keep_the_rest_held(recording):
    before = dict(vars(Trainer))
    undone = []
    seams = Seams(recording)
    seams.on_release(lambda: undone.append(1))
    seams.on_release(boom)
    seams.hold(Trainer, "fit", nothing, nothing)
    try:
        seams.release()
        assert undone == [1]
        assert dict(vars(Trainer)) == before
    finally:
        seams._undo.clear()
        seams.release()


# --- exceptions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("theirs"), StopIteration(), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_of_the_held_function_passes_through_as_it_is(seams, error):
    seen = []
    seams.hold(Trainer, "fails", lambda *_: "token", lambda ledger, *after: seen.append(after))
    with pytest.raises(type(error)) as caught:
        Trainer().fails(error)
    assert caught.value is error
    assert (error.__cause__, error.__context__, error.__suppress_context__) == (None, None, False)
    assert seen == [("token", None, error)]
    assert {frame.filename for frame in traceback.extract_tb(caught.tb)} == {__file__}


@pytest.mark.parametrize(("before", "after"), [(boom, nothing), (nothing, boom)])
def test_a_mistake_of_ours_never_reaches_the_caller_and_is_noted(seams, recording, before, after):
    seams.hold(Trainer, "fit", before, after)
    assert Trainer().fit(7, epochs=2) == (7, 2)
    assert recording.failure.startswith("RuntimeError: a mistake in fitscope (test_seams.py:")


@pytest.mark.parametrize(("before", "after"), [(boom, nothing), (nothing, boom)])
def test_a_mistake_of_ours_leaves_no_trace_in_the_users_exception(seams, recording, before, after):
    seams.hold(Trainer, "fails", before, after)
    error = ValueError("theirs")
    with pytest.raises(ValueError, match="theirs") as caught:
        Trainer().fails(error)
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (None, None)
    assert recording.failure.startswith("RuntimeError")


def test_after_a_mistake_of_ours_nothing_more_is_observed(seams, recording):
    calls = []

    def before(*_):
        calls.append(1)
        raise RuntimeError

    seams.hold(Trainer, "fit", before, nothing, anyone=True)
    assert [Trainer().fit(number) for number in range(3)] == [(0, 1), (1, 1), (2, 1)]
    assert calls == [1]


def test_the_time_after_a_mistake_of_ours_is_nobodys(recording, clock):
    """The calls around the mistake still return, one after the other, while the training goes on."""
    tree = recording.tree
    fit = tree.node(NOWHERE, "region", "fit")
    loop, hook = tree.node(fit, "step", "loop"), tree.node(fit, "callback", "hook")

    class Training:
        def fit(self):
            clock.passes(1)
            self.hook()
            clock.passes(100)

        def hook(self):
            clock.passes(2)
            self.inner()

        def inner(self):
            clock.passes(50)

    def entering(node):
        def before(ledger, *_):
            resume = ledger.node
            ledger.enter(node)
            return resume

        return before

    seams = Seams(recording)
    seams.hold(Training, "fit", entering(loop), lambda ledger, resume, *_: ledger.back(resume), anyone=True)
    seams.hold(Training, "hook", entering(hook), lambda ledger, resume, *_: ledger.back(resume))
    seams.hold(Training, "inner", boom, nothing)
    Training().fit()
    seams.release()
    assert recording.failure is not None
    assert (tree.spent[loop], tree.spent[hook]) == (1 * SECOND, 2 * SECOND)


# --- whose code is it --------------------------------------------------------------------------------------

PYTHON = Path(os.__file__).parent


@pytest.mark.parametrize(
    ("file", "library", "user"),
    [
        ("/home/me/train.py", False, True),
        ("/home/me/keras/train.py", False, True),
        ("<ipython-input-3-abc>", False, True),
        (f"{PYTHON}/site-packages/keras/src/trainers/trainer.py", True, False),
        (f"{PYTHON}/site-packages/tensorflow/python/eager/context.py", True, False),
        (f"{PYTHON}/site-packages/torch/utils/data/dataloader.py", True, False),
        (f"{PYTHON}/site-packages/kerasplus/tuner.py", False, False),
        (f"{PYTHON}/threading.py", True, False),
        ("<frozen importlib._bootstrap>", True, False),
        (module.__file__, True, False),
    ],
)
def test_code_belongs_to_the_user_to_the_stack_or_to_neither(file, library, user):
    assert (is_library(file), is_user(file)) == (library, user)


def test_the_users_frame_is_the_innermost_one_outside_the_stack():
    code = compile("def fit(work):\n    return work()\n", "/x/site-packages/keras/src/trainer.py", "exec")
    keras = types.ModuleType("keras_like")
    exec(code, keras.__dict__)
    frames = []

    def ask():
        frames.append(user_frame(sys._getframe(1)))

    line = sys._getframe().f_lineno + 1
    keras.fit(lambda: keras.fit(ask))
    assert (frames[0].f_code.co_filename, frames[0].f_lineno) == (__file__, line)


def plain():
    pass


@functools.wraps(plain)
def decorated():
    pass


class Callable:
    def __call__(self):
        pass

    def method(self):
        pass


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (plain, plain.__code__),
        (decorated, plain.__code__),
        (functools.partial(plain), plain.__code__),
        (functools.partial(functools.partial(Callable().method)), Callable.method.__code__),
        (Callable().method, Callable.method.__code__),
        (Callable(), Callable.__call__.__code__),
    ],
)
def test_a_function_is_found_where_it_was_written(function, code):
    assert place_of(function) == (__file__, code.co_firstlineno)


@pytest.mark.parametrize("function", [len, Callable, None, 3])
def test_what_was_not_written_in_python_is_nowhere(function):
    assert place_of(function) is None


def test_the_tests_own_file_is_a_users_file():
    assert is_user(str(Path(__file__)))
