"""The results folder: what the workflow uploads as the artifact and copies outputs from.

transcript.jsonl   written as the run goes
transcript.html    made from it at the end
summary.md         the step summary
outputs            the action's outputs, in the runner's file format
structured.json    structured output, where there is one
commands/N.txt     full text of a command's output, written by the operation that ran it
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.broker.redact import Redactor
from agent.broker.report.actions import write_outputs
from agent.contract.errors import UpstreamError


class Results:
    """The results folder of one run. Everything that enters it goes through the redactor."""

    def __init__(self, folder: Path, redactor: Redactor) -> None:
        """
        Args:
            folder: made where it does not exist.
            redactor: the run's.
        """
        self.folder = folder
        self.transcript = folder / "transcript.jsonl"
        self.page = folder / "transcript.html"
        self.summary = folder / "summary.md"
        self.outputs = folder / "outputs"
        self.structured = folder / "structured.json"
        self._redactor = redactor
        folder.mkdir(parents=True, exist_ok=True)

    def write_summary(self, markdown: str) -> None:
        """Write the step summary, already neutralised."""
        self._write(self.summary, self._redactor.outside(markdown).encode("utf-8", "replace"))

    def write_structured(self, value: Any) -> None:
        """Write structured output as JSON."""
        self._write(self.structured, json.dumps(self._redactor.value(value), indent=1).encode() + b"\n")

    def write_outputs(self, values: Mapping[str, Any]) -> None:
        """Write the action's outputs (see `actions.write_outputs`), redacted: later steps print them."""
        write_outputs(self._redactor.value(dict(values)), self.outputs)

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_name(path.name + ".part")
        try:
            part.write_bytes(data)
            os.replace(part, path)  # a crash leaves the old file or the new one
        except OSError as exc:
            raise UpstreamError("results folder", f"{path.name} cannot be written: {exc.strerror}") from exc
