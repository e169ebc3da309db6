"""Findings as SARIF 2.1.0: the form that code scanning services read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from fitscope.model import Finding
from fitscope.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def to_sarif(findings: Iterable[Finding], titles: Mapping[str, str]) -> str:
    """One run of the linter; the titles say of each code what is wrong."""
    found = list(findings)
    causes = {finding.code: finding for finding in found}
    order = {code: index for index, code in enumerate(sorted(causes))}
    driver = {
        "name": "fitscope",
        "version": __version__,
        "rules": [_rule(causes[code], titles.get(code, code)) for code in order],
    }
    results = [_result(finding, order[finding.code]) for finding in found]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=1)


def _rule(finding: Finding, title: str) -> dict[str, Any]:
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": title},
        "help": {"text": f"fitscope explain {finding.name}"},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["performance", finding.family]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    says = f"{finding.says} {finding.remedy}".strip()
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": "warning",
        "message": {"text": says},
    }
    if finding.where is not None:
        file, _, cell = finding.where.file.partition(":cell ")
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(file)}}
        if cell:
            result["message"]["text"] = f"cell {cell}, line {finding.where.line}: {says}"
        else:
            place["region"] = {"startLine": finding.where.line}
        result["locations"] = [{"physicalLocation": place}]
    return result
