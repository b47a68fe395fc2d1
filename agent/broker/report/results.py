"""The results folder: what the workflow uploads as the artifact and copies outputs from.

transcript.jsonl   written as the run goes
transcript.html    made from it at the end
summary.md         the step summary
outputs            the action's outputs, in the runner's file format
structured.json    structured output, where there is one
output/N.txt       full text of command and hook output, redacted
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.broker.redact import Redactor
from agent.broker.report.actions import write_outputs
from agent.contract.errors import UpstreamError


class Results:
    """The results folder of one run. Everything that enters it goes through the redactor."""

    def __init__(self, folder: Path, redactor: Redactor, *, cap: int = 64 << 20) -> None:
        """
        Args:
            folder: made where it does not exist.
            redactor: the run's.
            cap: bytes of full outputs kept in all; past it a note stands instead (S7).
        """
        self.folder = folder
        self.transcript = folder / "transcript.jsonl"
        self.page = folder / "transcript.html"
        self.summary = folder / "summary.md"
        self.outputs = folder / "outputs"
        self.structured = folder / "structured.json"
        self._redactor = redactor
        self._left = cap
        self._count = 0
        self._lock = threading.Lock()
        (folder / "output").mkdir(parents=True, exist_ok=True)

    def keep(self, data: bytes) -> tuple[str, bytes]:
        """Keep the full text of one output.

        Returns:
            Its id, and the text as kept: known values redacted, so that a model that asks for more of it sees
            the same bytes; the file has the shapes of credentials redacted too.
        """
        known = self._redactor.known_bytes(data)
        with self._lock:
            self._count += 1
            name = str(self._count)
            kept = known if len(known) <= self._left else known[: self._left]
            self._left -= len(kept)
        text = self._redactor.outside(kept.decode("utf-8", "replace")).encode("utf-8", "replace")
        if len(kept) < len(known):
            text += b"\n[the cap on kept output is reached]\n"
        self._write(self.folder / "output" / f"{name}.txt", text)
        return name, known

    def write_summary(self, markdown: str) -> None:
        """Write the step summary, already neutralised."""
        self._write(self.summary, self._redactor.outside(markdown).encode("utf-8", "replace"))

    def write_structured(self, value: Any) -> None:
        """Write structured output as JSON."""
        self._write(self.structured, json.dumps(self._redactor.value(value), indent=1).encode() + b"\n")

    def write_outputs(self, values: Mapping[str, Any]) -> None:
        """Write the action's outputs (see `actions.write_outputs`), redacted: later steps print them."""
        part = self.outputs.with_name(self.outputs.name + ".part")
        write_outputs(self._redactor.value(dict(values)), part)
        os.replace(part, self.outputs)  # a value cut off by a crash would swallow what is written after it

    def _write(self, path: Path, data: bytes) -> None:
        part = path.with_name(path.name + ".part")
        try:
            part.write_bytes(data)
            os.replace(part, path)  # a crash leaves the old file or the new one
        except OSError as exc:
            raise UpstreamError("results folder", f"{path.name} cannot be written: {exc.strerror}") from exc
