"""`python -m agent run`: local use on a clone; a dry run tells every write and makes none."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.action import ROOT, parse_outputs
from tests.support.checkouts import git
from tests.support.github_sim import GitHubSim
from tests.support.leaks import hits, in_files
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Recorded, Turn
from tests.support.scenario import API_KEY, RUN_ID, TOKEN, World, fixing_turns

BRANCH = f"airlock/fix-run-{RUN_ID}"
SECRETS = {"token": TOKEN, "key": API_KEY}
FIXED = "return amount - amount * discount_percent // 100"


def tree_of(folder: Path) -> dict[str, str]:
    """Every file of a folder, the git folder included: kind, mode, change time and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = f"{about.st_mode} {about.st_uid} {about.st_mtime_ns} {hashlib.sha256(data).hexdigest()}"
    return found


def command(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The command, as a user types it, with both secrets in the environment."""
    return subprocess.run(
        [sys.executable, "-m", "agent", "run", *arguments],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MY_TOKEN": TOKEN, "MY_KEY": API_KEY},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run(world: World, event: dict[str, Any], model: ModelServer, *options: str) -> subprocess.CompletedProcess[str]:
    """The command on the world's own checkout."""
    file = world.folder / "event.json"
    file.write_text(json.dumps(event))
    where = ["--event", str(file), "--repo", str(world.workspace), "--folder", str(world.folder / "run")]
    return command([*where, "--model", "anthropic/claude-sonnet-4-5", "--base-url", model.url, *options])


def online(world: World) -> list[str]:
    """Options that lead to the simulator with its token."""
    where = ["--api-url", world.github.api_url, "--server-url", world.github.server_url]
    return [*where, "--token-env", "MY_TOKEN", "--api-key-env", "MY_KEY"]


def writes(github: GitHubSim) -> list[tuple[str, str]]:
    """Requests that would change something at GitHub."""
    return [(r.method, r.path) for r in github.requests if r.method != "GET" and not r.path.endswith("upload-pack")]


def told_writes(text: str) -> list[tuple[str, str]]:
    """Writes as the command prints them."""
    return re.findall(r"^  (POST|PATCH|PUT|DELETE) (\S+) \(github, \d+ bytes\)$", text, re.MULTILINE)


def watch(world: World, first: Turn) -> tuple[Callable[[Recorded], Turn], list[str]]:
    """A first turn that looks at every process of the run, which is all alive then; and the commands it saw."""
    before = {name for name in os.listdir("/proc") if name.isdigit()}
    seen: list[str] = []

    def look(_: Recorded) -> Turn:
        for pid in {name for name in os.listdir("/proc") if name.isdigit()} - before:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                data = command + Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                continue  # it ended, or it is another user's
            if str(world.folder).encode() in command or b"entrypoint.py" in command:
                seen.append(command.replace(b"\0", b" ").decode() + ", ".join(hits(data, SECRETS)))
        return first

    return look, seen


def test_a_dry_run_prints_every_write_and_changes_neither_repository(world: World, github: GitHubSim) -> None:
    """The main job to its end: six writes told in order with their bodies, none made; the fix can be fetched.

    On the way no process and no file holds a secret: both went by standard input, out of the environment at once.
    """
    user, remote = tree_of(world.workspace), world.repository.refs()
    event = github.event("workflow_run", world.repository, run=RUN_ID)
    first, *rest = fixing_turns(BRANCH)
    look, seen = watch(world, first)
    with ModelServer([look, *rest]) as model:
        done = run(world, event, model, *online(world), "--dry-run")
        headers = str([request.headers for request in model.requests])

    assert (done.returncode, done.stderr) == (0, "")
    root = f"/repos/{world.repository.full_name}"
    paths = ["git/blobs", "git/trees", "git/commits", "git/refs", "pulls", "issues/999999999/comments"]
    assert told_writes(done.stdout) == [("POST", f"{root}/{path}") for path in paths]
    assert '"ref": "refs/heads/airlock/fix-run-4711"' in done.stdout
    assert (writes(github), world.repository.refs(), world.repository.pulls()) == ([], remote, [])
    assert tree_of(world.workspace) == user

    results = world.folder / "run/results"
    assert f"+    {FIXED}" in (results / "work.diff").read_text()
    assert "This was a dry run" in (results / "summary.md").read_text()
    outputs = parse_outputs((results / "outputs").read_text())
    assert (outputs["branch"], outputs["pull-request-url"]) == ("", ""), "a following step must not look for them"
    (fetch,) = re.findall(r"^to fetch it  git (.*)$", done.stdout, re.MULTILINE)
    git(world.workspace, *fetch.split()[2:])
    assert FIXED in git(world.workspace, "show", "airlock/local-run:prices/cart.py")
    assert git(world.workspace, "log", "-1", "--format=%s", "airlock/local-run") == "Divide a percentage by 100"

    assert len([command for command in seen if "-m agent run" in command]) == 1, "the command itself was looked at"
    assert [command for command in seen if "token:" in command or "key:" in command] == []
    assert API_KEY in headers, "control: the key did reach the model"
    assert hits((done.stdout + done.stderr).encode(), SECRETS) == []
    assert in_files(world.folder / "run", SECRETS) == []


def test_without_dry_run_the_same_writes_are_made_and_the_users_repository_stays(
    world: World, github: GitHubSim
) -> None:
    """Control: what the dry run told is what a run does; the user's checkout is left alone by it too."""
    user = tree_of(world.workspace)
    event = github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(BRANCH)) as model:
        done = run(world, event, model, *online(world))

    root = f"/repos/{world.repository.full_name}"
    (pull,) = world.repository.pulls()
    paths = ["git/blobs", "git/trees", "git/commits", "git/refs", "pulls", f"issues/{pull.number}/comments"]
    assert (done.returncode, writes(github)) == (0, [("POST", f"{root}/{path}") for path in paths])
    assert "Dry run" not in done.stdout
    assert world.repository.branch(BRANCH) is not None
    assert tree_of(world.workspace) == user


