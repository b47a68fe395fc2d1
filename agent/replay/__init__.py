"""`python -m agent replay TRANSCRIPT --workspace DIR`: run the loop again with the recorded model, offline.

Start at `play`; `record` reads what is fed back, `compare` judges, `command` is the command line.
"""

from agent.replay.command import main
from agent.replay.compare import Divergence, Replay
from agent.replay.play import replay

__all__ = ["Divergence", "Replay", "main", "replay"]
