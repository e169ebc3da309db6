"""The report as Markdown, for a pull request or an issue."""

from __future__ import annotations

import re

from fitscope import words
from fitscope.model import Finding, Part, Region, Report
from fitscope.report import phrases

MOST_REGIONS = 3
MOST_PARTS = 12
SMALL = 0.005
LONGEST = 120


def to_markdown(report: Report) -> str:
    """Verdict first, then the account and the findings."""
    lines = [
        f"**{escaped(phrases.verdict(report), 600)}**",
        "",
        f"{' · '.join(escaped(each) for each in phrases.headline(report.run))}",
    ]
    for region in report.account.regions[:MOST_REGIONS]:
        lines += ["", *_region(region)]
    rest = report.account.regions[MOST_REGIONS:]
    if rest:
        seconds = words.seconds(sum(region.wall_seconds for region in rest))
        lines += ["", f"and {words.count(len(rest), 'smaller region')}, {seconds} in all"]
    for number, finding in enumerate(report.findings, start=1):
        lines += ["", *_finding(finding, number)]
    unseen = phrases.unseen(report)
    if unseen:
        lines += ["", "<details><summary>What fitscope could not see</summary>", ""]
        lines += [f"- {escaped(each, 600)}" for each in unseen]
        lines += ["", "</details>"]
    return "\n".join(lines).encode("utf-8", "replace").decode() + "\n"


def _region(region: Region) -> list[str]:
    lines = [f"### {escaped(phrases.title(region))}", "", ", ".join(phrases.facts(region)), ""]
    lines += ["| share | time | part |", "|---:|---:|---|"]
    shown = [part for part in region.parts if part.share >= SMALL][:MOST_PARTS]
    rest = [part for part in region.parts if part not in shown]
    lines += [_row(part) for part in shown]
    if rest:
        share, seconds = sum(part.share for part in rest), sum(part.seconds for part in rest)
        lines.append(
            f"| {words.share(share)} | {words.seconds(seconds)} | {words.count(len(rest), 'smaller part')} |"
        )
    lines.append(f"| **100 %** | **{words.seconds(region.wall_seconds)}** | **in all** |")
    remarks = phrases.remarks(region)
    if remarks:
        lines += ["", *(f"- {escaped(remark, 600)}" for remark in remarks)]
    return lines


def _row(part: Part) -> str:
    where = f" {_code(words.place(part.where))}" if part.where is not None else ""
    return f"| {words.share(part.share)} | {words.seconds(part.seconds)} | {escaped(phrases.label(part))}{where} |"


def _finding(finding: Finding, number: int) -> list[str]:
    where = f" {_code(words.place(finding.where))}" if finding.where is not None else ""
    lines = [f"### {number}. {finding.name} ({finding.code}){where}", "", escaped(finding.says, 600), ""]
    if finding.evidence:
        lines.append(f"- measured: {escaped('; '.join(words.evidence(each) for each in finding.evidence), 600)}")
    lines.append(f"- change: {escaped(finding.remedy, 1000)}")
    if finding.patch is not None:
        unsafe = f" (may change: {escaped(finding.patch.unsafe, 600)})" if finding.patch.unsafe else ""
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", finding.patch.diff)), default=0))
        diff = words.harmless(finding.patch.diff).rstrip("\n").replace("\n", "\n  ")
        lines.append(f"- edit{unsafe}:\n\n  {fence}diff\n  {diff}\n  {fence}")
    if finding.estimated is not None:
        lines.append(f"- estimated: {words.speedup(finding.estimated)}")
    if finding.verified is not None or finding.proof:
        shown = f"**{words.verified(finding.verified)}**" if finding.verified is not None else ""
        lines.append("- verified: " + ", ".join(filter(None, [shown, escaped(finding.proof, 600)])))
    return lines


def escaped(text: str, longest: int = LONGEST) -> str:
    """Text that Markdown shows as it is: no markup, no mention, no link, one line."""
    plain = words.harmless(" ".join(_short(text, longest).split()))
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"([\\`*_{}\[\]#|~!$])", r"\\\1", plain)
    # A zero-width space keeps GitHub from calling people and from linking.
    return re.sub(r"@(?=\w)|(?<=\w)://", lambda found: found.group()[0] + "\u200b" + found.group()[1:], plain)


def _code(text: str) -> str:
    plain = words.harmless(" ".join(_short(text, LONGEST).split()))
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
