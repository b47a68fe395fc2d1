"""What a run needs once GitHub has answered, loaded while it does.

These modules are a third of all that the broker loads, and the first request to GitHub need not wait for them. A
run that does nothing loads none of them.
"""

from __future__ import annotations

import threading


def load_ahead() -> threading.Thread:
    """Start to load them. Who needs one earlier waits for it at its own import statement."""
    thread = threading.Thread(target=_load, name="ahead", daemon=True)
    thread.start()
    return thread


def _load() -> None:
    import agent.broker.egress.direct  # first, and alone: what the first request itself waits for

    # isort: split
    import yaml  # noqa: F401 - the configuration

    import agent.broker.equip
    import agent.broker.handlers  # noqa: F401 - all three are used by whoever imports them by name
