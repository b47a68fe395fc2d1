"""S2: commands start from an empty environment and an allowlist; no secret of the job can be read by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.contract.sandbox import Purpose, SandboxSpec
from agent.kernel.landlock import landlock_abi
from agent.sandbox.env import ALLOWED, command_env, refused_name
from tests.unit.sandbox_rig import HELPERS, LEVELS, Rig, run

needs_kernel = pytest.mark.skipif(landlock_abi() < 1, reason="needs Landlock")

# What a runner's job has in its environment, by name; the values must be nowhere.
JOB = {
    name: f"canary-{name.lower()}"
    for name in (
        "GITHUB_TOKEN", "INPUT_GITHUB_TOKEN", "INPUT_API-KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY",
        "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "DEPLOY_PASSWORD", "WIDGET_ENDPOINT_CFG",
        "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "PYTHONSTARTUP",
    )
}  # fmt: skip


@pytest.fixture(params=[(kind, level) for kind in HELPERS for level in LEVELS], ids=lambda p: "-".join(p))
def rig(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A sandbox started by a process whose own environment is a job's."""
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    rig = Rig(tmp_path, *request.param)
    yield rig
    rig.close()


@needs_kernel
def test_environment_is_exactly_the_allowlist(rig: Rig) -> None:
    """The first program of a command has our names with our values, and no other."""
    environ = run(rig.start(), r"tr '\0' '\n' < /proc/$$/environ").stdout.decode().splitlines()
    env = dict(line.split("=", 1) for line in environ)
    home = env["HOME"]

    assert re.fullmatch(r"/tmp/airlock-[^/]+/home", home)
    assert env == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": home.removesuffix("home") + "tmp",
        "SHELL": "/bin/bash",
        "USER": env["USER"],
        "PWD": str(rig.root),
        "CI": "true",
        "BUN_INSTALL": f"{home}/.bun",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }
    assert set(env) <= set(ALLOWED)


@needs_kernel
def test_no_way_to_print_the_environment_shows_a_secret(rig: Rig) -> None:
    """printenv, set, exports, /proc of the shell, its parents and everybody: no value of the job appears."""
    ways = (
        "env | sort",
        "printenv GITHUB_TOKEN INPUT_GITHUB_TOKEN ANTHROPIC_API_KEY DEPLOY_PASSWORD; echo done",
        "set; export -p; declare -x; compgen -e",
        "cat /proc/self/environ /proc/1/environ /proc/$PPID/environ",
        "for p in /proc/[0-9]*; do cat $p/environ $p/cmdline; done",
        "p=$$; while [ \"$p\" -gt 1 ]; do cat /proc/$p/environ; p=$(awk '/^PPid:/{print $2}' /proc/$p/status); done",
        "python3 -c 'import os; print(dict(os.environ)); print(open(f\"/proc/{os.getppid()}/environ\").read())'",
        f"cat /proc/{os.getpid()}/environ /proc/{os.getppid()}/environ",
    )
    session = rig.start()
    results = [run(session, way) for way in ways]
    everything = b"".join(r.stdout + r.stderr for r in results)

    assert re.search(rb"(?im)^PATH=", results[0].stdout)
    assert results[1].stdout == b"done\n"
    assert [value for value in JOB.values() if value.encode() in everything] == []
    assert not re.search(rb"(?im)^[A-Z0-9_]*(TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL)[A-Z0-9_]*=", results[0].stdout)


