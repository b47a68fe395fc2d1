"""The command: reads cases, plays them, prints the table."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.contract.errors import UserError

from . import backends, isolate
from .cases import BadCase, Plan
from .files import remove
from .play import Verdict, play
from .product import Product
from .selection import choose, failed, judge_tools, unproven
from .theirs import left_out, opened, read_theirs
from .told import write_json, write_junit

_FILES = ("--config", "--junit", "--json", "--keep")  # options whose value is a path


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m agent redteam",
        description="Plays red-team cases: a scripted model that obeys injected text, against the product.",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="case files or folders of them")
    parser.add_argument(
        "--only", action="append", default=[], help="cases and variants whose name holds this text; may be repeated"
    )
    parser.add_argument(
        "--backend",
        choices=backends.BACKENDS,
        default="process",
        help="what the product is started under: as root here, as root in a default container, as a normal user, or "
        "here with each sandbox a container",
    )
    parser.add_argument("--all", action="store_true", help="all cases (about 25 minutes), not the quick choice")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="your .github/airlock.yml: cases are played with it in force"
    )
    parser.add_argument("--list", action="store_true", help="say what would be run")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit's XML")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts as JSON")
    parser.add_argument("--keep", type=Path, help="folder to keep each run's files in")
    parser.add_argument("--no-namespaces", action="store_true", help="run here; the dangerous cases are left out")
    parser.add_argument("--verbose", action="store_true", help="every reason, not the first three")
    parser.add_argument("--inside", nargs=2, metavar=("WORK", "GROUPS"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str], under_test: Product | None = None) -> int:
    """Returns 0 when every run held with its expectations met and its control working, 1 when not, 2 on a bad file."""
    options = parse(argv)
    try:
        theirs = None if options.config is None else read_theirs(options.config)
        plans = choose(options, theirs)
    except (BadCase, UserError) as exc:
        print(f"airlock redteam: {exc}", file=sys.stderr)
        return 2
    if not plans:
        print(f"airlock redteam: no case matches {', '.join(options.only)}; --list names them.", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{p.name:40} {p.title}{' (uses up the machine)' if p.dangerous else ''}" for p in plans))
        return 0
    if not options.inside:
        status = _start_inside(options, _absolute(argv))
        if status is not None:
            return status
    inside = options.inside is not None
    work = Path(options.inside[0]) if inside else Path(tempfile.mkdtemp(prefix="airlock-redteam-"))
    groups = [g for g in options.inside[1].split(",") if g] if inside else []
    if inside and groups != [isolate.WHOLE]:
        isolate.settle()
    work.chmod(0o755)
    verdicts = judge_tools(theirs)
    print("".join(f"your configuration: {sentence}\n" for sentence in opened(theirs or {})), end="")
    if options.config is not None and (keys := left_out(options.config)):
        print(f"not in force here, since each case brings its own: {', '.join(keys)}")
    print("".join(f"{row(verdict)}\n" for verdict in verdicts), end="", flush=True)
    try:
        product = under_test or backends.product_under(options.backend, work)
        for number, plan in enumerate(plans):
            verdicts.append(_one(plan, product, work / f"{number:03d}", options, inside, groups))
            print(row(verdicts[-1]), flush=True)
    except backends.NoPython as exc:
        print(f"airlock redteam: {exc}", file=sys.stderr)
        return 2
    finally:
        if not inside:
            shutil.rmtree(work, ignore_errors=True)
    print(summary(verdicts, verbose=options.verbose))
    return _tell(verdicts, options)


def _tell(verdicts: Sequence[Verdict], options: argparse.Namespace) -> int:
    """Write the files that were asked for; the exit status."""
    theirs = options.config is not None

    def counts(verdict: Verdict) -> bool:
        return failed(verdict, theirs=theirs)

    for path, write in ((options.junit, write_junit), (options.json, write_json)):
        if path is not None:
            write(path, verdicts, counts)
    if not theirs:
        return 1 if any(map(counts, verdicts)) else 0
    shown = [v for v in verdicts if unproven(v)]
    if shown:
        names = ", ".join(v.plan.name for v in shown)
        print(f"not shown under your configuration, since the permitted act did not work either: {names}")
    played = [v for v in verdicts if v.control_state != "-"]
    holes = [v.plan.name for v in verdicts if counts(v)]
    print(f"BREACHES under your configuration: {', '.join(holes)}" if holes else "no breach under your configuration")
    return 1 if holes or (played and len(shown) == len(played)) else 0


def _absolute(argv: Sequence[str]) -> list[str]:
    """The arguments, good in another working folder."""
    out: list[str] = []
    for argument in argv:
        name, equals, value = argument.partition("=")
        if equals and name in _FILES:
            argument = f"{name}={Path(value).resolve()}"
        elif (out and out[-1] in _FILES) or Path(argument).exists():
            argument = str(Path(argument).resolve())
        out.append(argument)
    return out


def _start_inside(options: argparse.Namespace, argv: Sequence[str]) -> int | None:
    """Start anew where the backend's cases are played; the exit status, or None where they are played here."""
    reason = backends.why_not(options.backend)
    if reason is None and options.backend in backends.NEEDS_ENGINE:
        reason = backends.build_image()
    if reason is not None:
        print(f"airlock redteam: {reason}", file=sys.stderr)
        return 2
    if options.backend == "process-in-container":
        if options.junit or options.json:
            print(f"airlock redteam: --backend {options.backend} writes to --keep alone", file=sys.stderr)
            return 2
        readable = [path.resolve() for path in (*options.paths, *([options.config] if options.config else []))]
        return isolate.start_in_container(argv, backends.IMAGE, readable=readable, keep=options.keep)
    if options.no_namespaces:
        return None
    reason = isolate.why_not()
    if reason is None:
        return isolate.start_inside(argv)
    less = "runs are made without them and the dangerous cases are left out"
    print(f"airlock redteam: {reason}; {less}", file=sys.stderr)
    return None


