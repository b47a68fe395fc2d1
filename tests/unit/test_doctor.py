"""`python -m agent doctor`: each fault of a machine, file, host or token is found, named, and told how to mend."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent import doctor, doctor_machine
from agent.broker.egress import Reach
from agent.doctor_finding import FAIL, OK, WARNING, Finding
from agent.doctor_github import Asker, reachable, token
from tests.support.action import ROOT
from tests.support.checkouts import make_checkout
from tests.support.github_sim import GitHubSim
from tests.support.stub_http import reply, serving

REPOSITORY = "example/widgets"
GOOD, POOR, BAD = ("ghs_" + letter * 36 for letter in "gpb")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubSim]:
    with GitHubSim(tmp_path / "github") as sim:
        sim.create_repository(REPOSITORY, files={"README.md": "# widgets\n"})
        sim.token(GOOD)
        sim.token(POOR, {"metadata": "read", "contents": "read"})
        yield sim


@pytest.fixture
def asker(github: GitHubSim) -> Asker:
    return Asker(github.api_url, Reach())


def of(findings: Iterator[Finding]) -> dict[str, Finding]:
    """By topic; no two have the same."""
    listed = list(findings)
    found = {finding.topic: finding for finding in listed}
    assert len(found) == len(listed)
    return found


def states(found: dict[str, Finding]) -> dict[str, str]:
    return {topic: finding.state for topic, finding in found.items()}


def options(folder: Path, **changes: object) -> argparse.Namespace:
    """As the command line makes them, for one workspace."""
    given = vars(doctor._parser({}).parse_args(["--workspace", str(folder), "--offline"]))
    return argparse.Namespace(**{**given, **changes})


# -------------------------------------------------------------------- tokens


def test_a_good_token_may_read_all_and_its_writes_are_not_guessed(asker: Asker, github: GitHubSim) -> None:
    """Asked by reads alone: nothing at GitHub changes, and what only a write could tell is said to be unknown."""
    found = of(token(asker, "T", GOOD, REPOSITORY))

    reads = {f"token T {name}": OK for name in ("contents", "pull-requests", "issues", "actions", "checks")}
    assert states(found) == {"token T": OK, **reads, "token T writes": WARNING}
    assert "a GITHUB_TOKEN or an App's token" in found["token T"].text
    assert "cannot be asked for without writing" in found["token T writes"].text
    assert {request.method for request in github.requests} == {"GET"}
    assert GOOD not in str(found)


def test_a_token_that_may_read_contents_alone_is_told_each_permission_it_lacks(asker: Asker) -> None:
    found = of(token(asker, "T", POOR, REPOSITORY))

    assert (found["token T contents"].state, found["token T issues"].state) == (OK, WARNING)
    assert "403" in found["token T issues"].text
    assert "issues=read" in found["token T issues"].text
    assert "`issues: read`" in found["token T issues"].fix
    assert "`actions: read`" in found["token T actions"].fix


def test_a_refused_token_fails_at_once_and_is_not_shown(asker: Asker, github: GitHubSim) -> None:
    found = of(token(asker, "T", BAD, REPOSITORY))

    assert states(found) == {"token T": FAIL}
    assert ("401" in found["token T"].text, BAD in str(found)) == (True, False)
    assert [request.path for request in github.requests] == ["/rate_limit"]


def test_a_repository_that_the_token_does_not_see_fails(asker: Asker) -> None:
    found = of(token(asker, "T", GOOD, "example/nothing"))

    assert states(found) == {"token T": OK, "token T repository": FAIL}
    assert "404" in found["token T repository"].text


def test_a_classic_tokens_scopes_and_role_are_githubs_own_words() -> None:
    """A classic token names its scopes in every answer, and the repository the user's role."""
    value = {"default_branch": "main", "permissions": {"push": True, "pull": True}}
    for scopes, push, state in (("repo", True, OK), ("repo", False, WARNING), ("read:org", True, WARNING)):
        value["permissions"] = {"push": push, "pull": True}
        with serving() as stub:
            stub.answer = lambda seen, s=scopes: [reply(json.dumps(value).encode(), x_oauth_scopes=s)]
            found = of(token(Asker(stub.url, Reach()), "T", "ghp_" + "x" * 36, REPOSITORY))
        assert (found["token T writes"].state, f"scopes: {scopes}" in found["token T"].text) == (state, True)


def test_a_token_with_a_line_end_is_named_and_never_sent(asker: Asker, github: GitHubSim) -> None:
    found = of(token(asker, "T", GOOD + "\n", REPOSITORY))

    assert (states(found), github.requests) == ({"token T": FAIL}, [])


# -------------------------------------------------------------------- network and clock


@pytest.mark.parametrize(("skew", "state"), [(0.0, OK), (120.0, WARNING), (-7200.0, FAIL)])
def test_a_clock_that_differs_from_githubs_is_found(asker: Asker, skew: float, state: str) -> None:
    asker.now = lambda now=asker.now: now() + skew
    found = of(reachable(asker, "github api", asker.api_url))

    assert states(found) == {"github api": OK, "clock": state}
    assert ("s behind GitHub's" in found["clock"].text) == (skew < -300)
    assert bool(found["clock"].fix) == (state != OK)


def test_a_dead_host_fails_and_names_the_proxy_without_its_password() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{closed.getsockname()[1]}"
    direct = of(reachable(Asker("http://api.invalid", Reach()), "model host", f"http://{place}"))
    reach = Reach(proxies={"http": f"http://user:hunter2@{place}"})
    through = of(reachable(Asker("http://api.invalid", reach), "model host", "http://model.example"))

    assert states(direct) == states(through) == {"model host": FAIL}
    assert place in direct["model host"].text
    assert "through the proxy 127.0.0.1" in through["model host"].text
    assert "hunter2" not in str(through)


