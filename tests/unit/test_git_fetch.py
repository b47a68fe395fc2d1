"""Fetching over smart HTTP, against the simulator's git host and against broken servers."""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.git.fetch import Fetcher
from agent.broker.git.journal import undo
from agent.broker.git.prepare import prepare
from agent.broker.git.protocol import PackAnswer, line, packets
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.workspace import open_shadow, open_worktree
from agent.contract.errors import UpstreamError
from tests.support.checkouts import git, shadow_of
from tests.support.github_sim import GitHubSim, Repository


@dataclass
class Host:
    """The simulator's git host with a pull request from a fork."""

    sim: GitHubSim
    repository: Repository
    base: str
    head: str

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Iterator[bytes]:
        """A plain transport, in small pieces."""
        url = urlsplit(self.sim.server_url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30)
        connection.request("POST", path, body, {**headers, "User-Agent": "test"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise UpstreamError("fetch", f"status {answer.status}", answer.status)
        while piece := answer.read(1013):
            yield piece
        connection.close()

    def fetcher(self, shadow: ShadowGit, **options: Any) -> Fetcher:
        return Fetcher(shadow, self.post, "acme/widgets", **options)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with GitHubSim(tmp_path / "sim") as sim:
        repository = sim.create_repository("acme/widgets", files={"a": "1\n", "big": "x\n" * 5000})
        base = repository.commit("main", {"b": "2\n"}, "Second")
        fork = sim.create_repository("outsider/widgets", fork_of="acme/widgets")
        head = fork.commit("topic", {"a": "fork\n", "big": "x\n" * 4999 + "y\n"}, "From the fork", base="main")
        repository.create_pull("topic", "main", number=9, head_repo="outsider/widgets")
        yield Host(sim, repository, base, head)


def test_a_forks_head_is_fetched_from_this_repository(host: Host, tmp_path: Path) -> None:
    """No branch `topic` exists in this repository, and no other repository is spoken to (F16)."""
    checkout = tmp_path / "work"
    host.repository.checkout(checkout, "main")
    shadow = shadow_of(checkout, tmp_path / "shadow")
    fetcher = host.fetcher(shadow)

    fetched = fetcher.fetch([host.head], [host.base])

    assert fetched == [host.head]
    assert shadow.commit_of(host.head).parents == (host.base,)
    assert "+fork" in shadow.diff(host.base, host.head)
    assert {r.path for r in host.sim.requests} == {"/acme/widgets.git/git-upload-pack"}
    assert [r.method for r in host.sim.requests] == ["POST"]
    sent = sum(int(r.header("Content-Length")) for r in host.sim.requests)
    assert sent < 1000
    assert fetcher.fetch([host.head]) == []


def test_depth_is_kept_and_the_shallow_list_follows(host: Host, tmp_path: Path) -> None:
    """One commit alone is fetched into an empty shadow, and then the rest of its history."""
    shadow = ShadowGit.create(tmp_path / "shadow")
    fetcher = host.fetcher(shadow)

    fetcher.fetch([host.base], depth=1)
    first = (shadow.shallow(), shadow.log(host.base, 9).count("\n"))
    fetcher.fetch([host.head], [host.base])

    assert first == ([host.base], 3)
    assert shadow.shallow() == [host.base]
    assert shadow.log(host.head, 9).count("\n") == 6
    assert shadow.read(shadow.entries(shadow.tree_of(host.head))[b"a"].sha) == b"fork\n"


@pytest.mark.parametrize("sha", ["", "main", "--upload-pack=evil", "A" * 40, "a" * 39, "a" * 40 + "\n"])
def test_only_full_ids_are_asked_for(host: Host, tmp_path: Path, sha: str) -> None:
    """A name or an option is refused before anything is sent."""
    with pytest.raises(UpstreamError, match="no commit id"):
        host.fetcher(ShadowGit.create(tmp_path / "shadow")).fetch([sha])
    assert host.sim.requests == []


def test_a_commit_that_the_server_lacks_is_told_in_its_words(host: Host, tmp_path: Path) -> None:
    """The server's own error reaches the caller."""
    with pytest.raises(UpstreamError, match=r"not our ref|status 5"):
        host.fetcher(ShadowGit.create(tmp_path / "shadow")).fetch(["a" * 40])


def packfile(data: bytes) -> bytes:
    pieces = [data[i : i + 60000] for i in range(0, len(data), 60000)]
    return line("packfile") + b"".join(b"%04x\1" % (len(p) + 5) + p for p in pieces) + b"0000"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "no pack"),
        (b"0000", "no pack"),
        (b"<html>", "not git's protocol"),
        (b"00", "cut off"),
        (b"zzzz", "not git's protocol"),
        (b"ffff" + b"x" * 70000, "cut off or not"),
        (line("packfile") + b"0010\1abc", "cut off"),
        (line("packfile"), "no pack, or is cut off"),
        (line("packfile") + b"0008\3no\n0000", "no"),
        (line("packfile") + b"0008\7no\n0000", "not git's protocol"),
        (b"000cERR gone", "gone"),
        (packfile(b"PACK\0\0\0\2\0\0\0\1garbage"), "index-pack"),
        (packfile(b""), "index-pack"),
    ],
)
def test_a_broken_answer_is_an_error_and_leaves_the_shadow_whole(tmp_path: Path, answer: bytes, text: str) -> None:
    """Whatever the server sends: a typed error, no object, no hang."""
    shadow = ShadowGit.create(tmp_path / "shadow")
    fetcher = Fetcher(shadow, lambda path, body, headers: [answer], "a/b")

    with pytest.raises(UpstreamError, match=text):
        fetcher.fetch(["a" * 40])
    assert list((tmp_path / "shadow/objects/pack").glob("pack-*")) == []


