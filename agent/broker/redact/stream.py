"""Redaction of text that arrives in pieces: nothing is let out that could be the start of a secret."""

from __future__ import annotations

from agent.broker.redact.redactor import Redactor

PATIENCE = 1 << 20  # characters held at most: a key block without an end does not hold a run's log for ever


class Stream:
    """Pieces in, redacted pieces out, the same text as redacting the whole at once.

    The last `margin` characters are held back, and no cut is made inside something redacted, so a secret
    split over any number of pieces is seen whole before any of it is let out.
    """

    def __init__(self, redactor: Redactor, *, shapes: bool = True) -> None:
        """Args:
        redactor: the run's.
        shapes: also redact credential shapes (`outside`), else known values alone.
        """
        self._redact = redactor.outside if shapes else redactor.known
        self._margin = redactor.reach
        self._held = ""

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be let out now, often nothing."""
        self._held += text
        if len(self._held) < 2 * self._margin:
            return ""
        if len(self._held) > PATIENCE:
            return self.flush()
        cut = len(self._held) - self._margin
        while cut > 0:
            line = self._held.rfind("\n", 0, cut) + 1 or cut
            head, tail = self._redact(self._held[:line]), self._redact(self._held[line:])
            if head + tail == self._redact(self._held):
                self._held = self._held[line:]
                return head
            cut = line - 1 - self._margin // 4
        return ""

    def flush(self) -> str:
        """End of the text: let out what is held."""
        held, self._held = self._held, ""
        return self._redact(held)
