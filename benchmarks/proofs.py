"""How right estimates are, and proofs possible: puts the findings of the rules' slow examples to the proof.

    KERAS_BACKEND=jax python benchmarks/proofs.py [--budget 60] [--families callbacks,evaluation] [CAUSE …]

A row is one finding: the estimated interval, the verified one, whether they overlap, and how it was shown. With
`--nothing N` it repeats N experiments that change nothing, and counts the intervals that hold 1.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from fitscope.account import account
from fitscope.alternate import Pace, alternate
from fitscope.experiment import script_version
from fitscope.fixes.kind import Project
from fitscope.model import Finding, FitscopeError, Removal, Speedup
from fitscope.prove import Proof, prove, recorded
from fitscope.rules import CATALOG
from fitscope.rules.rule import Example
from fitscope.verify import Bench

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("causes", nargs="*")
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--families", default="input,callbacks,execution,model,evaluation,hardware")
    parser.add_argument("--nothing", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    os.environ["KERAS_BACKEND"] = BACKEND
    rules = [
        rule
        for rule in CATALOG
        if rule.family in arguments.families.split(",") and (not arguments.causes or rule.name in arguments.causes)
    ]
    inside = total = 0
    print(f"{BACKEND}: {'cause':26s} {'estimated':>14s} {'verified':>14s}  agree  how", flush=True)
    for rule in rules:
        for example in rule.examples:
            if BACKEND not in example.backends:
                continue
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                for proof in proofs(Path(folder), rule.name, example, arguments.budget, arguments.nothing):
                    agree = overlap(proof.finding.estimated, proof.verified)
                    if agree is not None and example.estimable:
                        inside, total = inside + agree, total + 1
                    shown = "?" if agree is None else "yes" if agree else "no"
                    estimated, verified = said(proof.finding.estimated), said(proof.verified)
                    print(
                        f"{BACKEND}: {rule.name:26s} {estimated:>14s} {verified:>14s}  {shown:5s}  {proof.says}",
                        flush=True,
                    )
                os.chdir("/")
    print(f"{BACKEND}: {inside} of {total} verified intervals meet the estimate")


def proofs(folder: Path, name: str, example: Example, budget: float, nothing: int) -> list[Proof]:
    """What is proved of the finding that the example is made for."""
    script = folder / "train.py"
    script.write_text(example.slow)
    project = Project(script, here=folder)
    try:
        report = recorded(Bench(project, [], budget, lambda text: None), budget)
    except FitscopeError as error:
        print(f"{BACKEND}: {name:26s} {error}")
        return []
    findings = [finding for finding in report.findings if finding.name == name][:1]
    for finding in findings[: 1 if nothing else 0]:
        unchanged(project, finding, nothing, budget)
        return []
    return list(prove(Bench(project, [], budget, lambda text: None), report, findings, budget))


def unchanged(project: Project, finding: Finding, times: int, budget: float) -> None:
    """Experiments that change nothing, on the same training."""
    assert project.run is not None
    made = account(project.run)
    for by in ("steps", "epochs"):
        right = 0
        widths = []
        for _ in range(times):
            where = finding.removal.where if finding.removal is not None else None
            removal = Removal("nothing", "nothing", where, by)
            version = script_version("the script", Path("train.py"), [], {})
            shown = alternate(project.here, version, removal, Pace.of(made.regions[0], made), budget)
            if shown.ratio is None:
                print(f"{BACKEND}: {finding.name} by {by}: no verdict, {shown.doubt}", flush=True)
                continue
            right += shown.ratio.low <= 1 <= shown.ratio.high
            widths.append(f"[{shown.ratio.low:.3f}, {shown.ratio.high:.3f}]")
        print(f"{BACKEND}: {finding.name} by {by}: 1 inside {right} of {len(widths)}: {' '.join(widths)}", flush=True)


def overlap(one: Speedup | None, other: Speedup | None) -> bool | None:
    """Whether two intervals meet; None if one of them is missing."""
    if one is None or other is None:
        return None
    return one.low <= other.high and other.low <= one.high


def said(value: Speedup | None) -> str:
    return f"[{value.low:.2f}, {value.high:.2f}]" if value is not None else "-"


if __name__ == "__main__":
    main()
