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
        self._due = 2 * self._margin  # length at which a cut is tried

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be let out now, often nothing."""
        self._held += text
        size = len(self._held)
        if size < self._due:
            return ""
        if size > PATIENCE:
            return self.flush()
        whole = self._redact(self._held)
        for before in (size - self._margin, (size - self._margin) // 2):
            cut = self._held.rfind("\n", 0, before) + 1 or before
            head = self._redact(self._held[:cut])
            if head + self._redact(self._held[cut:]) == whole:
                self._held = self._held[cut:]
                self._due = 2 * self._margin
                return head
        self._due = 2 * size  # not again for every piece: the work stays near linear
        return ""

    def flush(self) -> str:
        """End of the text: let out what is held."""
        held, self._held, self._due = self._held, "", 2 * self._margin
        return self._redact(held)
