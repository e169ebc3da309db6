import gc
import sys
import threading
import time
import types

import pytest
from made import LINE

from fitscope.observe import sampler
from fitscope.observe.sampler import PromptTurns, Sampler
from fitscope.observe.seams import Seams

LIBRARY = "/x/site-packages/keras/src/trainer.py"


def function_in(file, source, **names):
    """The function that some source defines, as if it stood in that file."""
    module = types.ModuleType("elsewhere")
    vars(module).update(names)
    exec(compile(source, file, "exec"), vars(module))
    (function,) = (value for name, value in vars(module).items() if name not in names and callable(value))
    return function


@pytest.fixture
def step(recording):
    """This thread trains: the node that owns its time."""
    ledger = recording.ledger()
    node = recording.tree.node(recording.root(ledger, "fit", LINE), "step", "step")
    ledger.enter(node)
    return node


@pytest.fixture
def look(recording):
    """One look from another thread while this one is in a library's code."""
    said = []

    def thread():
        return threading.Thread(target=lambda: said.append(Sampler(recording).look()))

    source = "def wait():\n looking = thread()\n looking.start()\n looking.join()\n return said[-1]\n"
    return function_in(LIBRARY, source, thread=thread, said=said)


@pytest.fixture
def beside():
    """Runs a function in a thread beside the training, until it waits at a lock or the test is over."""
    threads, gates = [], []

    def beside(function):
        ready, gate = threading.Lock(), threading.Lock()
        ready.acquire()
        gate.acquire()
        threads.append(threading.Thread(target=function, args=(ready.release, gate.acquire)))
        gates.append(gate)
        threads[-1].start()
        ready.acquire()

    yield beside
    for gate in gates:
        gate.release()
    for thread in threads:
        thread.join()


def counted(recording):
    return {key: row[0] for key, row in zip(recording.lines.keys, recording.lines.rows, strict=True)}


def test_a_look_finds_the_users_line_below_the_node_that_owns_the_time(recording, step, look):
    def loss():
        assert look()
        assert look()
        assert look()

    loss()
    first = loss.__code__.co_firstlineno + 1
    assert counted(recording) == {(step, __file__, first + number, "loss", ""): 1 for number in range(3)}


def test_a_library_that_trains_is_not_charged_to_the_line_that_called_it(recording, step, look):
    class Trainer:
        fit = function_in(LIBRARY, "def fit(self): return look()\n", look=look)

    seams = Seams(recording)
    seams.hold(Trainer, "fit", lambda *_: None, lambda *_: None)
    assert Trainer().fit()
    seams.release()
    assert counted(recording) == {}


def test_looks_that_find_nothing_of_the_users_become_rare_until_one_does(recording, step, monkeypatch):
    looking = Sampler(recording)

    def look():
        thread = threading.Thread(target=looking.look)
        thread.start()
        thread.join()

    with monkeypatch.context() as patch:
        patch.setattr(sampler, "_user_line", lambda *_, **__: None)
        for _ in range(sampler.IN_VAIN):
            assert looking._pause(5.0) == sampler.USUAL
            look()
    assert looking._pause(5.0) == sampler.RARELY
    look()
    assert looking._pause(5.0) == sampler.USUAL


def test_nothing_is_counted_while_nothing_trains(recording, look):
    recording.ledger()
    assert not look()
    assert counted(recording) == {}


def test_a_thread_that_works_beside_the_training_counts_for_the_region(recording, step, look, beside):
    def load(ready, wait):
        ready()
        wait()

    beside(load)
    root = recording.tree.path(step)[0]
    look()
    samples = {(node, function): number for (node, _, _, function, _), number in counted(recording).items()}
    assert samples[-root, "load"] == 1


@pytest.mark.parametrize(("file", "seen"), [("/usr/lib/python3/queue.py", 0), ("/home/me/image_queue.py", 1)])
def test_a_thread_that_waits_in_a_queue_is_idle_and_one_in_a_file_that_sounds_like_it_is_not(
    recording, step, look, beside, file, seen
):
    get = function_in(file, "def get(ready, wait):\n ready()\n wait()\n")

    def load(ready, wait):
        get(ready, wait)

    beside(load)
    root = recording.tree.path(step)[0]
    look()
    assert sum(number for (node, *_), number in counted(recording).items() if node == -root) == seen


def test_a_sampler_ends_when_it_is_stopped(recording):
    sampler = Sampler(recording)
    sampler.start()
    sampler.stop()
    sampler.stop()
    assert "fitscope-sampler" not in [thread.name for thread in threading.enumerate()]


def test_work_that_is_shorter_than_pythons_switch_interval_is_seen(recording, step):
    load = function_in("/x/train.py", "def load(): return sum(range(100_000))\n")
    source = "def fit(load, let_go):\n for _ in range(150):\n  load()\n  let_go(0)\n"
    fit = function_in(LIBRARY, source)
    sampler = Sampler(recording)
    sampler.start()
    for _ in range(5):
        fit(load, time.sleep)
    sampler.stop()
    assert "load" in {function for _, _, _, function, _ in counted(recording)}


def test_the_switch_interval_is_what_it_was_after_a_look_or_what_the_script_made_it():
    before = sys.getswitchinterval()
    turns = PromptTurns()
    turns.end()
    with turns:
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
    with turns:
        sys.setswitchinterval(0.02)
    assert sys.getswitchinterval() == 0.02
    sys.setswitchinterval(before)


def test_the_stack_of_a_thread_is_that_which_it_has():
    def outer(ready, done):
        inner(ready, done)

    def inner(ready, done):
        ready.set()
        done.wait()

    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=outer, args=(ready, done))
    thread.start()
    ready.wait()
    stack = sampler.stack_of(thread.ident)
    done.set()
    thread.join()
    names = [code.co_name for code, _ in stack]
    assert names[names.index("inner") : names.index("inner") + 2] == ["inner", "outer"]
    assert {code.co_name: line for code, line in stack}["outer"] == outer.__code__.co_firstlineno + 1


def test_a_thread_that_has_ended_has_no_stack():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert sampler.stack_of(thread.ident) == []


def test_the_innermost_files_of_all_threads_are_seen_at_once():
    ready = threading.Event()
    wait = function_in(
        "/home/me/waits.py",
        "def wait():\n ready()\n gate.acquire()\n",
        ready=ready.set,
        gate=(gate := threading.Lock()),
    )
    gate.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    files = sampler.innermost_files()
    gate.release()
    thread.join()
    assert files[thread.ident] == "/home/me/waits.py"
    assert files[threading.get_ident()] == sampler.__file__


def test_no_garbage_is_collected_while_stacks_are_fetched(monkeypatch):
    enabled = []
    frames = sampler.sys._current_frames

    def watched():
        enabled.append(gc.isenabled())
        return frames()

    monkeypatch.setattr(sampler.sys, "_current_frames", watched)
    sampler.stack_of(threading.get_ident())
    sampler.innermost_files()
    assert enabled == [False, False, False]
    assert gc.isenabled()


def test_the_collector_stays_off_if_the_user_turned_it_off():
    gc.disable()
    try:
        sampler.stack_of(threading.get_ident())
        sampler.innermost_files()
        assert not gc.isenabled()
    finally:
        gc.enable()