def test_a_pack_without_the_wanted_commit_is_an_error(host: Host, tmp_path: Path) -> None:
    """A server that sends something else is not believed."""
    checkout = tmp_path / "work"
    host.repository.checkout(checkout, "main")
    pack = subprocess.run(
        ["git", "-C", str(checkout), "-c", "safe.directory=*", "pack-objects", "--stdout", "--all", "-q"],
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    ).stdout
    fetcher = Fetcher(ShadowGit.create(tmp_path / "shadow"), lambda *_: [packfile(pack)], "a/b")

    with pytest.raises(UpstreamError, match="did not send"):
        fetcher.fetch(["a" * 40])


def test_a_pack_over_the_cap_is_refused(host: Host, tmp_path: Path) -> None:
    """git stops reading at the cap; the same pack below it goes in."""
    with pytest.raises(UpstreamError):
        host.fetcher(ShadowGit.create(tmp_path / "one"), pack_cap=300).fetch([host.base])
    assert host.fetcher(ShadowGit.create(tmp_path / "two"), pack_cap=1 << 20).fetch([host.base]) == [host.base]


def test_a_failing_transport_keeps_its_own_error(tmp_path: Path) -> None:
    """What the transport raises in the middle of a pack is what the caller sees."""

    def broken(path: str, body: bytes, headers: Mapping[str, str]) -> Iterable[bytes]:
        yield line("packfile") + b"0009\1PACK"
        raise UpstreamError("fetch", "connection lost", 502)

    with pytest.raises(UpstreamError, match="connection lost"):
        Fetcher(ShadowGit.create(tmp_path / "shadow"), broken, "a/b").fetch(["a" * 40])


@given(st.lists(st.binary(max_size=80), max_size=6))
def test_any_bytes_are_packets_or_a_typed_error(chunks: list[bytes]) -> None:
    """The parser never raises anything but its own error, and never gives more than it got."""
    for read in (packets, lambda c: PackAnswer(c).pack()):
        try:
            out = list(read(chunks))
        except UpstreamError:
            continue
        assert sum(len(x) for x in out if isinstance(x, bytes)) <= sum(map(len, chunks))


@given(st.binary(max_size=3000), st.integers(1, 50))
def test_a_pack_is_joined_whatever_the_pieces(data: bytes, size: int) -> None:
    """How the network cuts the answer does not matter."""
    whole = line("shallow-info") + line("shallow " + "b" * 40) + b"0001" + packfile(data)
    answer = PackAnswer(whole[i : i + size] for i in range(0, len(whole), size))

    assert b"".join(answer.pack()) == data
    assert answer.shallow == ["b" * 40]


def test_the_workspace_is_brought_from_the_merge_commit_to_the_pinned_head(host: Host, tmp_path: Path) -> None:
    """As on `pull_request`: HEAD is a merge commit, the run works on the head, in sandbox and shadow alike."""
    merge = host.repository.commit("merge", {"a": "merged\n", "only-merge": "m\n"}, "Merge", base="main")
    checkout = tmp_path / "place/work"
    git(tmp_path, "init", "-q", str(checkout))
    git(checkout, "fetch", "-q", "--depth", "1", str(host.repository.bare), "merge")
    git(checkout, "checkout", "-q", "--detach", merge)
    (checkout / "untracked").write_text("stays\n")
    prepared = prepare(checkout, tmp_path / "state")
    shadow = open_shadow(prepared, tmp_path / "state/shadow")
    host.fetcher(shadow).fetch([host.head], [merge])

    worktree = open_worktree(prepared, shadow, checkout, commit=host.head)
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    who: dict[str, Any] = {"user": prepared.uid, "group": prepared.gid} if os.geteuid() == 0 else {}
    answers = [
        subprocess.run(["git", *args], cwd=checkout, env=env, capture_output=True, text=True, check=False, **who)
        for args in (["status", "--porcelain"], ["rev-parse", "HEAD"], ["log", "-1", "--format=%s"], ["fsck"])
    ]

    assert sorted(os.listdir(checkout)) == [".git", "a", "b", "big", "untracked"]
    assert (checkout / "a").read_text() == "fork\n"
    assert worktree.head == worktree.start == host.head
    assert [c.path for c in worktree.snapshot().changes] == [b"untracked"]
    assert [a.stdout.strip() for a in answers[:3]] == ["?? untracked", host.head, "From the fork"]
    assert answers[3].returncode == 0, answers[3].stderr
    undo(tmp_path / "state")
    assert git(checkout, "rev-parse", "HEAD") == merge
