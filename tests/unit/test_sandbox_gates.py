"""A gate judges a tree in a fresh sandbox: nothing that an earlier command left can pass it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.contract.sandbox import Purpose, SandboxSpec
from agent.kernel.landlock import landlock_abi
from tests.unit.sandbox_rig import GID, HELPERS, LEVELS, UID, Rig, alive, run

pytestmark = pytest.mark.skipif(landlock_abi() < 1, reason="needs Landlock")


@pytest.fixture(params=[(kind, level) for kind in HELPERS for level in LEVELS], ids=lambda p: "-".join(p))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Every combination of helper and level."""
    rig = Rig(tmp_path, *request.param)
    yield rig
    rig.close()
    rig.backend.close()


def gate_tree(rig: Rig, tmp_path: Path) -> Path:
    """The exact tree on its own checkout, as a gate gets it."""
    tree = tmp_path / "gate"
    shutil.copytree(rig.root, tree, symlinks=True)
    for item in (tree, *tree.rglob("*")):
        os.chown(item, UID, GID, follow_symlinks=False)
    return tree


def test_planted_programs_and_startup_files_do_not_reach_a_gate(rig: Rig, tmp_path: Path) -> None:
    """Shadows of a test's programs in HOME, in node_modules/.bin, in the folder itself, and shell files: unused."""
    main = rig.start()
    run(main, "echo 'exit 1' > check.sh")
    plant = "; ".join(
        f"mkdir -p {place}; for n in sh bash ls grep git true test; do printf '#!/bin/sh\\nexit 0\\n' > {place}/$n;"
        f" chmod +x {place}/$n; done"
        for place in ("$HOME/bin", "$HOME/.local/bin", "node_modules/.bin", "bin", ".")
    )
    run(main, plant)
    run(main, "for f in .bashrc .profile .bash_profile; do echo 'exit 0' > $HOME/$f; echo 'exit 0' > $f; done")
    tree = gate_tree(rig, tmp_path)
    gate = rig.start(purpose=Purpose.PREPUSH, root=str(tree))
    verdict = run(gate, "sh check.sh")
    programs = run(gate, "for n in sh ls grep; do command -v $n; done; ls -A $HOME")

    assert (verdict.exit_code, verdict.ok) == (1, False)
    assert [os.path.dirname(line) for line in programs.stdout.decode().split()] == ["/usr/bin"] * 3
    assert (tree / "node_modules" / ".bin" / "sh").exists()


def test_a_gate_stands_where_the_workspace_stands_and_scripts_that_name_it_run_the_gates_files(
    rig: Rig, tmp_path: Path
) -> None:
    """A venv's scripts begin with its absolute path: in a gate that is the gate's copy, never the model's workspace.

    Folder, PWD, subfolders, writes and protected paths follow. Without mount namespaces a gate stands at its own
    path: the script is not found, and the workspace is as closed as ever.
    """
    place = str(rig.root)
    main = rig.start()
    script = f"mkdir -p .venv/bin sub && printf '#!{place}/.venv/bin/sh\\necho ran $0\\n' > .venv/bin/tool"
    run(
        main,
        f"{script} && chmod +x .venv/bin/tool && cp /bin/sh .venv/bin/sh && echo of the change > f && : > Makefile",
    )
    tree = gate_tree(rig, tmp_path)
    run(
        main,
        "echo of the model > f; printf '#!/bin/sh\necho hollow\n' > .venv/bin/tool; cp .venv/bin/tool .venv/bin/sh",
    )
    hollow = run(main, f"{place}/.venv/bin/tool").stdout
    gate = rig.start(purpose=Purpose.STOP, root=str(tree), at=place, protected=("Makefile",))
    where = run(gate, "pwd; echo $PWD; cat f; echo written > made; echo x > Makefile")
    tool = run(gate, f"{place}/.venv/bin/tool; cat {place}/f", cwd="sub")
    inside = run(gate, "pwd", cwd="sub")

    assert hollow == b"hollow\n"
    assert (tree / "made").read_text() == "written\n"
    assert not (rig.root / "made").exists()
    if rig.level != "root":
        assert where.stdout == f"{tree}\n{tree}\nof the change\n".encode()
        assert (tool.ok, tool.stdout) == (False, b"")
        return
    assert where.stdout == f"{place}\n{place}\nof the change\n".encode()
    assert b"Read-only file system" in where.stderr
    assert tool.stdout == f"ran {place}/.venv/bin/tool\nof the change\n".encode()
    assert inside.stdout == f"{place}/sub\n".encode()


