"""Model wire formats and the client that speaks them through the broker."""

from __future__ import annotations

from agent.harness.clients.compaction import Compactor
from agent.harness.clients.model import ModelClient, Retry

__all__ = ["Compactor", "ModelClient", "Retry"]
