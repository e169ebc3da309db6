"""For pytest: a training that has become slower than its baseline fails a test.

    def test_training_is_as_fast_as_it_was(training_speed):
        training_speed("train.py", "--epochs", "3")

The baseline is `speed/train.json` beside the test; `pytest --save-training-speed` records it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    """`pytest --save-training-speed` records the baselines anew."""
    parser.getgroup("fitscope").addoption(
        "--save-training-speed", action="store_true", help="Record the baselines of training_speed anew."
    )


@pytest.fixture
def training_speed(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Records a script several times and compares it with its baseline.

    training_speed("train.py", "--epochs", "3", fail_above=0.05, repeat=3, baseline="speed/train.json")

    Slower beyond doubt fails the test; where the runs cannot say, or there is no baseline yet, it is skipped.
    """
    folder = request.path.parent

    def check(
        script: str, *arguments: str, fail_above: float = 0.05, repeat: int = 3, baseline: str | None = None
    ) -> None:
        kept = folder / (baseline or f"speed/{Path(script).stem}.json")
        saving = bool(request.config.getoption("--save-training-speed"))
        if not saving and not kept.exists():
            pytest.skip(f"there is no baseline {kept}: record it with pytest --save-training-speed")
        path = folder / script if (folder / script).exists() else Path(script)
        with tempfile.TemporaryDirectory() as temporary:
            runs = _record(path, arguments, Path(temporary), repeat)
            if saving:
                _save(kept, runs)
            else:
                _judge(kept, runs, fail_above)

    return check


def _record(script: Path, arguments: tuple[str, ...], folder: Path, repeat: int) -> list[str]:
    from fitscope.supervise import supervise

    runs = []
    for number in range(repeat):
        finished = supervise([sys.executable, str(script), *arguments], folder / f"{number}.run")
        if finished.exit_code or not finished.path.is_file():
            pytest.fail(f"{script} ended with exit code {finished.exit_code}", pytrace=False)
        runs.append(str(finished.path))
    return runs


def _save(kept: Path, runs: list[str]) -> None:
    from fitscope.baseline import save

    save(kept, runs)
    pytest.skip(f"saved {kept}: commit it")


def _judge(kept: Path, runs: list[str], limit: float) -> None:
    from fitscope.compare import SLOWER, UNKNOWN, compare_runs, gate, side
    from fitscope.report.comparison import to_terminal, verdict
    from fitscope.report.to_terminal import console

    found = compare_runs(side(str(kept)), side(*runs), limit)
    outcome = gate(found, limit)
    if outcome == SLOWER:
        text = StringIO()
        to_terminal(found, console(text), (outcome, limit))
        pytest.fail(text.getvalue(), pytrace=False)
    if outcome == UNKNOWN:
        pytest.skip(f"cannot say whether it is slower: {verdict(found)}")
