"""Redaction (S3): known values everywhere, shapes of credentials in what people and machines outside read.

Reading order: `forms` (how a value may be dressed), `known` (finding any of them in one pass), `tables` and
`shapes` (credentials nobody registered), `redactor` (what the rest of the broker calls), `stream` (text that
arrives in pieces), `growing` (requests that repeat the last one). Importing this package costs little: the
regular expressions are compiled at first use.
"""

from agent.broker.redact.growing import Growing
from agent.broker.redact.redactor import Redactor
from agent.broker.redact.stream import Stream

__all__ = ["Growing", "Redactor", "Stream"]
