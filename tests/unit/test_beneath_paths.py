"""The first of the two path checks: repository-relative form, git folders, protected paths. Pure (B7)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.paths import has_git_name, is_git_name, protected_by, repository_relative


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b", "a/b"),
        ("./a//b/.", "a/b"),
        ("a/../b", "b"),
        (".", ""),
        ("/ws", ""),
        ("/ws/", ""),
        ("/ws/a", "a"),
        ("/ws/../ws", None),
        ("/wsx/a", None),
        ("/", None),
        ("..", None),
        ("a/../../ws/b", None),
        ("....//x", "..../x"),
        ("~/x", "~/x"),
        ("..hidden..name", "..hidden..name"),
        ("a\\..\\b", "a\\..\\b"),
    ],
)
def test_the_repository_relative_form(path: str, expected: str | None) -> None:
    """Dots are resolved as text; what leaves the root by its spelling is refused."""
    if expected is None:
        with pytest.raises(Refusal) as caught:
            repository_relative(path, "/ws")
        assert caught.value.code == "path_outside"
    else:
        assert repository_relative(path, "/ws") == expected


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(["..", ".", "", "a", "ws", "b c", "…", "~"]), max_size=10).map("/".join)
    | st.text(max_size=20)
)
def test_no_form_leaves_the_root(path: str) -> None:
    """Whatever passes holds no dots, no empty name and no NUL, and passing it again changes nothing."""
    try:
        rel = repository_relative(path, "/ws")
    except (Refusal, ToolInputError):
        return
    assert "\0" not in rel
    assert not rel.startswith("/")
    assert rel == "" or {"", ".", ".."}.isdisjoint(rel.split("/"))
    if rel:
        assert repository_relative(rel, "/ws") == rel


@pytest.mark.parametrize(
    "name",
    [".git", ".GIT", ".Git.", ".git ", ".git. .", "git~1", "GIT~27", "gi7eba~1", ".git::$INDEX_ALLOCATION", ".git:x",
     ".g\u200cit", "\ufeff.git", ".gi\u00adt", ".ｇｉｔ", "．git", "a\\.git"],
)  # fmt: skip
def test_names_that_some_file_system_takes_for_git(name: str) -> None:
    """Any case, width, invisible character, trailing dot, stream or short name."""
    assert is_git_name(name)
    assert has_git_name(f"a/{name}/b")
    assert protected_by(f"deep/{name}/config", ()) == ".git"


@pytest.mark.parametrize(
    "name", [".gitignore", ".github", ".gitattributes", "git", "digit~1", "x.git", ".git-blame", "gi~1"]
)
def test_names_that_are_not_git(name: str) -> None:
    """What only resembles it is an ordinary name."""
    assert not is_git_name(name)


def test_protected_paths_cover_what_is_below_and_any_case() -> None:
    """Folders, files, patterns; an allowed entry takes back all but git folders."""
    protected = [".git", ".github", "scripts/gate.sh", "ci/*.yml", "**/secrets/**", "/docs/keep/"]
    expected = {
        ".github": ".github",
        ".GitHub/workflows/x.yml": ".github",
        ".github./x": ".github",
        "scripts/gate.sh": "scripts/gate.sh",
        "scripts/GATE.SH": "scripts/gate.sh",
        "scripts/other.sh": None,
        "scripts/gate.sh.bak": None,
        "ci/a.yml": "ci/*.yml",
        "ci/deep/a.yml": None,
        "a/secrets/b/c": "**/secrets/**",
        "docs/keep/x": "/docs/keep/",
        "docs/keeper": None,
        ".githubx": None,
        "src/.github/x": None,
        "x/.git/config": ".git",
    }
    assert {path: protected_by(path, protected) for path in expected} == expected
    assert protected_by(".github/workflows/x.yml", protected, allowed=[".github/workflows"]) is None
    assert protected_by(".github/CODEOWNERS", protected, allowed=[".github/workflows"]) == ".github"
    assert protected_by(".git/config", protected, allowed=[".git", "**"]) == ".git"
