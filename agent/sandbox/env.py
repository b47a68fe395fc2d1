"""The environment of a command: built from nothing, never inherited (S2, B6).

House rules: exactly the allowlist's names exist; their values are ours; trusted configuration may set the
few that say nothing about where programs are found, and add names of its own; a name that looks like a
credential, steers the dynamic loader or is read by a shell at start is dropped whoever asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ALLOWED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL", "USER", "PWD", "NODE_ENV", "CI",
    "BUN_INSTALL", "XDG_CACHE_HOME",
)  # fmt: skip

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

# Where programs and the command's own folders are: a value from elsewhere would hollow a gate out.
_OURS = frozenset({"PATH", "HOME", "TMPDIR", "SHELL", "USER", "PWD", "BUN_INSTALL", "XDG_CACHE_HOME"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CREDENTIAL = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|APIKEY|SECRET|PASSWORD|PASSWD|PASS|PASSPHRASE|PWD|CREDENTIALS?|CREDS?|AUTH|"
    r"COOKIE|SESSION|JWT|PAT|DSN|PRIVATE|SIGNATURE|BEARER)S?(?:$|_(?:FILE|PATH|BASE64|B64|JSON|VALUE|ID|[0-9]+)$)"
    r"|(?:TOKEN|SECRET|PASSWORD|CREDENTIAL|APIKEY|_KEY)S?$"
    r"|^(?:GITHUB|INPUT|ACTIONS|RUNNER)_"
)
_LOADER_OR_SHELL = re.compile(
    r"^(?:LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|NLSPATH|BASH_ENV|ENV|BASH_FUNC_.*|BASHOPTS|SHELLOPTS|"
    r"PROMPT_COMMAND|PS[0-4]|IFS|CDPATH|ZDOTDIR|SSH_CLIENT|SSH2_CLIENT|SHLVL|BASH_LOADABLES_PATH)$"
)


def refused_name(name: str) -> str | None:
    """Why a name may not be added by configuration, or None when it may.

    Names are compared in upper case: `deploy_token` is a credential too.
    """
    upper = name.upper()
    if not _NAME.match(name):
        return "is no variable name"
    if name in _OURS:
        return "is set by Airlock"
    if _CREDENTIAL.search(upper):
        return "looks like a credential"
    if _LOADER_OR_SHELL.match(upper):
        return "steers the loader or a shell's start"
    return None


def command_env(
    *,
    home: str,
    tmp: str,
    shell: str,
    user: str,
    extra_path: tuple[str, ...] = (),
    additions: Mapping[str, str] | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Environment of every command of a sandbox; `PWD` is added per command by the helper.

    Args:
        home, tmp: fresh folders of this sandbox.
        extra_path: folders of programs put before the system's, from trusted configuration alone.
        additions: `ai.agent.sandbox.env`.

    Returns:
        The environment, and the additions that were dropped with the reason for each.
    """
    env = {
        "PATH": ":".join((*extra_path, *SYSTEM_PATH)),
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": tmp,
        "SHELL": shell,
        "USER": user,
        "CI": "true",
        "BUN_INSTALL": f"{home}/.bun",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }
    dropped: dict[str, str] = {}
    for name, value in (additions or {}).items():
        reason = refused_name(name)
        if reason is None and "\0" in value:
            reason = "has a NUL in its value"
        if reason is None:
            env[name] = value
        else:
            dropped[name] = reason
    return env, dropped
