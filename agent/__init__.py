"""Airlock: a secure AI agent runtime for GitHub Actions.

Three zones (docs/architecture.md): `broker` decides and holds the secrets, `harness` drives the model and
holds none, `sandbox` runs repository code. Reading order: `entrypoint.py`, `agent/launch.py`,
`agent/broker/run.py`, `agent/harness/loop/`, one tool in `agent/harness/tools/`, `agent/broker/policy/`.
"""

__version__ = "0.1.0"
