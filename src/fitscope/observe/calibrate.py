"""What one passage through a seam costs on this machine, measured on a seam that holds nothing of Keras."""

from __future__ import annotations

from fitscope.observe.ledger import NOWHERE, Ledger, clock
from fitscope.observe.recorder import Recorder
from fitscope.observe.seams import Seams

PASSES = 2000


class _Held:
    def nothing(self) -> None:
        pass


def passage_seconds() -> float:
    """Seconds for one wrapped call with one change of owner in and one out."""
    recorder = Recorder()
    ledger = recorder.ledger()
    node = recorder.tree.node(NOWHERE, "step")

    def before(ledger: Ledger, held: object, args: object, kwargs: object) -> int:
        owner = ledger.node
        ledger.enter(node)
        return owner

    def after(ledger: Ledger, owner: int, result: object, error: object) -> None:
        ledger.back(owner)

    held = _Held()
    bare = _time(held)
    seams = Seams(recorder)
    seams.hold(_Held, "nothing", before, after)
    try:
        return max(0.0, (_time(held) - bare) / PASSES / 1e9)
    finally:
        seams.release()
        del ledger


def _time(held: _Held) -> int:
    began = clock()
    for _ in range(PASSES):
        held.nothing()
    return clock() - began
