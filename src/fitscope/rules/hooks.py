"""What the rules on callbacks read of a hook: what it does, whose seconds it took, and what goes away with it."""

from __future__ import annotations

import re

from fitscope.model import Evidence, Line, Part, Region
from fitscope.rules.case import Case, cold, counted, parts_of, share, shorter_end, took

BATCH_HOOK = re.compile(r"\.on_(train_|test_|predict_)?batch_(begin|end)$")
HOOK = re.compile(r"\.on_\w+$")
WRITES = re.compile(
    r"\b(print|write|writerow|writelines|savetxt|save|savez|dump|dumps|info|add_scalar|scalar|add_histogram|flush|fsync"
    r"|to_csv|to_json|to_parquet|to_pickle|tofile|log_metrics?|debug|warning|imwrite|savefig)\s*\("
)
NETWORK = re.compile(r"\b(requests|urllib|http|httpx|socket|aiohttp|boto3)\b|urlopen")
SOCKET = re.compile(r"\.(connect|recv|recv_into|recv_json|recv_multipart|recvfrom|send|send_json|sendall|sendto)\(")
NETWORK_IMPORT = re.compile(r"^\s*(import|from)\s[^#]*\b(socket|ssl|zmq|websocket|websockets|pika|paho|redis)\b")
"""A socket's methods are written in C: a look finds the line that calls them, and no library."""
OFTEN = 50
"""Batches between two writings that are called frequent from the source alone."""
SEVERAL = 3
"""Epochs from which on it is worth asking in how many of them a hook worked."""
WHOLE_PREDICTS = ("predict", "evaluate")
PREDICTS = (*WHOLE_PREDICTS, "predict_on_batch", "test_on_batch")


def hooks_of(region: Region) -> list[Part]:
    """The hooks of the callbacks, those that the validation calls included."""
    inside = [part for part in parts_of(region, "validation") if HOOK.search(part.name)]
    return parts_of(region, "callback") + [part for part in inside if not part.name.startswith("ProgbarLogger.")]


def shares(region: Region, part: Part) -> dict[str, float]:
    """A hook's seconds, for causes that explain them in another way: that it grows, that validation is frequent."""
    return {f"{id(region)}:hook:{part.name}": part.seconds}


def claims(region: Region, *parts: Part) -> frozenset[str]:
    """The parts of the account that a cause explains."""
    return frozenset(f"{id(region)}:{part.phase}:{part.name}" for part in parts)


def beside_saving(region: Region) -> list[Part]:
    """What hooks of Keras' own that save the model do beside: part of the saving."""
    saving = {part.name for part in parts_of(region, "checkpoint")}
    hooks = [part for part in parts_of(region, "callback") if part.name in saving]
    return [part for part in hooks if part.where is not None and part.where.installed]


def line_of(part: Part) -> Line | None:
    """The line of the hook that most looks found, if it stands out."""
    return part.lines[0] if part.lines and part.lines[0].share >= 0.3 else None


def steady(part: Part) -> float:
    """Seconds of a hook without those that its first prediction took to compile."""
    return part.seconds - sum(inner.seconds for inner in part.inner if inner.phase == "compile")


def is_done_once(region: Region, part: Part) -> bool:
    """Whether nearly all that a hook of epochs took was in one of several: it cannot be done less often."""
    each = [epoch.phases.get(part.phase, 0.0) for epoch in region.course.epochs]
    if "_epoch_" not in part.name or region.epochs < SEVERAL or part.seconds < 0.8 * sum(each):
        return False  # of several hooks nobody knows which of them it was
    return max(each, default=0.0) >= 0.8 * part.seconds


def predictions(part: Part) -> list[Part]:
    """What a hook calls to predict; at the end of epochs `predict_on_batch` is its own work: it sets up nothing."""
    names = PREDICTS if BATCH_HOOK.search(part.name) else WHOLE_PREDICTS
    return [inner for inner in part.inner if inner.name in names]


def predicting(part: Part) -> float:
    """Seconds of a hook that went to `predict`, `evaluate` and their kin."""
    return sum(inner.seconds for inner in predictions(part))


def uses_network(case: Case, part: Part) -> bool:
    """Whether a hook spends its time in network code."""
    lines = [line for line in part.lines if line.share >= 0.3]
    if any(line.doing == "network" or NETWORK.search(case.line(line.where)) for line in lines):
        return True
    return any(SOCKET.search(case.line(line.where)) and _knows_network(case, line) for line in lines)


def _knows_network(case: Case, line: Line) -> bool:
    """Whether the file of a line imports a library for sockets."""
    script = case.script_of(line.where.file)
    return script is not None and any(NETWORK_IMPORT.search(text) for text in script.lines)


def writes(case: Case, part: Part) -> bool:
    """Whether a hook spends its time writing or printing."""
    lines = [line for line in part.lines if line.share >= 0.3]
    kinds = ("files", "logging", "summaries")
    return any(line.doing in kinds or WRITES.search(case.line(line.where)) for line in lines)


def is_tensorboard(part: Part) -> bool:
    """Whether a part belongs to Keras' TensorBoard callback."""
    return part.name.startswith("TensorBoard.")


def how_often(part: Part) -> str:
    of = "batch of the validation" if part.phase == "validation" else "batch"
    return f"before every {of}" if part.name.endswith("begin") else f"after every {of}"


def usual(case: Case, region: Region, part: Part) -> tuple[float, float]:
    """What goes away with a hook: its time, and in a batch what the steps and the end of the input lose to it."""
    saved = 0.97 * part.seconds
    if BATCH_HOOK.search(part.name) and part.phase == "callback":
        saved += cold(region, part.seconds) + shorter_end(region, part.seconds)
    return case.saves(saved)


def evidence_of(case: Case, part: Part) -> tuple[Evidence, ...]:
    each = part.seconds / part.count if part.count else part.seconds
    return (
        share("of the training is spent in it", part.seconds / case.seconds),
        counted("calls", part.count),
        took("per call", each),
    )