@needs_kernel
def test_additions_of_configuration_reach_the_command_unless_refused(rig: Rig) -> None:
    """A harmless name is set; credentials, loader and shell names and our own are dropped."""
    session = rig.start(
        env={
            "MY_SETTING": "x y", "NODE_ENV": "test", "DEPLOY_TOKEN": "t", "PATH": "/evil", "LD_PRELOAD": "/evil.so",
            "BASH_ENV": "/evil.sh", "HOME": "/evil", "GITHUB_SHA": "abc", "bad name": "x",
        }
    )  # fmt: skip
    shown = run(session, r"tr '\0' '\n' < /proc/$$/environ").stdout.decode().splitlines()
    env = dict(line.split("=", 1) for line in shown)

    assert (env["MY_SETTING"], env["NODE_ENV"]) == ("x y", "test")
    assert set(env) - set(ALLOWED) == {"MY_SETTING"}
    assert not [v for v in env.values() if "evil" in v]


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "TOKEN", "NPM_AUTH_TOKEN", "API_KEY", "APIKEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
        "SSH_PRIVATE_KEY", "CLIENT_SECRET", "SECRETS", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "PASSWD", "PASSPHRASE",
        "GOOGLE_CREDENTIAL", "GOOGLE_APPLICATION_CREDENTIALS", "CREDS", "deploy_token", "Deploy_Password", "GH_PAT",
        "SESSION_COOKIE", "SENTRY_DSN", "TOKEN_FILE", "SIGNING_KEY_BASE64", "GITHUB_SHA", "INPUT_X", "ACTIONS_X",
        "RUNNER_TEMP", "TOKEN_1", "BASIC_AUTH", "MYTOKEN", "HTTPKEYS_KEY",
        "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "SHELLOPTS", "PS4", "IFS",
        "PROMPT_COMMAND", "GLIBC_TUNABLES", "SSH_CLIENT", "PATH", "HOME", "TMPDIR", "SHELL", "USER", "PWD",
        "XDG_CACHE_HOME", "BUN_INSTALL", "", "1A", "A B", "A=B", "A\n",
    ],
)  # fmt: skip
def test_refused_names(name: str) -> None:
    """Names that look like a credential, steer the loader or a shell, or are ours."""
    assert refused_name(name) is not None


@pytest.mark.parametrize(
    "name", ["NODE_ENV", "CI", "TZ", "LANG", "LC_ALL", "KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM", "PASSTHROUGH",
             "AUTHOR", "MY_SETTING", "RUST_BACKTRACE", "GOFLAGS", "PYTHONPATH", "SECRETARY"]
)  # fmt: skip
def test_harmless_names_may_be_added(name: str) -> None:
    """The filter looks at whole words, so that ordinary settings pass."""
    assert refused_name(name) is None


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=8))
def test_additions_never_change_what_is_ours(additions: dict[str, str]) -> None:
    """Whatever configuration adds: our values stand, nothing refused appears, nothing is lost silently."""
    base, none = command_env(home="/h", tmp="/t", shell="/bin/sh", user="u")
    env, dropped = command_env(home="/h", tmp="/t", shell="/bin/sh", user="u", additions=additions)
    ours = {k: v for k, v in base.items() if k not in ("LANG", "LC_ALL", "TZ", "CI")}

    assert none == {}
    assert {k: env[k] for k in ours} == ours
    assert not [name for name in env if name not in base and refused_name(name)]
    assert set(additions) == {n for n in additions if n in dropped or env.get(n) == additions[n]}


@given(
    st.text(alphabet="ABCXYZ_0189", max_size=12), st.sampled_from(["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"])
)
def test_every_name_with_a_credential_ending_is_refused(prefix: str, ending: str) -> None:
    """`*_TOKEN *_KEY *_SECRET *_PASSWORD *_CREDENTIAL`, in any case (B6)."""
    assert refused_name(f"{prefix}_{ending}") is not None
    assert refused_name(f"{prefix}_{ending}".lower()) is not None


def test_specification_of_a_sandbox_keeps_no_environment_of_ours() -> None:
    """A spec made without `env` carries none, however full this process's own environment is."""
    assert SandboxSpec(Purpose.MAIN, "/w").env == {}


@needs_kernel
def test_helper_process_holds_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper itself is started with an empty environment: there is nothing to read in it."""
    monkeypatch.setenv("GITHUB_TOKEN", "canary-github-token")
    rig = Rig(tmp_path, "c", "bare")
    session = rig.start()
    try:
        environ = Path(f"/proc/{session._process.pid}/environ")
        if os.geteuid() == 0:
            assert environ.read_bytes() == b""
        else:
            with pytest.raises(PermissionError):
                environ.read_bytes()
        control = subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert control.stdout is not None
        control.stdout.readline()
        assert b"canary-github-token" in Path(f"/proc/{control.pid}/environ").read_bytes()
        control.communicate(b"\n")
    finally:
        rig.close()
