"""Redaction (S3): known values everywhere, shapes of credentials in what people and machines outside read.

Reading order: `forms` (how a value may be dressed), `known` (finding any of them in one pass), `shapes`
(credentials nobody registered), `redactor` (what the rest of the broker calls), `stream` (text that
arrives in pieces). Importing this package costs nothing: the regular expressions are compiled at first use.
"""

from agent.broker.redact.redactor import Redactor
from agent.broker.redact.stream import Stream

__all__ = ["Redactor", "Stream"]
