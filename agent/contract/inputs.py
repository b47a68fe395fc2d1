"""What comes in from the runner, sorted into settings and secrets before anything else happens (A3, S2).

The list is closed: a variable that is neither an input of the action nor a known `GITHUB_*` or `RUNNER_*`
fact is dropped here and is in no process of ours after the re-exec. That drops `ACTIONS_*`, `STATE_*`,
`GIT_*`, `LD_*`, `PYTHON*`, `NODE_OPTIONS`, `BASH_ENV`, `DOCKER_*`, and every secret of the job that is not
ours to hold.
"""

from __future__ import annotations

TYPE_CHECKING = False  # a type checker's True; `typing` is half of what the first stage would take to start
if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET_INPUTS = frozenset({"api-key", "github-token", "push-token", "secrets"})

SETTING_INPUTS = frozenset(
    {
        "mode",
        "task",
        "model",
        "base-url",
        "config",
        "sandbox",
        "sandbox-image",
        "image",
        "max-tool-calls",
        "timeout-minutes",
        "max-tokens",
        "max-cost",
        "trigger",
        "outsiders",
        "allow-bots",
        "run-id",
        "dry-run",
        "ca-certificates",
        "upload-transcript",
    }
)

_FACTS = frozenset(
    "GITHUB_" + name
    for name in (
        "ACTION ACTION_REF ACTION_REPOSITORY ACTIONS ACTOR ACTOR_ID API_URL BASE_REF EVENT_NAME EVENT_PATH "
        "GRAPHQL_URL HEAD_REF "
        "JOB OUTPUT REF REF_NAME REF_PROTECTED REF_TYPE REPOSITORY REPOSITORY_ID REPOSITORY_OWNER "
        "RUN_ATTEMPT RUN_ID RUN_NUMBER SERVER_URL SHA STEP_SUMMARY TRIGGERING_ACTOR WORKFLOW WORKFLOW_REF "
        "WORKFLOW_SHA WORKSPACE"
    ).split()
) | frozenset("RUNNER_" + name for name in "ARCH DEBUG ENVIRONMENT NAME OS TEMP TOOL_CACHE".split())

# Where earlier steps may have left credentials, which the broker looks for; no process of ours has it as variable.
_PLACES = frozenset({"HOME"})

# Set by the action's own script: where results go, and what earlier setup-* steps put on PATH.
_OWN = frozenset({"AIRLOCK_RESULTS", "AIRLOCK_TOOL_PATH"})

_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"})


def take(environment: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Sort an environment into settings and secrets, by name.

    Settings are inputs (`max-tool-calls`) and runner facts (`GITHUB_REPOSITORY`); secrets are secret inputs, and
    proxies, whose URLs may hold a password.

    Inputs arrive as `INPUT_MAX-TOOL-CALLS` (the runner keeps hyphens) or with
    underscores; where both are there, the runner's form counts unless it is empty.
    """
    inputs: dict[str, str] = {}
    for name, value in sorted(environment.items(), key=lambda item: "-" in item[0]):
        if name.startswith("INPUT_"):
            key = name[len("INPUT_") :].lower().replace("_", "-")
            if value or key not in inputs:
                inputs[key] = value
    settings = {k: v for k, v in inputs.items() if k in SETTING_INPUTS}
    # given and empty is not the same as absent: an emptied push-token is a token taken away (D9)
    secrets = {k: v for k, v in inputs.items() if k in SECRET_INPUTS}
    for name, value in environment.items():
        if name in _FACTS | _OWN | _PLACES and value:
            settings[name] = value
        elif name in _PROXIES and value:
            secrets[name] = value
    return settings, secrets


def parse_blob(blob: bytes) -> tuple[dict[str, str], bytes]:
    """Split what the composite step sends on standard input: `NAME=VALUE` entries that each end in NUL, one
    more NUL, then the event's bytes to the end. A value may hold any byte but NUL.

    Raises:
        ValueError: an entry has no `=`, or the second NUL is missing.
    """
    environment: dict[str, str] = {}
    start = 0
    while True:
        end = blob.find(b"\0", start)
        if end < 0:
            raise ValueError("standard input ends before its list of variables does")
        if end == start:
            return environment, blob[end + 1 :]
        name, separator, value = blob[start:end].partition(b"=")
        if not separator:
            raise ValueError("an entry on standard input is no NAME=VALUE")
        environment[name.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        start = end + 1


def blob(variables: Mapping[str, str]) -> bytes:
    """Variables as `parse_blob` reads them, without an event."""
    entries = [f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in variables.items()]
    return b"".join(entry + b"\0" for entry in (*entries, b""))
