"""CI logs: from a job's log, of any length, to the failing steps with the lines a person would want.

Pure: no files, no network, no clock. Reading order: `extract`, `segments`, `steps`, `findings`, the readers
(`tests_*`, `diagnostics`, `causes`, `fallback`), `render`.
"""

from agent.harness.tools.ci_logs.extract import Extract, FailingStep, extract
from agent.harness.tools.ci_logs.findings import FailedTest, Kind, Place
from agent.harness.tools.ci_logs.render import EXTRACT_CAP

__all__ = ["EXTRACT_CAP", "Extract", "FailedTest", "FailingStep", "Kind", "Place", "extract"]