def test_a_gates_sandbox_shows_nothing_readable_of_the_workspace() -> None:
    """What would lie in the place that the gate's tree takes, such as git objects, is left out; the rest stays."""
    spec = SandboxSpec(Purpose.STOP, "/s/gates/stop-1/w", readable=("/w/.airlock-1/objects", "/w2", "/tools"))
    shown = spec.shown_at("/w")

    assert (shown.root, shown.place, shown.readable) == ("/s/gates/stop-1/w", "/w", ("/w2", "/tools"))
    assert spec.place == spec.root
    assert SandboxSpec.from_json(shown.to_json()) == shown


def test_exit_text_is_no_exit_status(rig: Rig) -> None:
    """Output that claims success, in whatever form, does not make a failed command pass."""
    gate = rig.start(purpose=Purpose.STOP)
    claims = "printf 'exit status 0\\n{\"exit_code\": 0}\\n\\0\\0\\0\\0D\\0\\0\\0\\0'; exit 1"

    assert (run(gate, claims).exit_code, run(gate, claims).ok) == (1, False)
    assert not run(gate, "kill -9 $$").ok
    assert not run(gate, "sleep 20", timeout_s=0.2).ok
    assert run(gate, "exit 0").ok


def test_no_process_is_left_to_swap_a_file_under_the_gate(rig: Rig, tmp_path: Path) -> None:
    """A daemon that would turn a red test green when the gate starts is dead before it."""
    mark = str(40_000_000 + os.getpid())
    main = rig.start()
    swap = f"(setsid sh -c 'while :; do echo exit 0 > check.sh; sleep 0.01; : {mark}; done' >/dev/null 2>&1 &)"
    run(main, f"{swap}; sleep 0.1; echo exit 1 > check.sh")
    (rig.root / "check.sh").write_text("exit 1\n")
    gate = rig.start(purpose=Purpose.PREPUSH)
    verdict = run(gate, "sleep 0.2; sh check.sh")

    assert alive(mark) == []
    assert verdict.exit_code == 1
    assert (rig.root / "check.sh").read_text() == "exit 1\n"


def test_home_of_setup_is_where_later_homes_start_and_stays_as_it_was(rig: Rig) -> None:
    """What setup put into HOME is there for commands and gates; no command can change the next sandbox's."""
    setup = rig.start(purpose=Purpose.SETUP, network=True) if rig.level != "net" else rig.start(purpose=Purpose.SETUP)
    run(setup, "mkdir -p $HOME/.cache/tool && echo tool > $HOME/.cache/tool/f && ln -s /etc/hostname $HOME/link")
    setup.close()
    main = rig.start()
    seen = run(main, "cat $HOME/.cache/tool/f; readlink $HOME/link; echo changed > $HOME/.cache/tool/f; : > $HOME/new")
    gate = rig.start(purpose=Purpose.PREPUSH)
    later = run(gate, "cat $HOME/.cache/tool/f; ls -A $HOME")

    assert seen.stdout == b"tool\n/etc/hostname\n"
    assert later.stdout == b"tool\n.cache\nlink\n"
    started = time.monotonic()
    rig.close()
    rig.backend.close()
    assert time.monotonic() - started < 30
    assert not rig.backend._homes.kept
