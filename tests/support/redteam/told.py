"""The verdicts for machines: JUnit's XML, which CI systems show, and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.etree import ElementTree

from .play import Verdict

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")


def write_junit(path: Path, verdicts: Sequence[Verdict], failed: Callable[[Verdict], bool]) -> None:
    """One test case a run."""
    suite = ElementTree.Element("testsuite", name="airlock redteam", tests=str(len(verdicts)))
    suite.set("failures", str(sum(failed(v) for v in verdicts)))
    suite.set("skipped", str(sum(v.state == "not run" for v in verdicts)))
    for verdict in verdicts:
        row = ElementTree.SubElement(suite, "testcase", classname=verdict.plan.case, name=_plain(verdict.plan.name))
        row.set("time", f"{verdict.seconds:.1f}")
        reasons = _plain("\n".join([*verdict.breaches, *verdict.unmet, *verdict.control]))
        if failed(verdict):
            ElementTree.SubElement(row, "failure", message=reasons.partition("\n")[0]).text = reasons
        elif verdict.state == "not run":
            ElementTree.SubElement(row, "skipped", message=_plain(verdict.note))
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_json(path: Path, verdicts: Sequence[Verdict], failed: Callable[[Verdict], bool]) -> None:
    """One object a run."""
    rows = [
        {
            "case": v.plan.case,
            "variant": v.plan.variant,
            "title": v.plan.title,
            "state": v.state,
            "failed": failed(v),
            "breaches": v.breaches,
            "unmet": v.unmet,
            "control": v.control_state,
            "control_problems": v.control,
            "seconds": round(v.seconds, 1),
        }
        for v in verdicts
    ]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _plain(text: str) -> str:
    return _NO_XML.sub("?", text)