# -------------------------------------------------------------------- machine


def test_without_docker_it_warns_and_the_process_backend_is_really_probed(tmp_path: Path) -> None:
    """No socket; a socket that is no engine; and the sandbox that is left refuses what it is asked to do."""
    assert states(of(doctor_machine.docker("", tmp_path / "none.sock"))) == {"docker": WARNING}
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "dead.sock"))
        engine.listen()
        threading.Thread(target=lambda: [engine.accept()[0].close() for _ in range(2)], daemon=True).start()
        found = of(doctor_machine.docker("", tmp_path / "dead.sock"))
    assert (states(found), "does not answer" in found["docker"].text) == ({"docker": WARNING}, True)

    (probe,) = doctor_machine.sandboxes("process", "")
    assert (probe.topic, probe.state) == ("sandbox process", OK)
    assert "forbidden acts refused" in probe.text


def test_a_sandbox_that_lets_something_through_fails_with_the_kernels_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe's own report decides; where another backend holds, the run is only poorer."""
    held = doctor_machine.Sandboxes.probe

    def leaky(self: object, *arguments: object) -> object:
        report = held(self, *arguments)  # type: ignore[arg-type]
        broken = replace(report.items[0], held=False, detail="it worked")
        return replace(report, ok=False, items=(broken, *report.items[1:]))

    monkeypatch.setattr(doctor_machine.Sandboxes, "probe", leaky)
    (probe,) = doctor_machine.sandboxes("process", "")

    assert (probe.state, probe.text) == (FAIL, "read a canary outside: it worked")


def test_the_kernel_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of(doctor_machine.kernel())
    assert found["landlock"].state in (OK, WARNING)
    monkeypatch.setattr(doctor_machine, "landlock_abi", lambda: 0)
    assert of(doctor_machine.kernel())["landlock"].state == FAIL


# -------------------------------------------------------------------- workspace and configuration


def test_a_broken_configuration_is_told_with_file_line_and_key(tmp_path: Path) -> None:
    make_checkout(tmp_path / "work", {".github/airlock.yml": "ai:\n  agent:\n    maxToolCals: 3\n"})
    found = of(doctor._config(options(tmp_path / "work")))  # type: ignore[arg-type]

    said = found["configuration"].text
    assert found["configuration"].state == FAIL
    assert ".github/airlock.yml, line 3: ai.agent.maxToolCals" in said
    assert "Did you mean maxToolCalls?" in said


def test_a_declared_tool_that_fits_no_route_fails_before_a_run_does(tmp_path: Path) -> None:
    """More than the schema: connections and tools are compiled as a run does."""
    config = tmp_path / "airlock.yml"
    text = (ROOT / ".github/airlock.yml").read_text()
    config.write_text(text)
    assert doctor_states(tmp_path, config) == OK
    config.write_text(
        "ai:\n  connections:\n    github:\n      origin: https://x.example\n      routes: [{method: GET, path: /a}]\n"
    )
    assert doctor_states(tmp_path, config) == FAIL


def doctor_states(folder: Path, config: Path) -> str:
    """State of the configuration."""
    return next(f.state for f in doctor._config(options(folder, config=config)) if isinstance(f, Finding))


def test_a_workspace_is_told_apart(tmp_path: Path) -> None:
    """No folder, no checkout, no commit, and a checkout."""
    (tmp_path / "plain").mkdir()
    head = make_checkout(tmp_path / "work", {"a": "1\n"})
    cases = {"none": FAIL, "plain": WARNING, "work": OK}
    found = {name: next(doctor._workspace(tmp_path / name)) for name in cases}

    assert {name: finding.state for name, finding in found.items()} == cases
    assert head[:12] in found["work"].text


# -------------------------------------------------------------------- the command


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a first step of a workflow would call it."""
    return subprocess.run(
        [sys.executable, "-m", "agent", "doctor", "--workspace", str(folder), "--sandbox", "process", *arguments],
        env={"PATH": os.environ["PATH"], "MY_TOKEN": BAD, "GITHUB_REPOSITORY": REPOSITORY},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_ends_with_1_where_something_failed_and_shows_no_secret(tmp_path: Path, github: GitHubSim) -> None:
    make_checkout(tmp_path / "work", {"a": "1\n"})
    where = ["--api-url", github.api_url, "--model", "anthropic/x", "--base-url", github.server_url]
    bad = command(tmp_path / "work", *where, "--token-env", "MY_TOKEN")
    good = command(tmp_path / "work", "--offline", "--json")
    unset = command(tmp_path / "work", "--offline", "--token-env", "NOT_SET")
    unnamed = command(tmp_path / "work", "--offline", "--repository", "name")

    assert (bad.returncode, BAD in bad.stdout + bad.stderr) == (1, False)
    assert "FAIL      token MY_TOKEN" in bad.stdout
    assert "-> Make a new one" in bad.stdout
    assert (good.returncode, json.loads(good.stdout)["ok"]) == (0, True)
    assert {"topic": "python", "state": "ok"}.items() <= json.loads(good.stdout)["findings"][1].items()
    assert (unnamed.returncode, "--repository 'name' is not OWNER/NAME." in unnamed.stderr) == (2, True)
    assert (unset.returncode, "NOT_SET" in unset.stderr, "Traceback" in unset.stderr) == (2, True, False)
