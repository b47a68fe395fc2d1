"""Failures of dependencies, of the machine and of the workflow's own set-up."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, place_of

_NPM = regex(r"^npm (?:error|ERR!) ?(.*)$")
_NPM_SILENT = regex(r"^(?:A complete log of this run|For a full report see|.*[\\/]_logs[\\/]|$)")
_NPM_RESOLUTION = regex(r"\b(?:ERESOLVE|E404|ETARGET|EINTEGRITY|ENOVERSIONS|EBADENGINE|EUSAGE|EBADPLATFORM)\b")

_DEPENDENCY = regex(
    r"Could not find a version that satisfies|No matching distribution found|ResolutionImpossible|"
    r"version solving failed|"
    r"No solution found when resolving|failed to select a version|could not find compatible versions|"
    r"requirements could not be resolved|missing go\.sum entry|no required module provides package|unknown revision|"
    r"Unable to locate package|has no installation candidate|\bNU1\d{3}\b|Could not resolve dependencies|"
    r"Could not (?:find|resolve) (?:artifact )?\S+:\S+:\S+|ERR_PNPM_(?!FETCH|RECURSIVE)\w+|"
    r"lockfile .*(?:needs to be updated|would have been)|"
    r"➤ YN00(?:02|60|82|01|28)|Couldn't find (?:any versions|package)|no matching package named|"
    r"conflicting dependencies|"
    r"error: checksum mismatch|package-lock\.json are (?:not )?in sync|Could not find gem|"
    r"failed to resolve (?:the )?dependenc|dependencies could not be resolved"
)
_CONFLICT = regex(r"^(?:The conflict is caused by:|\s+Problem \d+|Because |\s*╰─▶ |\s+×? ?Because )")

_MACHINE = regex(
    r"No space left on device|running out of disk space|ENOSPC|[Oo]ut of memory|OutOfMemory|heap out of memory|"
    r"Cannot allocate memory|\bOOM\b|oom-kill|^\S*: line \d+: +\d+ (?:Killed|Terminated|Bus error)|"
    r"runner has received a shutdown signal|lost communication with the server|"
    r"The hosted runner .*(?:lost|encountered)|"
    r"exceeded the maximum execution time|has timed out after \d+ minutes|The operation was canceled|"
    r"The self-hosted runner .* lost|GitHub Actions has encountered an internal error"
)
_NETWORK = regex(
    r"\b(?:ECONNRESET|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ECONNREFUSED)\b|Could not resolve host|"
    r"Temporary failure in name resolution|"
    r"TLS handshake timeout|toomanyrequests|Too Many Requests|(?:502 Bad Gateway|503 Service Unavailable|504 Gateway)|"
    r"Connection (?:reset by peer|timed out)|net/http: request canceled|Failed to connect to \S+ port|i/o timeout|"
    r"Read timed out|The requested URL returned error: 5\d\d|unexpected disconnect while reading|early EOF"
)
_SETUP = regex(
    r"Input required and not supplied|[Uu]sername and password required|Bad credentials|Resource not accessible by|"
    r"Permission denied \(publickey\)|Unable to resolve action|Can't find 'action\.ya?ml'|invalid workflow file|"
    r"(?i:(?:secret|token|password|api[ _-]?key|credentials?|environment variable)\b.{0,60}\b(?:is |are |was )?"
    r"(?:not (?:set|found|provided|supplied|defined|configured)|missing|required|empty|undefined))|"
    r"(?i:missing (?:required )?(?:secret|token|environment|env|credential|api key))|"
    r"denied: |unauthorized: |\b401 Unauthorized|\b403 Forbidden|The requested URL returned error: 403|"
    r"Credentials could not be loaded|could not read Username|Authentication failed|: command not found$|"
    r"No such remote|couldn't find remote ref|is not recognized as (?:a name|an internal)|Missing script:|"
    r"Node\.js \d+ is required|requires? .{1,30}version|Unrecognized named-value|Required (?:input|property)"
)
_DOCKER = regex(r"^(?:#\d+ (?:[\d.]+ )?)?ERROR: |^ERROR: failed to (?:build|solve)|failed to solve: ")
_APT = regex(r"^E: ")
_GIT = regex(r"^(?:fatal|remote): .*(?:fatal|error|denied|not found|unable|could not)|^fatal: ")


def packages(log: Log, out: Findings) -> None:
    """npm's own error block, and the sentences that other package managers give."""
    for i in log.suspects:
        text = log.lines[i]
        bare = text.removeprefix("##[error]")
        npm = _NPM.match(bare)
        if npm:
            if not _NPM_SILENT.match(npm[1].strip()):
                out.keep(i, FIRST)
            if _NPM_RESOLUTION.search(npm[1]):
                out.vote(Kind.DEPENDENCY, 4)
        elif _DEPENDENCY.search(bare):
            out.keep(i, FIRST)
            out.vote(Kind.DEPENDENCY, 4)
            _conflict(log, out, i)
        elif _APT.match(bare):
            out.keep(i, FIRST)