def gone(group: int) -> bool:
    """Whether a process group ends; who was orphaned waits for process 1 to take note of its end."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("whole_group", [True, False], ids=["interrupt of a terminal", "SIGTERM to the command"])
def test_a_cancelled_run_reports_and_leaves_the_users_repository(
    world: World, github: GitHubSim, whole_group: bool
) -> None:
    """Ctrl-C reaches command and run, SIGTERM the command alone: either way the run ends itself, and says so."""
    user = tree_of(world.workspace)
    file = world.folder / "event.json"
    file.write_text(json.dumps(github.event("workflow_run", world.repository, run=RUN_ID)))
    asked, release = threading.Event(), threading.Event()

    def hang(_: Recorded) -> Turn:
        asked.set()
        release.wait(60)
        return Turn(text="late")

    edit = Turn(calls=[Call("write_file", {"path": "half.txt", "content": "half\n"})])
    with ModelServer([edit, hang]) as model:
        where = ["--event", str(file), "--repo", str(world.workspace), "--folder", str(world.folder / "run")]
        where += ["--model", "anthropic/claude-sonnet-4-5", "--base-url", model.url, *online(world)]
        process = subprocess.Popen(
            [sys.executable, "-m", "agent", "run", *where],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "MY_TOKEN": TOKEN, "MY_KEY": API_KEY},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert asked.wait(60)
        if whole_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.terminate()
        said, _ = process.communicate(timeout=60)
        release.set()

    outputs = parse_outputs((world.folder / "run/results/outputs").read_text())
    assert (process.returncode, outputs["stop-reason"], "Traceback" in said) == (6, "cancelled", False)
    assert "exit status  6" in said
    assert "half.txt" in (world.folder / "run/results/work.diff").read_text(), "what was done is kept"
    assert (tree_of(world.workspace), world.repository.pulls()) == (user, [])
    assert gone(process.pid), "somebody of the run is left"


@pytest.mark.parametrize(("vouched", "mode"), [(True, "review"), (False, "restricted")])
def test_without_a_token_a_dry_run_asks_github_nothing(
    world: World, github: GitHubSim, vouched: bool, mode: str
) -> None:
    """Event and clone are enough for a review; what only GitHub knows is refused in words, a permission included."""
    repo = world.repository
    repo.commit("feature/x", {"prices/x.py": "X = 1\n"}, base="main")
    event = github.event("pull_request", repo, number=repo.create_pull("feature/x").number)
    git(world.workspace, "fetch", "-q", str(repo.git.path), "feature/x:feature/x")
    asked = len(github.requests)
    script = [
        Turn(calls=[Call("git_diff", {"base": "base"})]),
        Turn(calls=[Call("list_comments", {"number": 1})]),
        Turn(calls=[Call("comment", {"number": event["number"], "body": "X is not used."})] if vouched else []),
        Turn(text="Reviewed."),
    ]
    options = ["--dry-run", "--api-key-env", "MY_KEY"]
    options += ["--actor-permission", "maintainer=write"] if vouched else []
    with ModelServer(script) as model:
        done = run(world, event, model, *options)
        results = [json.dumps(request.json) for request in model.requests]

    assert (done.returncode, len(github.requests)) == (0, asked)
    assert f"Mode {mode}." in done.stdout
    assert "+X = 1" in results[1], "the change itself is there"
    assert "403" in results[2]
    assert "X is not used." not in results[2]
    comments = [path for _, path in told_writes(done.stdout) if path.endswith("/comments")]
    assert bool(comments) == vouched


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--token-env", "MY_TOKEN", "--api-key-env", "NOT_SET"], "--api-key-env names NOT_SET, and no such variable"),
        ([], "--token-env NAME, or --dry-run to write nothing"),
        (["--dry-run", "--input", "nonsense=1"], "--input nonsense is no input of a run"),
        (["--dry-run", "--repo", "{folder}"], "cannot be cloned"),
        (["--dry-run", "--folder", "{folder}"], "exists. Name a new folder with --folder"),
    ],
)
def test_bad_use_says_what_to_do_and_starts_nothing(tmp_path: Path, options: list[str], said: str) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"repository": {"full_name": "example/prices"}, "sender": {"login": "maintainer"}}))
    (tmp_path / "there").mkdir()
    filled = [option.format(folder=tmp_path / "there") for option in options]
    done = command(["--event", str(event), "--folder", str(tmp_path / "run"), *filled])

    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert hits((done.stdout + done.stderr).encode(), SECRETS) == []
    assert not (tmp_path / "run/results").exists()


def test_the_actions_input_is_the_same_dry_run(make: Callable[..., World], github: GitHubSim) -> None:
    """As a job: `dry-run: true` sends no write, not even the comment that follows a run."""
    world = make()
    number = world.repository.create_issue("Discount", "It is wrong.").number
    world.repository.add_comment(number, "/airlock implement fix the discount", "maintainer")
    event = github.event("issue_comment", world.repository, number=number)
    with ModelServer(fixing_turns("airlock/fix")[3:]) as model:
        result = world.run("issue_comment", event, model, inputs={"dry-run": "true"})

    kept = [(e["method"], e["path"].rpartition("/")[2]) for e in result.events("egress.dry_run")]
    assert (result.exit_status, writes(github)) == (0, [])
    assert kept[0] == ("POST", "reactions")
    assert [name for _, name in kept if name in ("refs", "pulls")] == ["refs", "pulls"]
    assert kept[-1][1] in ("comments", "999999999")
    assert (result.outputs["branch"], result.outputs["pull-request-url"]) == ("", "")
