"""Runs the labelled scripts under fitscope and prints what was expected, found, missed and falsely said.

python corpus/run.py            all of them (`make corpus`)
python corpus/run.py c03 h01    those whose names begin so
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fitscope import store
from fitscope.account import account
from fitscope.diagnose import diagnose
from fitscope.rules import find

HERE = Path(__file__).parent


def main() -> None:
    wanted = tuple(sys.argv[1:])
    wrong = 0
    print(f"{'script':26s} {'gain':>5s}  {'verdict':8s} found")
    for script in sorted(HERE.glob("[ch][0-9]*.py")):
        if wanted and not script.name.startswith(wanted):
            continue
        label = json.loads((HERE / f"{script.stem.removesuffix('_fixed')}.json").read_text())
        missing = [name for name in label["needs"] if importlib.util.find_spec(name) is None]
        if missing:
            print(f"{script.stem:26s}        left out: needs {', '.join(missing)}")
            continue
        findings = found_in(script, label["backend"])
        verdict, why = judge(script.stem, label, [each["name"] for each in findings])
        wrong += verdict != "right"
        gain = label["slow_over_fast"] if not script.stem.endswith("_fixed") else None
        shown = ", ".join(said(each) for each in findings) or "nothing"
        print(f"{script.stem:26s} {gain or '':>5}  {verdict:8s} {shown}{why}", flush=True)
    print(f"{wrong} wrong")
    sys.exit(1 if wrong else 0)


def found_in(script: Path, backend: str) -> list[dict[str, Any]]:
    """What fitscope finds in a run of a script."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("fitscope")), "run", "-o", "corpus.run", str(script)]
        environment = {**os.environ, "KERAS_BACKEND": backend}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        if done.returncode:
            sys.exit(f"{script.name} failed:\n{done.stderr[-3000:]}")
        run = store.read(Path(folder, "corpus.run"))
        return [
            {"name": each.name, "estimated": each.estimated, "where": each.where}
            for each in diagnose(run, account(run)).findings
        ]


def judge(stem: str, label: dict[str, Any], names: list[str]) -> tuple[str, str]:
    """Right, missed or false, and why."""
    causes = set(label["causes"])
    if stem.endswith("_fixed"):
        still = causes & set(names)
        return ("false", f"  (found though fixed: {', '.join(still)})") if still else ("right", "")
    wrong = [name for name in names if name not in causes and is_wrong(name, label["not_causes"])]
    if wrong:
        return "false", f"  (wrong here: {', '.join(wrong)})"
    if causes and not causes & set(names[:2]):
        return "missed", f"  (expected {' or '.join(sorted(causes))})"
    return "right", ""


def is_wrong(name: str, not_causes: list[str]) -> bool:
    rule = find(name)
    family = rule.family if rule is not None else ""
    return any(each in ("*", name, f"{family}:*") for each in not_causes)


def said(finding: dict[str, Any]) -> str:
    estimated = finding["estimated"]
    line = f":{finding['where'].line}" if finding["where"] is not None else ""
    return finding["name"] + line + (f" [{estimated.low:.1f}, {estimated.high:.1f}]" if estimated is not None else "")


if __name__ == "__main__":
    main()