def _conflict(log: Log, out: Findings, i: int) -> None:
    """What a resolver says about why, below or above its verdict."""
    for k in range(max(0, i - 14), min(i + 14, len(log.lines))):
        text = log.lines[k]
        if _CONFLICT.match(text) or re.match(r"^    (?:\S.*(?:depends on|requested) |- )", text):
            out.keep(k, FIRST if _CONFLICT.match(text) else SECOND)


def machine(log: Log, out: Findings, exit_code: int | None) -> None:
    """Disk, memory, signals, time-outs, the network."""
    for i in log.suspects:
        text = log.lines[i]
        if _MACHINE.search(text):
            out.keep(i, FIRST)
            out.vote(Kind.INFRASTRUCTURE, 10)
        elif _NETWORK.search(text) and not text.startswith("##[group]"):
            out.keep(i, SECOND)
            out.vote(Kind.INFRASTRUCTURE, 3)
        elif re.match(r"^\S*: line \d+: +\d+ (?:Segmentation fault|Aborted|Illegal instruction)", text):
            out.keep(i, FIRST)
            out.vote(Kind.TEST if out.tests else Kind.UNKNOWN, 1)
    if exit_code in (137, 143):
        out.vote(Kind.INFRASTRUCTURE, 8)


def setup(log: Log, out: Findings, exit_code: int | None) -> None:
    """Missing secrets, inputs, permissions and programs."""
    for i in log.suspects:
        text = log.lines[i]
        if _SETUP.search(text):
            out.keep(i, FIRST)
            out.vote(Kind.CONFIGURATION, 4 if text.startswith("##[error]") else 2)
        elif _GIT.match(text):
            out.keep(i, FIRST)
    if exit_code == 127:
        out.vote(Kind.CONFIGURATION, 3)


def docker(log: Log, out: Findings) -> None:
    """The instruction that failed, where it stands, and BuildKit's last words."""
    if not log.has("failed to solve", "executor failed running", "returned a non-zero code"):
        return
    seen: set[str] = set()
    for i, text in enumerate(log.lines):
        bare = re.sub(r"^(?:#\d+ )?(?:[\d.]+ )?", "", text)
        if re.match(r"^(?:\S*/)?\S*Dockerfile\S*:\d+$", text):
            file, _, line = text.rpartition(":")
            out.keep(i, FIRST)
            out.place(place_of(log, file, line), i)
        elif re.match(r"^\s+\d+ \| >>> ", text) or re.match(r"^The command '.*' returned a non-zero code", text):
            out.keep(i, FIRST)
        elif _DOCKER.search(text) or bare.startswith("ERROR: "):
            out.keep(i, THIRD if bare in seen else FIRST)
            seen.add(bare)
        elif re.match(r"^ > \[.*\] ", text):
            out.keep(i, THIRD)