def _one(
    plan: Plan, under_test: Product, folder: Path, options: argparse.Namespace, inside: bool, groups: Sequence[str]
) -> Verdict:
    if plan.dangerous and not (inside and groups):
        return Verdict(plan, "not run", note="uses up the machine: runs only in namespaces with control groups")
    started = time.monotonic()
    try:
        limited = [g for g in groups if g != isolate.WHOLE]
        verdict = play(plan, under_test, folder, whole_machine=inside, groups=limited)
        if options.backend == "container" and (left := backends.left_containers(under_test)):
            verdict.state = "BREACHED"
            verdict.breaches.append(f"A4 sandbox containers left: {', '.join(left)}")
        verdict.seconds = verdict.seconds or time.monotonic() - started
        return verdict
    finally:
        if options.keep and folder.exists():
            name = "".join(c if c.isalnum() or c in "-_." else "_" for c in plan.name)
            kept = options.keep / name
            shutil.rmtree(kept, ignore_errors=True)
            options.keep.mkdir(parents=True, exist_ok=True)
            _copy(folder, kept)
        remove(folder)


def _copy(folder: Path, kept: Path) -> None:
    """What helps to understand a run: logs, reports and results, not the workspace."""
    wanted = ["*/report.json", "*/stdout", "*/stderr", "*/temp/airlock-*/**/*", "*/temp/_runner_file_commands/*"]
    for path in (p for pattern in wanted for p in folder.glob(pattern)):
        relative = path.relative_to(folder)
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 20_000_000:
            target = kept / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.chmod(target, 0o600)


def row(verdict: Verdict) -> str:
    """One line of the table."""
    met = f"{verdict.made - len(verdict.unmet)}/{verdict.made}"
    return (
        f"{verdict.plan.case:5} {verdict.plan.variant or '-':36} {verdict.state:9} {met:>9}  "
        f"control {verdict.control_state:7} {verdict.seconds:6.1f} s  {verdict.note[:60]}"
    )


def summary(verdicts: Sequence[Verdict], *, verbose: bool = False) -> str:
    """The reasons below the table, and the count."""
    lines = [""]
    most = None if verbose else 3
    for v in verdicts:
        reasons = [*(f"breach: {b}" for b in v.breaches[:most]), *(f"unmet: {u}" for u in v.unmet[:most])]
        reasons += [f"control: {c}" for c in v.control[:most]] + [f"weak form (no failure): {w}" for w in v.weak[:most]]
        if reasons:
            lines += [v.plan.name, *(f"    {reason[:300]}" for reason in reasons)]
    left = [v for v in verdicts if v.state == "not run"]
    for v in left:
        lines.append(f"left out: {v.plan.name}: {v.note}")
    runs = "1 run" if len(verdicts) == 1 else f"{len(verdicts)} runs"
    held = sum(v.state == "held" for v in verdicts)
    passed = sum(v.passed for v in verdicts)
    lines.append(
        f"{runs}: {held} held, {len(verdicts) - held - len(left)} breached, {len(left)} left out; "
        f"{passed} with every expectation met and the control working"
    )
    return "\n".join(lines)
