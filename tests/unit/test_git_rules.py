"""Rules on what a pushed commit may hold: paths, modes, submodules, sizes, secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.git.objects import Change, Entry
from agent.broker.git.protected import protected_targets
from agent.broker.git.rules import (
    Blob,
    TreeRules,
    check_changes,
    check_contents,
    check_text,
)
from agent.contract.errors import Refusal

SHA, OTHER = "a" * 40, "b" * 40
FILE, LINK, SUBMODULE = Entry("100644", SHA), Entry("120000", SHA), Entry("160000", SHA)
RULES = TreeRules(
    protected=(
        ".git",
        ".github",
        ".github/airlock.yml",
        "scripts/prepush.sh",
        "ci/**/gate.py",
        "lock?.json",
        "gen/*.lock",
    )
)


def added(path: bytes, entry: Entry = FILE) -> Change:
    return Change(path, None, entry)


def refusal(*changes: Change, rules: TreeRules = RULES, further: tuple[str, ...] = ()) -> str | None:
    """Code of the refusal, or None."""
    try:
        check_changes(changes, rules, further)
    except Refusal as exc:
        return exc.code
    return None


@pytest.mark.parametrize(
    "path",
    [
        b".github/workflows/ci.yml",
        b".GitHub/Workflows/x.yml",
        b".GITHUB/CODEOWNERS",
        ".g\u200dithub/x".encode(),
        "\uff0egithub/x".encode(),
        b".github./x",
        b".github /x",
        b".github",
        b"scripts/prepush.sh",
        b"scripts/PREPUSH.sh",
        b"scripts",
        b"Scripts",
        b"ci/gate.py",
        b"ci/a/b/gate.py",
        b"ci/a/b/gate.py/x",
        b"ci",
        b"lock1.json",
        b"gen/a.lock",
    ],
)
@pytest.mark.parametrize("how", ["added", "deleted", "changed", "link"])
def test_a_protected_path_is_refused_in_every_spelling_and_kind_of_change(path: bytes, how: str) -> None:
    """New, deleted, changed, or replaced by a link: a protected path and the folders above it stay."""
    changes = {
        "added": Change(path, None, FILE),
        "deleted": Change(path, FILE, None),
        "changed": Change(path, FILE, Entry("100755", OTHER)),
        "link": Change(path, None, LINK),
    }

    assert refusal(changes[how]) == "push_protected_path"


@pytest.mark.parametrize(
    "path",
    [b"src/app.py", b"github/x", b"scripts/other.sh", b"scripts/prepush.sh.md", b"ci/agate.py", b"lock.json",
     b"lock12.json", b"gen/sub/a.lock", b"docs/.github.md", b".gitignore", b".gitattributes"],
)  # fmt: skip
def test_an_ordinary_path_passes(path: bytes) -> None:
    """Positive control: neighbours of protected paths change freely."""
    assert refusal(added(path)) is None


def test_a_rename_out_of_a_protected_path_is_refused() -> None:
    """A rename is a deletion and an addition, and the deletion is refused."""
    assert refusal(Change(b"scripts/prepush.sh", FILE, None), added(b"scripts/old.sh")) == "push_protected_path"


def test_allowed_paths_open_what_configuration_names_and_never_git() -> None:
    """`allowProtectedPaths` lifts the refusal below exactly the named path; `.git` has no exception."""
    rules = TreeRules(protected=(".github",), allowed=(".github/ISSUE_TEMPLATE", ".git"))

    assert refusal(added(b".github/ISSUE_TEMPLATE/bug.md"), rules=rules) is None
    assert refusal(added(b".github/workflows/x.yml"), rules=rules) == "push_protected_path"
    assert refusal(added(b".git/config"), rules=rules) == "push_path_refused"


def test_the_defaults_protect_even_where_configuration_lists_other_paths() -> None:
    """`.github` is protected although `protectedPaths` names something else."""
    assert refusal(added(b".github/x"), rules=TreeRules(protected=("secret.txt",))) == "push_protected_path"
    assert refusal(added(b"a/x"), rules=TreeRules(protected=("", "/", "."))) is None


@pytest.mark.parametrize(
    "path",
    [b".git/config", b"a/.git/config", b"a/.GIT/hooks/x", b"git~1/config", b"GIT~1/x", ".g\u200cit/x".encode(),
     b".git./x", b".git /x", b".git::$INDEX_ALLOCATION/x", b"a/../b", b"./a", b"a//b", b"/a", b"a/", b"a\0b"],
)  # fmt: skip
def test_a_name_that_passes_for_git_or_leaves_the_repository_is_refused(path: bytes) -> None:
    """No component is, or on some file system becomes, `.git`, and none is empty or dots."""
    assert refusal(added(path)) == "push_path_refused"


@pytest.mark.parametrize("mode", ["040000", "100664", "000000", "777777"])
def test_an_unknown_mode_is_refused(mode: str) -> None:
    """Files, executables and links are all that is pushed."""
    assert refusal(added(b"a", Entry(mode, SHA))) == "push_path_refused"
    assert refusal(added(b"a", Entry("100755", SHA)), added(b"b", LINK)) is None


@pytest.mark.parametrize(
    "change",
    [
        Change(b"mods/sub", None, SUBMODULE),
        Change(b"mods/sub", SUBMODULE, None),
        Change(b"mods/sub", SUBMODULE, Entry("160000", OTHER)),
        Change(b"mods/sub", SUBMODULE, FILE),
        Change(b"mods/sub", FILE, SUBMODULE),
        Change(b".gitmodules", None, FILE),
        Change(b"a/.GitModules", FILE, Entry("100644", OTHER)),
    ],
)
def test_submodules_stay_as_they_are(change: Change) -> None:
    """Adding, moving, removing or replacing a submodule is refused, and so is .gitmodules."""
    assert refusal(change) == "push_submodule_refused"


def test_the_number_of_changes_is_capped() -> None:
    """One more file than allowed is refused."""
    changes = [added(f"f{i}".encode()) for i in range(4)]

    assert refusal(*changes, rules=TreeRules(max_files=3)) == "push_too_large"
    assert refusal(*changes[:3], rules=TreeRules(max_files=3)) is None


def holds(data: bytes) -> bool:
    return b"hunter2-hunter2" in data


@pytest.mark.parametrize(
    ("path", "data", "named"),
    [
        (b"notes.txt", b"pw=hunter2-hunter2\n", "notes.txt holds a secret"),
        (b"link", b"/tmp/hunter2-hunter2", "link holds a secret"),
        (b"a/hunter2-hunter2.txt", b"", "name of a changed file"),
    ],
)
def test_a_known_secret_is_refused_by_path_and_never_by_value(path: bytes, data: bytes, named: str) -> None:
    """The refusal names the file, and its text never holds the value."""
    with pytest.raises(Refusal) as caught:
        check_contents([Blob(b"ok", b"fine"), Blob(path, data)], TreeRules(), holds)

    assert caught.value.code == "push_holds_secret"
    assert named in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(Blob(path, data)).replace(repr(path), "")
    check_contents([Blob(b"ok", b"fine")], TreeRules(), holds)


def test_a_message_that_holds_a_secret_is_refused_without_repeating_it() -> None:
    """Commit messages and branch names are looked at too."""
    with pytest.raises(Refusal) as caught:
        check_text("use hunter2-hunter2", "commit message", holds)

    assert "hunter2" not in str(caught.value)
    check_text("use nothing", "commit message", holds)


def test_sizes_are_capped_by_file_and_in_sum() -> None:
    """A file over the cap, and files that together are over the cap, are refused."""
    rules = TreeRules(max_file_bytes=10, max_total_bytes=15)
    for blobs in ([Blob(b"a", b"x" * 11)], [Blob(b"a", b"x" * 8), Blob(b"b", b"x" * 8)]):
        with pytest.raises(Refusal, match="too large"):
            check_contents(blobs, rules, holds)
    check_contents([Blob(b"a", b"x" * 10), Blob(b"b", b"x" * 5)], rules, holds)


def links(**targets: bytes) -> tuple[dict[bytes, Entry], dict[str, bytes]]:
    """A tree of links `a__b` (for `a/b`) to targets, and what each blob holds."""
    entries, data = {}, {}
    for number, (name, target) in enumerate(targets.items()):
        sha = f"{number:040x}"
        entries[name.replace("__", "/").encode()] = Entry("120000", sha)
        data[sha] = target
    return entries, data


@pytest.mark.parametrize(
    ("tree", "protected", "expected"),
    [
        ({"scripts__prepush": b"../tools/gate"}, "scripts/prepush", ("tools/gate",)),
        ({"scripts": b"tools"}, "scripts/prepush", ("tools/prepush",)),
        ({"a": b"b", "b": b"c"}, "a", ("b", "c")),
        ({"a": b"./x//y"}, "a", ("x/y",)),
        ({"a": b"/etc/passwd"}, "a", ()),
        ({"a": b"../../etc"}, "a", ()),
        ({"a": b"."}, "a", ()),
        ({}, "a/b", ()),
    ],
)
def test_a_protected_link_protects_what_it_leads_to(
    tree: dict[str, bytes], protected: str, expected: tuple[str, ...]
) -> None:
    """Links of the base tree are followed inside the repository, and nowhere else."""
    entries, data = links(**tree)

    found = protected_targets([protected], entries, lambda entry: data[entry.sha])

    assert found == expected
    for path in found:
        assert refusal(added(path.encode()), further=found) == "push_protected_path"


def test_links_in_a_circle_end() -> None:
    """A circle of links is followed as often as the kernel would, then no further."""
    entries, data = links(a=b"b", b=b"a")

    assert set(protected_targets(["a"], entries, lambda entry: data[entry.sha])) == {"a", "b"}


NAMES = st.lists(st.sampled_from(["a", "B", "é", ".x", "scripts", "x.sh"]), min_size=1, max_size=4)


@given(names=NAMES, below=NAMES, mixed=st.lists(st.booleans(), min_size=64, max_size=64))
def test_whatever_lies_below_a_protected_path_is_refused_in_any_case(
    names: list[str], below: list[str], mixed: list[bool]
) -> None:
    """For any protected path, anything at, below or in place of it is refused, whatever the case."""
    protected = "/".join(names)
    rules = TreeRules(protected=(protected,))
    for path in (protected, "/".join(names + below), *("/".join(names[:n]) for n in range(1, len(names)))):
        spelled = "".join(c.upper() if up else c for c, up in zip(path, mixed, strict=False))
        assert refusal(added(spelled.encode()), rules=rules) == "push_protected_path"


@given(pattern=st.text(alphabet="ab*?", max_size=6), name=st.text(alphabet="ab", min_size=1, max_size=6))
def test_patterns_match_as_the_shell_does(pattern: str, name: str) -> None:
    """Within one component `*` and `?` mean what they mean to fnmatch."""
    import fnmatch

    expected = fnmatch.fnmatchcase(name, pattern) and bool(pattern) and pattern != "**"
    if pattern == "**":
        return
    rules = TreeRules(protected=(pattern,))

    assert (refusal(added(name.encode()), rules=rules) is not None) == expected


def test_a_pattern_full_of_stars_takes_no_time() -> None:
    """Matching is linear in pattern times name; a backtracking one would not end."""
    rules = TreeRules(protected=("*a" * 200 + "b", "**/" * 50 + "z"))

    assert refusal(added(b"a" * 2000), rules=rules) is None
    assert refusal(added(b"/".join([b"a"] * 500)), rules=rules) is None
