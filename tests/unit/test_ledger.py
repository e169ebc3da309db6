import random

from fitscope.observe.ledger import NOWHERE, Ledger, Place, Tree

SECOND = 1_000_000_000


def test_the_innermost_node_owns_the_instant(clock):
    tree = Tree()
    ledger = Ledger(tree, 1)
    fit = tree.node(NOWHERE, "region", "fit")
    step, callback = tree.node(fit, "step"), tree.node(fit, "callback", "Waits.on_train_batch_end")
    predict = tree.node(callback, "call", "predict")
    ledger.enter(step)
    clock.passes(1)
    ledger.enter(callback)
    clock.passes(2)
    ledger.enter(predict)
    clock.passes(4)
    ledger.back(callback)
    clock.passes(8)
    ledger.back(ledger.outside)
    spent = {node: tree.spent[node] / SECOND for node in (fit, step, callback, predict)}
    assert spent == {fit: 0, step: 1, callback: 10, predict: 4}


def test_a_node_that_goes_on_after_an_interruption_is_not_counted_again(clock):
    tree = Tree()
    ledger = Ledger(tree, 1)
    step, collecting = tree.node(NOWHERE, "step"), tree.node(NOWHERE, "gc")
    ledger.enter(step)
    ledger.enter(collecting)
    ledger.back(step)
    ledger.enter(collecting)
    ledger.back(step)
    assert (tree.counts[step], tree.counts[collecting]) == (1, 2)


def test_a_change_of_owner_says_when_it_was(clock):
    ledger = Ledger(Tree(), 1)
    step = ledger.tree.node(NOWHERE, "step")
    clock.passes(3)
    assert ledger.enter(step) == clock.now
    clock.passes(3)
    assert ledger.back(ledger.outside) == clock.now


def test_the_time_before_and_after_a_training_belongs_to_no_training(clock):
    ledger = Ledger(Tree(), 1)
    step = ledger.tree.node(NOWHERE, "step")
    clock.passes(5)
    ledger.enter(step)
    clock.passes(1)
    ledger.back(ledger.outside)
    clock.passes(6)
    ledger.enter(step)
    assert ledger.spent[ledger.outside] == 11 * SECOND
    assert ledger.spent[step] == 1 * SECOND


def test_a_renamed_owner_gives_up_what_it_held_since_it_was_entered_and_keeps_the_rest(clock):
    ledger = Ledger(Tree(), 1)
    step, close = ledger.tree.node(NOWHERE, "step"), ledger.tree.node(NOWHERE, "epoch", "closing")
    ledger.enter(step)
    clock.passes(1)
    ledger.enter(step)
    clock.passes(2)
    ledger.rename(close)
    clock.passes(4)
    ledger.back(ledger.outside)
    assert (ledger.spent[step], ledger.spent[close]) == (1 * SECOND, 6 * SECOND)


def test_what_is_moved_changes_its_owner_but_not_the_sum(clock):
    ledger = Ledger(Tree(), 1)
    step, data = ledger.tree.node(NOWHERE, "step"), ledger.tree.node(NOWHERE, "data")
    ledger.enter(step)
    clock.passes(5)
    ledger.back(ledger.outside)
    ledger.move(step, data, 2 * SECOND)
    assert (ledger.spent[step], ledger.spent[data]) == (3 * SECOND, 2 * SECOND)


def test_after_any_course_the_nodes_add_up_to_the_wall_time(clock):
    chance = random.Random(1)
    tree = Tree()
    began = clock.now
    ledger = Ledger(tree, 1)
    nodes = [ledger.outside]
    for number in range(20):
        nodes.append(tree.node(chance.choice(nodes), "step", str(number)))
    for _ in range(2000):
        clock.now += chance.randrange(10**9)
        match chance.randrange(4):
            case 0:
                ledger.enter(chance.choice(nodes))
            case 1:
                ledger.back(chance.choice(nodes))
            case 2:
                ledger.rename(chance.choice(nodes))
            case 3:
                ledger.move(chance.choice(nodes), chance.choice(nodes), chance.randrange(1000))
    ledger.back(ledger.outside)
    assert sum(tree.spent) == clock.now - began


def test_two_threads_do_not_charge_each_other(clock):
    tree = Tree()
    one, two = Ledger(tree, 1), Ledger(tree, 2)
    ours, theirs = tree.node(NOWHERE, "region", "fit", thread=1), tree.node(NOWHERE, "region", "fit", thread=2)
    one.enter(ours)
    clock.passes(1)
    two.enter(theirs)
    clock.passes(2)
    one.back(one.outside)
    clock.passes(4)
    two.back(two.outside)
    assert (tree.spent[ours], tree.spent[theirs]) == (3 * SECOND, 6 * SECOND)
    assert one.outside != two.outside


def test_the_same_place_below_the_same_parent_is_the_same_node(clock):
    tree = Tree()
    here, there = Place("train.py", 1), Place("train.py", 2)
    first = tree.node(NOWHERE, "region", "fit", here, 1)
    assert tree.node(NOWHERE, "region", "fit", here, 1) == first
    others = {
        tree.node(first, "region", "fit", here, 1),
        tree.node(NOWHERE, "call", "fit", here, 1),
        tree.node(NOWHERE, "region", "predict", here, 1),
        tree.node(NOWHERE, "region", "fit", there, 1),
        tree.node(NOWHERE, "region", "fit", here, 2),
    }
    assert len(others) == 5
    assert first not in others


def test_a_path_leads_from_the_root_down_to_the_node():
    tree = Tree()
    fit = tree.node(NOWHERE, "region", "fit")
    callback = tree.node(fit, "callback")
    predict = tree.node(callback, "call")
    assert tree.path(predict) == [fit, callback, predict]
    assert tree.path(NOWHERE) == []
