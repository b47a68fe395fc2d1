"""The workspace before and after a run: real git folder aside, throwaway, owner, credentials, undo."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.broker.git.credentials import secret_values
from agent.broker.git.journal import JOURNAL, undo, undo_acts
from agent.broker.git.prepare import Prepared, prepare
from agent.broker.git.workspace import open_shadow, open_worktree
from agent.contract.errors import UserError
from tests.support.checkouts import git, make_checkout

FILES = {"README.md": "# W\n", "src/app.py": "print(1)\n"}
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def header(token: str) -> str:
    return "AUTHORIZATION: basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


def listing(folder: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    """Owner, group, mode, mtime and content of everything below a folder, links not followed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (
            status.st_uid,
            status.st_gid,
            stat.S_IMODE(status.st_mode),
            status.st_mtime_ns if path.is_file() else 0,
            data,
        )
    return found


def as_sandbox(prepared: Prepared, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the sandbox's user."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    who: dict[str, Any] = {"user": prepared.uid, "group": prepared.gid, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, **who)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "place/work"
    make_checkout(folder, FILES)
    git(folder, "tag", "v1")
    git(folder, "remote", "add", "origin", "https://github.com/acme/widgets")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    return folder


def test_prepare_and_undo_leave_the_checkout_bit_for_bit_as_it_was(checkout: Path, tmp_path: Path) -> None:
    """Owner, mode, time and content of every path, the real .git's included, and nothing beside it."""
    before = listing(checkout)

    prepare(checkout, tmp_path / "state")
    during = listing(checkout)
    said = undo(tmp_path / "state")

    assert listing(checkout) == before != during
    assert said == ()
    assert os.listdir(checkout.parent) == ["work"]
    assert undo(tmp_path / "state") == ()
    assert git(checkout, "status", "--porcelain") == ""


@root_only
def test_git_works_in_the_sandbox_with_history_and_tags_and_no_remote(checkout: Path, tmp_path: Path) -> None:
    """status is clean, log, tags and a commit work, and the real repository does not change."""
    prepared = prepare(checkout, tmp_path / "state")
    head = git(checkout, "rev-parse", "HEAD")

    answers = {
        command: as_sandbox(prepared, checkout, "sh", "-c", command).stdout.strip()
        for command in (
            "git status --porcelain",
            "git rev-parse HEAD refs/tags/v1 origin/main",
            "git branch --show-current",
            "git remote -v",
            "git log --format=%s",
            "echo x > new; git add -A; git commit -q -m local; git log --format=%s; git gc -q; git status --porcelain",
            "stat -c %u .git src/app.py",
        )
    }
    undo(tmp_path / "state")

    assert list(answers.values()) == [
        "",
        f"{head}\n{head}\n{head}",
        "main",
        "",
        "first",
        "local\nfirst",
        f"{prepared.uid}\n{prepared.uid}",
    ]
    assert git(checkout, "log", "--all", "--format=%s") == "first"
    assert git(checkout, "status", "--porcelain") == "?? new"
    git(checkout, "fsck", "--strict")


def credentials_of_version(version: str, checkout: Path, temp: Path) -> set[str]:
    """Persist credentials as this version of checkout does; gives the secrets."""
    temp.mkdir()
    if version in ("v1", "v3", "v5"):
        git(checkout, "config", "http.https://github.com/.extraheader", header("ghs_inconfig_0001"))
        return {"ghs_inconfig_0001"}
    if version in ("v6", "v7"):
        file = temp / "git-credentials-7d9c.config"
        git(
            checkout, "config", "--file", str(file), "http.https://github.com/.extraheader", header("ghs_included_0001")
        )
        for where, path in (
            (f"{checkout}/.git", file),
            (f"{checkout}/.git/worktrees/*", file),
            ("/github/workspace/.git", Path("/github/runner_temp") / file.name),
            ("/github/workspace/.git/worktrees/*", Path("/github/runner_temp") / file.name),
        ):
            git(checkout, "config", f"includeIf.gitdir:{where}.path", str(path))
        return {"ghs_included_0001"}
    if version == "container":
        # only the container's path is named, and the file is where this container sees RUNNER_TEMP
        file = temp / "git-credentials-77aa.config"
        git(
            checkout,
            "config",
            "--file",
            str(file),
            "http.https://ghes.example/.extraheader",
            header("ghs_container_001"),
        )
        git(checkout, "config", "includeIf.gitdir:/github/workspace/.git.path", f"/github/runner_temp/{file.name}")
        return {"ghs_container_001"}
    if version == "ssh":
        (temp / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabcdef\n-----END OPENSSH PRIVATE KEY-----\n")
        git(checkout, "config", "core.sshCommand", f'"/usr/bin/ssh" -i "{temp}/key" -o StrictHostKeyChecking=yes')
        return {"-----BEGIN OPENSSH PRIVATE KEY-----\nabcdef\n-----END OPENSSH PRIVATE KEY-----"}
    if version == "remote-url":
        git(checkout, "remote", "set-url", "origin", "https://x-access-token:ghs_inurl_00001@github.com/acme/widgets")
        git(checkout, "config", "url.https://u:p%40ssw0rdxx@github.com/.insteadOf", "git@github.com:")
        return {"ghs_inurl_00001", "p%40ssw0rdxx", "p@ssw0rdxx"}
    if version == "token-user":
        git(checkout, "remote", "set-url", "origin", "https://ghp_0123456789abcdefghij@github.com/acme/widgets")
        return {"ghp_0123456789abcdefghij"}
    if version == "worktree-config":
        git(checkout, "config", "extensions.worktreeConfig", "true")
        git(checkout, "config", "--worktree", "http.https://github.com/.extraheader", header("ghs_worktree_0001"))
        return {"ghs_worktree_0001"}
    if version == "store":
        (temp / "store").write_text("https://bot:st0red-password@github.com\n")
        git(checkout, "config", "credential.helper", f"store --file={temp}/store")
        return {"st0red-password"}
    if version == "include":  # of another step's making: elsewhere, and by way of a second file
        (checkout.parent / "more").mkdir(mode=0o700)
        git(checkout, "config", "include.path", "../../more/first")
        git(checkout, "config", "--file", str(checkout.parent / "more/first"), "include.path", "second")
        second = checkout.parent / "more/second"
        git(
            checkout,
            "config",
            "--file",
            str(second),
            "http.https://git.example/.extraheader",
            header("ghs_elsewhere_001"),
        )
        return {"ghs_elsewhere_001"}
    assert version == "submodule"
    source = temp / "source"
    make_checkout(source, {"s": "s\n"})
    git(checkout, "submodule", "add", "-q", str(source), "mods/sub")
    git(checkout, "commit", "-q", "-m", "sub")
    git(checkout / "mods/sub", "config", "http.https://github.com/.extraheader", header("ghs_submodule_001"))
    return {"ghs_submodule_001"}


VERSIONS = [
    "v1",
    "v3",
    "v5",
    "v6",
    "v7",
    "container",
    "ssh",
    "remote-url",
    "token-user",
    "worktree-config",
    "store",
    "include",
    "submodule",
]


@root_only
@pytest.mark.parametrize("version", VERSIONS)
def test_credentials_of_every_checkout_are_found_kept_from_the_agent_and_put_back(
    checkout: Path, tmp_path: Path, version: str
) -> None:
    """The values become known secrets, no file the sandbox can read below the workspace's parent holds one."""
    temp = tmp_path / "temp"
    wanted = credentials_of_version(version, checkout, temp)
    before = listing(checkout)

    prepared = prepare(checkout, tmp_path / "state", temps=[temp])
    encoded = list(wanted) + [header(v).split()[-1] for v in wanted]
    found = [
        value
        for value in encoded
        if as_sandbox(prepared, checkout.parent, "grep", "-rlF", "-e", value.splitlines()[0], ".").stdout
    ]
    named = as_sandbox(prepared, checkout, "git", "config", "--list").stdout
    undo(tmp_path / "state")

    assert wanted <= set(prepared.secrets)
    assert not any(value in repr(prepared) for value in prepared.secrets)
    assert found == []
    assert "extraheader" not in named
    assert listing(checkout) == before


@pytest.mark.parametrize(
    ("key", "value", "secrets"),
    [
        ("http.https://github.com/.extraheader", "AUTHORIZATION: bearer abcdefgh", {"abcdefgh"}),
        ("http.extraheader", "X-Token: plainvalue", {"plainvalue"}),
        ("http.https://a.b/.extraheader", "AUTHORIZATION: basic !!notbase64!!", {"!!notbase64!!"}),
        ("http.https://a.b/.extraheader", "", set()),
        ("http.extraheader", "Accept: text/html", set()),
        ("http.proxy", "http://u:proxypass@proxy:3128", {"proxypass"}),
        ("remote.origin.url", "git@github.com:acme/widgets.git", set()),
        ("remote.origin.url", "https://github.com/acme/widgets", set()),
        ("remote.origin.url", "https://[bad", set()),
        ("user.name", "AUTHORIZATION: basic abc", set()),
    ],
)
def test_one_configuration_entry_gives_its_secrets(key: str, value: str, secrets: set[str]) -> None:
    """Headers of any scheme, URLs with a password; ordinary settings give none."""
    assert secret_values(key, value) == secrets


@root_only
def test_a_second_checkout_below_the_workspace_loses_its_git_folder_for_the_run_too(
    checkout: Path, tmp_path: Path
) -> None:
    """`actions/checkout` with `path:` leaves a nested .git with credentials; it is replaced and put back."""
    make_checkout(checkout / "other", {"o": "o\n"})
    git(checkout / "other", "config", "http.https://github.com/.extraheader", header("ghs_second_00001"))
    before = listing(checkout)

    prepared = prepare(checkout, tmp_path / "state")
    config = (checkout / "other/.git/config").read_text()
    log = as_sandbox(prepared, checkout / "other", "git", "log", "--format=%s").stdout
    undo(tmp_path / "state")

    assert "ghs_second_00001" in prepared.secrets
    assert "extraheader" not in config
    assert log == "first\n"
    assert listing(checkout) == before


@root_only
def test_submodules_work_in_the_sandbox(checkout: Path, tmp_path: Path) -> None:
    """`git status` is clean at the top and inside an absorbed submodule."""
    credentials_of_version("submodule", checkout, tmp_path / "temp")
    prepared = prepare(checkout, tmp_path / "state")

    top = as_sandbox(prepared, checkout, "git", "status", "--porcelain")
    inside = as_sandbox(prepared, checkout / "mods/sub", "git", "log", "--format=%s")
    said = undo(tmp_path / "state")

    assert said == ()
    assert (top.returncode, top.stdout) == (0, "")
    assert (inside.returncode, inside.stdout) == (0, "first\n")


@root_only
def test_a_linked_worktree_is_prepared_and_put_back(checkout: Path, tmp_path: Path) -> None:
    """Where `.git` is a file the file moves, and the repository that it names stays where it is."""
    linked = tmp_path / "place/linked"
    git(checkout, "worktree", "add", "-q", "-b", "side", str(linked))
    before = listing(linked)

    prepared = prepare(linked, tmp_path / "state")
    status = as_sandbox(prepared, linked, "git", "status", "--porcelain", "--branch").stdout
    shadow = open_shadow(prepared, tmp_path / "state/shadow")
    worktree = open_worktree(prepared, shadow, linked)
    (linked / "README.md").write_text("changed\n")
    files = worktree.commit("m").files()
    (linked / "README.md").write_text(FILES["README.md"])
    os.utime(linked / "README.md", ns=(0, before["README.md"][3]))
    undo(tmp_path / "state")

    assert prepared.shape == "file"
    assert status == "## side\n"
    assert files == [{"path": "README.md", "status": "modified"}]
    assert listing(linked) == before
    assert git(linked, "status", "--porcelain") == ""


def test_a_shallow_checkout_stays_shallow_and_readable(checkout: Path, tmp_path: Path) -> None:
    """Depth 1, as checkout's default: log ends where history ends, in sandbox and shadow."""
    (checkout / "more").write_text("x\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "second")
    shallow = tmp_path / "place/shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", str(shallow))

    prepared = prepare(shallow, tmp_path / "state")
    log = as_sandbox(prepared, shallow, "git", "log", "--format=%s")
    shadow = open_shadow(prepared, tmp_path / "state/shadow")
    ours = shadow.log(prepared.head or "", 10)
    undo(tmp_path / "state")

    assert (log.returncode, log.stdout) == (0, "second\n")
    assert ours.count("second") == 1
    assert "first" not in ours


def test_a_folder_without_git_stays_without(tmp_path: Path) -> None:
    """What the agent makes at `.git` where there was nothing is removed."""
    folder = tmp_path / "place/work"
    folder.mkdir(parents=True)
    (folder / "f").write_text("x\n")
    prepared = prepare(folder, tmp_path / "state")
    git(folder, "init", "-q")
    git(folder, "config", "core.fsmonitor", "evil")

    said = undo(tmp_path / "state")

    assert (prepared.shape, prepared.head, said) == ("absent", None, ())
    assert os.listdir(folder) == ["f"]


@pytest.mark.parametrize("kind", ["deleted", "file", "link", "dangling", "folder", "deep"])
def test_whatever_the_agent_made_of_git_the_real_one_comes_back(checkout: Path, tmp_path: Path, kind: str) -> None:
    """A link at `.git` is not followed, a deep chain of folders does not stop the undoing."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("untouched\n")
    before = listing(checkout / ".git")
    prepare(checkout, tmp_path / "state")
    subprocess.run(["rm", "-rf", str(checkout / ".git")], check=True)
    if kind == "file":
        (checkout / ".git").write_text("gitdir: /etc\n")
    elif kind in ("link", "dangling"):
        (checkout / ".git").symlink_to(outside if kind == "link" else "nowhere")
    elif kind in ("folder", "deep"):
        path = str(checkout / ".git")
        subprocess.run(["sh", "-c", f"mkdir {path}; cd {path}; touch x"], check=True)
        if kind == "deep":
            subprocess.run(
                ["sh", "-c", f"cd {path}; for i in $(seq 1500); do mkdir d && cd d || exit 1; done"], check=True
            )

    said = undo(tmp_path / "state")

    assert said == ()
    assert listing(checkout / ".git") == before
    assert listing(outside) == {"victim": listing(outside)["victim"]}
    assert (outside / "victim").read_text() == "untouched\n"


def test_a_nested_git_folder_and_a_set_user_id_file_are_named(checkout: Path, tmp_path: Path) -> None:
    """What would run code or rights in later steps stands in the report; what was there before does not."""
    make_checkout(checkout / "old", {"o": "o\n"})
    (checkout / "old-tool").write_text("x")
    (checkout / "old-tool").chmod(0o4755)
    prepare(checkout, tmp_path / "state")
    (checkout / "src/.git").mkdir()
    (checkout / "src/tool").write_text("x")
    os.chown(checkout / "src/tool", os.lstat(checkout).st_uid, -1)
    (checkout / "src/tool").chmod(0o2755)

    said = undo(tmp_path / "state")

    if os.geteuid() == 0:  # given back to root, so the bit is taken away rather than named
        assert said == ("The run left git folders below the top, which run code in later steps: src/.git.",)
        assert stat.S_IMODE((checkout / "src/tool").stat().st_mode) == 0o755
    assert stat.S_IMODE((checkout / "old-tool").stat().st_mode) == 0o4755


@root_only
def test_a_root_owned_workspace_is_given_away_and_taken_back(checkout: Path, tmp_path: Path) -> None:
    """New files of the sandbox's user become root's too; links and files of third users are not touched."""
    (checkout / "link").symlink_to("/etc/passwd")
    (checkout / "third").write_text("x\n")
    os.chown(checkout / "third", 4242, 4242)
    passwd = os.lstat("/etc/passwd").st_uid
    prepared = prepare(checkout, tmp_path / "state", uid=1234, gid=1235)
    during = {
        n: (os.lstat(checkout / n).st_uid, os.lstat(checkout / n).st_gid) for n in (".", "src/app.py", "link", "third")
    }
    done = as_sandbox(prepared, checkout, "sh", "-c", "echo y > made; cp /bin/true tool; chmod 4755 tool")

    said = undo(tmp_path / "state")

    assert done.returncode == 0, done.stderr
    assert during == {".": (1234, 1235), "src/app.py": (1234, 1235), "link": (1234, 1235), "third": (4242, 4242)}
    assert {path.name: path.lstat().st_uid for path in checkout.iterdir()} == {
        ".git": 0, "README.md": 0, "src": 0, "link": 0, "made": 0, "third": 4242, "tool": 0,
    }  # fmt: skip
    assert stat.S_IMODE((checkout / "tool").stat().st_mode) == 0o755
    assert os.lstat("/etc/passwd").st_uid == passwd
    assert said == ()


@root_only
def test_the_sandbox_user_cannot_read_the_real_git_folder_and_cannot_write_its_objects(
    checkout: Path, tmp_path: Path
) -> None:
    """Permissions alone hold here, before Landlock; reading the objects is the control."""
    prepared = prepare(checkout, tmp_path / "state")
    place = Path(prepared.readable[0]).parent.parent
    assert prepared.hidden == (str(place / "private"),)

    config = as_sandbox(prepared, checkout, "cat", f"{place}/private/1/config")
    listed = as_sandbox(prepared, checkout, "ls", str(place))
    write = as_sandbox(
        prepared, checkout, "sh", "-c", f"touch {prepared.readable[0]}/x; rm -rf {prepared.readable[0]}/*"
    )
    moved = as_sandbox(prepared, checkout, "mv", str(place), f"{place}-x")
    read = as_sandbox(prepared, checkout, "git", "cat-file", "-p", "HEAD:README.md")
    undo(tmp_path / "state")

    assert [done.returncode != 0 for done in (config, listed, write, moved)] == [True] * 4
    assert "extraheader" not in config.stdout
    assert read.stdout == FILES["README.md"]
    git(checkout, "fsck", "--strict")


def test_undo_works_after_a_crash_at_every_point(checkout: Path, tmp_path: Path) -> None:
    """The journal is cut after each line, with and without the act it announces having happened."""
    make_checkout(checkout / "other", {"o": "o\n"})
    before = listing(checkout)
    lines = 0
    for cut in range(40):
        state = tmp_path / f"state{cut}"
        prepare(checkout, state)
        journal = state / JOURNAL
        acts = journal.read_bytes().splitlines(keepends=True)
        lines = len(acts)
        if cut >= lines:
            undo(state)
            break
        # as if the process had died just before act number `cut`: undo what came after by hand, newest first
        tail = tmp_path / f"tail{cut}"
        tail.write_bytes(acts[0] + b"".join(a for a in acts[cut + 1 :] if json.loads(a)["act"] != "place"))
        acts_after = [json.loads(a)["act"] for a in acts[cut + 1 :]]
        if acts_after:
            for act in reversed([json.loads(a) for a in acts[cut + 1 :]]):
                _by_hand(act, checkout)
        journal.write_bytes(b"".join(acts[: cut + 1]) + b'{"act": "mo')

        said = undo(state)

        assert said == (), cut
        assert listing(checkout) == before, cut
        assert os.listdir(checkout.parent) == ["work"]
    assert lines > 4


def _by_hand(act: dict[str, Any], checkout: Path) -> None:
    if act["act"] == "move" and os.path.lexists(act["to"]):
        if os.path.lexists(act["from"]):
            subprocess.run(["rm", "-rf", act["from"]], check=True)
        os.rename(act["to"], act["from"])
    elif act["act"] == "own":
        subprocess.run(["chown", "-Rh", f"0:{act['group']}", act["root"]], check=True)
    elif act["act"] == "place":
        subprocess.run(["rm", "-rf", act["path"]], check=True)


def test_a_folder_that_the_agent_deleted_is_told_and_the_git_folder_is_kept(checkout: Path, tmp_path: Path) -> None:
    """Where a nested checkout's folder is gone or a link now, its git folder is not put anywhere else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    make_checkout(checkout / "other", {"o": "o\n"})
    prepare(checkout, tmp_path / "state")
    subprocess.run(["rm", "-rf", str(checkout / "other")], check=True)
    (checkout / "other").symlink_to(outside)

    said = undo(tmp_path / "state")

    assert len(said) == 1
    assert "other/.git could not be put back" in said[0]
    kept = Path(said[0].rpartition("it lies at ")[2].rstrip("."))
    assert (kept / "HEAD").is_file()
    assert os.listdir(outside) == []
    assert git(checkout, "log", "--format=%s") == "first"


@pytest.mark.parametrize(
    ("key", "value"), [("extensions.objectformat", "sha256"), ("extensions.refstorage", "reftable")]
)
def test_a_format_that_github_does_not_host_is_refused_and_nothing_changes(
    checkout: Path, tmp_path: Path, key: str, value: str
) -> None:
    """The error names file, key and value."""
    before = listing(checkout)
    with (checkout / ".git/config").open("a") as file:
        file.write(f"[{key.split('.')[0]}]\n\t{key.split('.')[1]} = {value}\n")
    after = listing(checkout)

    with pytest.raises(UserError, match=value):
        prepare(checkout, tmp_path / "state")
    assert listing(checkout) == after
    assert before.keys() == after.keys()


def test_a_git_file_that_leads_nowhere_is_a_clear_error(tmp_path: Path) -> None:
    """A worktree whose repository is not mounted says what to mount."""
    folder = tmp_path / "place/work"
    folder.mkdir(parents=True)
    (folder / ".git").write_text("gitdir: /not/there\n")

    with pytest.raises(UserError, match="mount it at the same path"):
        prepare(folder, tmp_path / "state")
    assert (folder / ".git").read_text() == "gitdir: /not/there\n"
    assert os.listdir(folder.parent) == ["work"]


def test_a_mounted_git_folder_is_not_moved(checkout: Path, tmp_path: Path) -> None:
    """Container shape: the real folder is elsewhere, the mask at `.git` is filled with a throwaway."""
    real = tmp_path / "mounted"
    (checkout / ".git").rename(real)
    (checkout / ".git").mkdir()
    before = listing(real)

    prepared = prepare(checkout, tmp_path / "state", git_dir=real)
    log = as_sandbox(prepared, checkout, "git", "log", "--format=%s").stdout

    assert log == "first\n"
    assert (prepared.readable, prepared.hidden) == ((str(real / "objects"),), (str(real),))
    assert listing(real) == before
    assert undo(tmp_path / "state") == ()


def test_a_second_checkout_in_a_masked_workspace_is_moved_aside_too(checkout: Path, tmp_path: Path) -> None:
    """The mask covers the top's git folder alone; a nested one holds credentials of its own."""
    real = tmp_path / "mounted"
    (checkout / ".git").rename(real)
    (checkout / ".git").mkdir()
    nested = checkout / "other"
    nested.mkdir()
    git(nested, "init", "-q")
    git(nested, "config", "http.https://github.com/.extraheader", header("ghs_nested_0001"))
    before = listing(nested)

    prepared = prepare(checkout, tmp_path / "state", git_dir=real)

    assert "extraheader" not in (nested / ".git/config").read_text()
    assert any("ghs_nested_0001" in secret for secret in prepared.secrets)
    assert undo(tmp_path / "state") == ()
    assert listing(nested) == before


@pytest.fixture
def mounted(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose parent refuses, as a mount of its own or a read-only root file system does."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr("agent.broker.git.place._try_rename", refuse)
    git(checkout, "config", "http.https://github.com/.extraheader", header("ghs_inconfig_0001"))
    return checkout


def private_place(checkout: Path) -> Path:
    return next(path for path in checkout.iterdir() if path.name.startswith(".airlock-"))


@root_only
@pytest.mark.parametrize("owner", [0, 1234])
def test_a_workspace_that_is_a_mount_keeps_the_real_git_folder_inside_and_unreadable(
    mounted: Path, tmp_path: Path, owner: int
) -> None:
    """Permissions alone hold: the sandbox's user reads objects, and neither reads config nor writes objects."""
    subprocess.run(["chown", "-R", f"{owner}:{owner}", str(mounted)], check=True)
    before = listing(mounted)
    prepared = prepare(mounted, tmp_path / "state")
    place = private_place(mounted)
    worktree = open_worktree(prepared, open_shadow(prepared, tmp_path / "state/shadow"), mounted)

    tries = [
        as_sandbox(prepared, mounted, "sh", "-c", command.format(p=place, o=prepared.readable[0]))
        for command in (
            "cat {p}/private/1/config",
            "ls {p}",
            "chmod -R a+rwx {p}",
            "rm -rf {p}",
            "touch {o}/x",
            "for f in {o}/*/*; do chmod u+w $f && echo x > $f && exit 0; done; exit 1",
            "mv {p}/private {p}/y",
        )
    ]
    read = as_sandbox(prepared, mounted, "git", "log", "--format=%s")
    snapshot = worktree.snapshot()
    said = undo(tmp_path / "state")

    assert [done.returncode != 0 for done in tries] == [True] * len(tries)
    assert "ghs_" not in "".join(done.stdout for done in tries)
    assert read.stdout == "first\n"
    assert (snapshot.changes, snapshot.problems) == ((), ())
    assert said == ()
    assert os.listdir(mounted.parent) == ["work"]
    assert listing(mounted) == before
    git(mounted, "fsck", "--strict")


@root_only
def test_a_real_mount_is_prepared_and_put_back(checkout: Path, tmp_path: Path) -> None:
    """A bind mount of the workspace onto itself, in a mount namespace of its own: renames out of it fail."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    before = listing(checkout)
    script = tmp_path / "run.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\n"
        "from agent.broker.git.journal import undo\nfrom agent.broker.git.prepare import prepare\n"
        "w, s = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "print(prepare(w, s).inside is not None, undo(s))\n"
    )
    root = Path(__file__).parents[2]
    command = f"mount --bind {checkout} {checkout} && exec {sys.executable} {script} {checkout} {tmp_path}/state"

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )

    assert done.stdout == "True ()\n", done.stderr
    assert listing(checkout) == before
    assert os.listdir(checkout.parent) == ["work"]


@root_only
def test_a_false_private_folder_is_not_believed(mounted: Path, tmp_path: Path) -> None:
    """The owner of the workspace may rename the private folder; undoing finds the true one by its inode."""
    before = listing(mounted / ".git")
    prepared = prepare(mounted, tmp_path / "state")
    place = private_place(mounted)
    worktree = open_worktree(prepared, open_shadow(prepared, tmp_path / "state/shadow"), mounted)
    forge = (
        f"mv {place} elsewhere && mkdir -p {place}/private {place}/objects && "
        f"cp -r .git {place}/private/1 && echo evil > {place}/private/1/config"
    )
    done = as_sandbox(prepared, mounted, "sh", "-c", forge)

    taken = {change.path for change in worktree.snapshot().changes}
    said = undo(tmp_path / "state")

    assert done.returncode == 0, done.stderr
    assert not any(path.startswith(b"elsewhere") for path in taken)
    assert said == ()
    assert listing(mounted / ".git") == before
    assert not (mounted / "elsewhere").exists()


@root_only
def test_a_private_folder_that_is_gone_is_told_and_nothing_false_takes_its_place(mounted: Path, tmp_path: Path) -> None:
    """Where the true folder cannot be found, a forged one is not put at `.git`."""
    prepare(mounted, tmp_path / "state")
    place = private_place(mounted)
    place.rename(tmp_path / "stolen")
    (place / "private/1").mkdir(parents=True)
    (place / "private/1/config").write_text("evil\n")

    said = undo(tmp_path / "state")

    assert any(".git could not be put back: the private folder that held it is gone" in text for text in said)
    assert not (mounted / ".git/config").exists() or "evil" not in (mounted / ".git/config").read_text()


def test_a_mount_without_root_is_a_clear_error(mounted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one user for both sides nothing inside the workspace could be kept from the sandbox."""
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    before = listing(mounted)

    with pytest.raises(UserError, match="Mount the parent folder too"):
        prepare(mounted, tmp_path / "state")
    assert listing(mounted) == before


def test_undoing_what_was_never_started_is_no_error(tmp_path: Path) -> None:
    """The clean-up runs on every way out, also before anything was prepared."""
    assert undo(tmp_path) == ()
    (tmp_path / JOURNAL).write_bytes(b"")
    assert undo_acts(tmp_path / JOURNAL).sentences() == ()


def with_submodules(checkout: Path, place: Path) -> None:
    """Commit a submodule that holds a submodule of its own."""
    make_checkout(place / "inner", {"i": "i\n"})
    make_checkout(place / "outer", {"o": "o\n"})
    git(place / "outer", "submodule", "add", "-q", str(place / "inner"), "deep/inner")
    git(place / "outer", "commit", "-q", "-m", "outer")
    git(checkout, "submodule", "add", "-q", str(place / "outer"), "mods/outer")
    git(checkout, "commit", "-q", "-m", "submodules")
    git(checkout, "submodule", "update", "-q", "--init", "--recursive")


@root_only
@pytest.mark.parametrize("shape", ["folder", "worktree"])
def test_submodules_in_submodules_work_and_come_back_whole(checkout: Path, tmp_path: Path, shape: str) -> None:
    """In a checkout and in a linked worktree, whose submodules keep their git folders elsewhere (`.git` files all)."""
    with_submodules(checkout, tmp_path / "sources")
    work = checkout
    if shape == "worktree":
        work = tmp_path / "place/linked"
        git(checkout, "worktree", "add", "-q", "-b", "side", str(work))
        git(work, "submodule", "update", "-q", "--init", "--recursive")
    places = [work, work / "mods/outer", work / "mods/outer/deep/inner"]
    assert [(path / ".git").is_file() for path in places] == [shape == "worktree", True, True]
    before, around = listing(work), listing(checkout)

    prepared = prepare(work, tmp_path / "state")
    command = "git status --porcelain && git log --format=%s && echo x > new && git add new && git commit -q -m n"
    answers = [as_sandbox(prepared, path, "sh", "-c", command) for path in places]
    inside = [as_sandbox(prepared, path, "git", "rev-parse", "--absolute-git-dir").stdout.strip() for path in places]
    remotes = [as_sandbox(prepared, path, "git", "remote", "-v").stdout for path in places]
    for path in places:
        (path / "new").unlink()
    said = undo(tmp_path / "state")

    histories = ["submodules\nfirst\n", "outer\nfirst\n", "first\n"]
    assert [(a.returncode, a.stdout, a.stderr) for a in answers] == [(0, text, "") for text in histories]
    assert [Path(path).is_relative_to(work) for path in inside] == [True, True, True]
    assert remotes == ["", "", ""]
    assert said == ()
    assert (listing(work), listing(checkout)) == (before, around)
    assert [git(path, "status", "--porcelain") for path in places] == ["", "", ""]


@root_only
def test_a_sparse_checkout_stays_sparse(checkout: Path, tmp_path: Path) -> None:
    """`git sparse-checkout` keeps its settings in `config.worktree`; the sandbox's git must not see deletions."""
    git(checkout, "sparse-checkout", "set", "--no-cone", "/README.md")
    before = listing(checkout)

    prepared = prepare(checkout, tmp_path / "state")
    status = as_sandbox(prepared, checkout, "git", "status", "--porcelain")
    moved = as_sandbox(prepared, checkout, "sh", "-c", "git checkout -q -b other && git reset -q --hard && ls")
    undo(tmp_path / "state")

    assert (status.returncode, status.stdout) == (0, "")
    assert moved.stdout == "README.md\n"
    assert listing(checkout) == before
