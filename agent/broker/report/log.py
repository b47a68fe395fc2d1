"""The job log: the one writer of standard output and standard error.

Our own commands are made here and nowhere else (groups, annotations, masks); all other text is redacted and
then made inert (`plain`), whole lines at a time under one lock, so that two threads cannot put half lines
together into a command (red-team R15).
"""

from __future__ import annotations

import threading
from typing import BinaryIO

from agent.broker.redact import Redactor
from agent.broker.redact.forms import ordinary
from agent.broker.report.plain import inert_lines, one_line, visible
from agent.contract.regex import regex

ANNOTATION_CAP = 4000  # characters of one message; GitHub shows ten annotations a step, each cut at 64 KB
LEVELS = frozenset({"error", "warning", "notice"})


class Log:
    """Writes the job log. Safe for several threads; never raises because a reader went away."""

    def __init__(self, out: BinaryIO, err: BinaryIO, redactor: Redactor, *, actions: bool = True) -> None:
        """
        Args:
            out, err: binary streams, such as `sys.stdout.buffer`; nobody else writes to them.
            redactor: the run's.
            actions: a runner reads the log: groups and annotations are commands, else plain lines.
        """
        self._out = out
        self._err = err
        self._redactor = redactor
        self._actions = actions
        self._lock = threading.RLock()
        self._open = False

    def line(self, text: str) -> None:
        """Text to standard output, as lines that do nothing."""
        self._lines(self._out, text)

    def error_line(self, text: str) -> None:
        """Text to standard error, as lines that do nothing."""
        self._lines(self._err, text)

    def group(self, title: str) -> None:
        """Begin a group; the one before it ends."""
        self._begin(one_line(self._redactor.outside(title)))

    def _begin(self, title: str) -> None:
        with self._lock:
            if not self._actions:
                self._write(self._out, [f"--- {title}"])
                return
            ends = ["::endgroup::"] if self._open else []
            self._write(self._out, [*ends, f"::group::{_data(title)}"], flush=False)  # a group's first line follows
            self._open = True

    def end_group(self) -> None:
        """End the open group, if any."""
        with self._lock:
            if self._open:
                self._write(self._out, ["::endgroup::"])
                self._open = False

    def turn(
        self, number: int, *, calls: int, tokens: int, cost_usd: float | None, left_s: float, max_calls: int = 0
    ) -> None:
        """Begin the group of a turn; its title is the progress line: what was used so far, and what is left.

        All of it numbers of ours, so there is nothing to redact.
        """
        used = f"{calls}/{max_calls}" if max_calls else str(calls)
        cost = "" if cost_usd is None else f" · ${cost_usd:.2f}"
        self._begin(f"Turn {number} · {used} calls · {tokens:,} tokens{cost} · {duration(left_s)} left")

    def annotate(self, level: str, message: str, *, title: str = "", file: str = "", line: int | None = None) -> None:
        """An annotation on the run's page, and on a file's line where given.

        Args:
            level: `error`, `warning` or `notice`.
            file: path relative to the repository.

        Raises:
            ValueError: another level.
        """
        if level not in LEVELS:
            raise ValueError(f"no such level: {level!r}")
        text = visible(self._redactor.outside(message))[:ANNOTATION_CAP]
        with self._lock:
            self.end_group()  # an annotation inside a closed group is not seen
            if not self._actions:
                self._write(self._err, inert_lines(f"{level}: {text}"))
                return
            properties = {"title": title, "file": file, "line": "" if line is None else str(line)}
            clean = {k: _property(one_line(self._redactor.outside(v))) for k, v in properties.items() if v}
            shown = ",".join(f"{key}={value}" for key, value in clean.items())
            parted = "\n".join(inert_lines(text))
            self._write(self._out, [f"::{level}{' ' if shown else ''}{shown}::{_data(parted)}"])

    def mask(self, value: str) -> None:
        """Have the runner mask a token that was minted during the run; the runner knows the job's own.

        A short or common value is not masked: the log would be blank (reports F07).
        """
        if self._actions and not ordinary(value) and "\0" not in value:
            self._write(self._out, [f"::add-mask::{_data(value.strip())}"])

    def _lines(self, stream: BinaryIO, text: str) -> None:
        self._write(stream, inert_lines(self._redactor.outside(text).rstrip("\r\n")))

    def _write(self, stream: BinaryIO, lines: list[str], *, flush: bool = True) -> None:
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                stream.write(data)
                if flush:
                    stream.flush()
            except (OSError, ValueError):
                return  # the reader is gone; the run's results are in its folder


def duration(seconds: float) -> str:
    """Seconds as people say them: `45 s`, `12 min`, `1 h 5 min`."""
    whole = max(0, int(seconds))
    if whole < 90:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_STOP = regex(r"(?i)stop-commands")


def _data(text: str) -> str:
    """Text as a command's data; a word that would end all commands is parted, for readers that look for it alone."""
    return (
        _STOP.sub(lambda m: m[0].replace("-", "- "), text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    )


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
