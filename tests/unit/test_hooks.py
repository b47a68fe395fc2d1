"""Which files a hook's command names, and that they come from the trusted commit."""

from __future__ import annotations

import pytest

from agent.broker.hooks import hook_files, named_paths


class Files:
    """Stands for `TrustedFiles`; remembers what was asked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.asked.append(path)
        return self.files.get(path)


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("scripts/prepush.sh", ("scripts/prepush.sh",)),
        ("./gradlew check", ("gradlew", "check")),
        ("sh 'scripts/a.sh'&&bash \"b.sh\"|tee out;make", ("sh", "scripts/a.sh", "bash", "b.sh", "tee", "out", "make")),
        ("a.sh a.sh ./a.sh", ("a.sh",)),
        ("../out.sh /etc/passwd a/../b.sh a//b.sh ./ . - --flag $(x) `y` a*b {c}", ()),
        ("", ()),
    ],
)
def test_words_that_could_name_a_file(command: str, paths: tuple[str, ...]) -> None:
    """Words without `./` and quotes; nothing that leads out of the repository or that a shell would expand."""
    assert named_paths(command) == paths


def test_only_files_that_exist_at_the_trusted_commit_count() -> None:
    """A word that is a program or a folder names no file, and is not protected."""
    files = Files({"scripts/stop.sh": b"exit 0\n"})

    assert hook_files(files, "npm test ./scripts/stop.sh") == {"scripts/stop.sh": b"exit 0\n"}  # type: ignore[arg-type]
    assert files.asked == ["npm", "test", "scripts/stop.sh"]
