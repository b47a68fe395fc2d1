"""From a sandbox's spec and facts about the machine to the whole confinement, as one value. Pure.

House rules: what is not in the plan does not exist for a command; the writable paths are the root, a fresh
HOME and a fresh TMPDIR, nothing else; the uid is never 0; unix sockets are opened up only where a command
can name no socket of ours (own mount namespace, and abstract names closed by an own network or by scope).

A plan lists *levels*, strongest first; the helper takes the first that the machine lets it make:
`root` (own root folder, processes, network), `net` (own network alone), `bare` (Landlock and seccomp
alone). The suffix `-none` or `-open` says whether the command may reach a network.
"""

from __future__ import annotations

from agent.contract.dataclass import dataclass, replace
from agent.contract.sandbox import SandboxSpec
from agent.kernel import landlock, seccomp
from agent.kernel.landlock import FileRule
from agent.kernel.seccomp import Family
from agent.sandbox.env import command_env

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/nix/store",
)  # and of /opt what root owns
SYSTEM_READ = ("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_FD_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))

RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_NOFILE = 1, 2, 4, 6, 7
OPEN_FILES = 65_536
# Memory: RLIMIT_AS would break what reserves address space it never touches (node, java, go); RLIMIT_DATA counts
# what is writable and private, per process. Their sum is the helper's watch, ten times a second; a cgroup would
# be exact, and is writable almost nowhere that this backend runs. Processes: RLIMIT_NPROC counts all of the uid,
# so what it runs already is added, and the helper counts the command's own.
DISK_RESERVE = 256 << 20  # bytes left free on each writable disk, or a twentieth of it where that is less
GROWTH_FILES = 4  # one command may fill the disk by this many files of the largest size

LEVEL_WORDS = {
    "root": "own root folder, process, network and ipc namespaces",
    "net": "own network namespace",
    "bare": "Landlock and seccomp alone",
    "init": "a container",
}


@dataclass(frozen=True)
class Machine:
    """Facts about where the sandbox will run.

    Attributes:
        processor: `x86_64` or `aarch64`.
        abi: Landlock's version, at least 1.
        uid, gid: whom commands run as, never 0.
        user: their login name.
        named: the uid has an entry in `/etc/passwd`; else level `root` shows one with an entry added.
        user_tasks: tasks this uid runs now; the kernel's process limit counts them too.
        system: folders of `SYSTEM` that exist, each with the target where it is a symbolic link.
        bash: bash exists.
        name_service: the file behind `/etc/resolv.conf` where that is a link out of `/etc`.
    """

    processor: str
    abi: int
    uid: int
    gid: int
    user: str
    user_tasks: int
    system: tuple[tuple[str, str | None], ...]
    bash: bool
    named: bool = True
    name_service: str | None = None


@dataclass(frozen=True)
class Folders:
    """Fresh paths of one sandbox: HOME, TMPDIR, an empty folder to build the new root on, a file of users."""

    home: str
    tmp: str
    stage: str
    passwd: str


@dataclass(frozen=True)
class Mount:
    """One entry of the new root: kind `ro rw dev link dir tmpfs proc devpts`, source (or options), place."""

    kind: str
    source: str
    target: str


@dataclass(frozen=True)
class Level:
    """One form of confinement and the seccomp filter that goes with it."""

    name: str
    filter: bytes


@dataclass(frozen=True)
class Plan:
    """All that a helper needs to confine commands. Compared whole by tests.

    Attributes:
        root, at: the writable root, and its place in level `root`, which alone can show it elsewhere.
    """

    root: str
    at: str
    stage: str
    tmp: str
    uid: int
    gid: int
    levels: tuple[Level, ...]
    mounts: tuple[Mount, ...]
    rules: tuple[FileRule, ...]
    root_rules: tuple[FileRule, ...]
    env: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    limits: tuple[tuple[int, int], ...]
    memory: int
    pids: int
    reserve: int
    growth: int
    dropped_env: tuple[tuple[str, str], ...] = ()


def plan_for(spec: SandboxSpec, machine: Machine, folders: Folders, covers: tuple[Mount, ...] = ()) -> Plan:
    """Decide everything about a sandbox.

    Args:
        covers: mounts inside the writable root that keep protected paths as they are (`sandbox.covers`).

    Raises:
        ValueError: uid or gid is 0, or a path is not absolute: a caller's bug, caught before any process.
    """
    if machine.uid <= 0 or machine.gid <= 0:
        raise ValueError("commands never run as root")
    for path in (spec.root, spec.place, *spec.read_only, folders.home, folders.tmp, folders.stage):
        if not path.startswith("/") or "\0" in path or path == "/":
            raise ValueError(f"not an absolute path of a folder: {path!r}")
    shell = "/bin/bash" if machine.bash else "/bin/sh"
    # Neither profile nor rc file of a workspace or HOME is read; BASH_ENV and ENV do not exist.
    argv = (shell, "--noprofile", "--norc", "-c") if machine.bash else (shell, "-c")
    env, dropped = command_env(
        home=folders.home,
        tmp=folders.tmp,
        shell=shell,
        user=machine.user,
        extra_path=tuple(p for p in spec.read_only if p.endswith("/bin")),
        additions=spec.env,
    )
    memory, largest = spec.memory_mb << 20, spec.file_mb << 20
    return Plan(
        root=spec.root,
        at=spec.place,
        stage=folders.stage,
        tmp=folders.tmp,
        uid=machine.uid,
        gid=machine.gid,
        levels=_levels(machine, network=spec.network),
        mounts=_mounts(spec, machine, folders, memory, covers),
        rules=_rules(spec, machine, folders),
        root_rules=(
            *(landlock.rules_for(execute=(spec.at,), write=(spec.at,)) if spec.at else ()),
            FileRule("/etc/passwd", landlock.READ_FILE),
            FileRule("/dev/shm", landlock.WRITE),  # noqa: S108 - a fresh one of this sandbox
            FileRule("/dev/pts", landlock.DEVICE | landlock.READ_DIR),
        ),
        env=tuple(env.items()),
        argv=argv,
        limits=(
            (RLIMIT_CORE, 0),
            (RLIMIT_FSIZE, largest),
            (RLIMIT_DATA, memory),
            (RLIMIT_NOFILE, OPEN_FILES),
            (RLIMIT_NPROC, machine.user_tasks + spec.pids),
        ),
        memory=memory,
        pids=spec.pids,
        reserve=DISK_RESERVE,
        growth=GROWTH_FILES * largest,
        dropped_env=tuple(dropped.items()),
    )


def container_plan_for(spec: SandboxSpec, machine: Machine, folders: Folders) -> Plan:
    """The plan for a helper that an engine started as PID 1: the engine made the namespaces, limits and mounts.

    The image's own files may all be read and run; `machine.bash` says what the image has. Limits that count
    across the host's processes of this uid are left to the engine.
    """
    spec = replace(spec, root=spec.place, at="")  # the engine's mount is there
    plan = plan_for(spec, machine, folders)
    name = "init-open" if spec.network else "init-none"
    own = (Family.UNIX, Family.INET, Family.INET6, Family.NETLINK_ROUTE)  # no path leads to a socket of the host
    program = seccomp.build(families=own, shared_ipc=True, processor=machine.processor)
    writable = (spec.root, folders.home, folders.tmp)
    rules = landlock.rules_for(execute=("/", *writable), write=(*writable, "/dev/shm"))  # noqa: S108
    return replace(
        plan,
        levels=(Level(name, program),),
        mounts=(),
        rules=rules + tuple(FileRule(path, landlock.DEVICE) for path in (*DEVICES, "/dev/pts")),
        root_rules=(),
        limits=tuple(limit for limit in plan.limits if limit[0] not in (RLIMIT_NPROC, RLIMIT_DATA)),
    )


def families(level: str, *, abi: int) -> tuple[Family, ...]:
    """Socket families that commands of a level may create."""
    form, network = level.split("-")
    if form == "bare" and network == "none":
        return ()
    abstract_closed = network == "none" or abi >= 6
    unix = (Family.UNIX,) if form == "root" and abstract_closed else ()
    return (*unix, Family.INET, Family.INET6, Family.NETLINK_ROUTE)


def _levels(machine: Machine, *, network: bool) -> tuple[Level, ...]:
    names = ("root-open", "bare-open") if network else ("root-none", "net-none", "bare-none")
    return tuple(
        Level(
            name,
            seccomp.build(
                families=families(name, abi=machine.abi),
                shared_ipc=name.startswith("root"),  # only there the objects are this sandbox's own
                processor=machine.processor,
            ),
        )
        for name in names
    )


def _rules(spec: SandboxSpec, machine: Machine, folders: Folders) -> tuple[FileRule, ...]:
    writable = (spec.root, folders.home, folders.tmp)
    read = ["/proc", *SYSTEM_READ]
    if spec.network and machine.name_service:
        read.append(machine.name_service)
    system = [path for path, link in machine.system if link is None]
    rules = landlock.rules_for(read=read, write=writable, execute=(*system, *spec.read_only, *writable))
    return rules + tuple(FileRule(path, landlock.DEVICE) for path in DEVICES)


def _mounts(
    spec: SandboxSpec, machine: Machine, folders: Folders, memory: int, covers: tuple[Mount, ...]
) -> tuple[Mount, ...]:
    mounts = [Mount("ro" if link is None else "link", link or path, path) for path, link in machine.system]
    mounts += [Mount("ro", path, path) for path in (*SYSTEM_READ, *spec.read_only)]
    if not machine.named:
        mounts.append(Mount("ro", folders.passwd, "/etc/passwd"))
    if spec.network and machine.name_service:
        mounts.append(Mount("ro", machine.name_service, machine.name_service))
    mounts.append(Mount("proc", "", "/proc"))
    mounts.append(Mount("tmpfs", "mode=755,size=1m", "/dev"))
    mounts += [Mount("dev", path, path) for path in DEVICES]
    mounts += [Mount("link", target, f"/dev/{name}") for name, target in _FD_LINKS]
    mounts.append(Mount("tmpfs", f"mode=1777,size={memory // 4}", "/dev/shm"))  # noqa: S108
    mounts.append(Mount("devpts", "newinstance,ptmxmode=0666,mode=620", "/dev/pts"))
    mounts.append(Mount("link", "pts/ptmx", "/dev/ptmx"))
    mounts.append(Mount("rw", folders.tmp, "/tmp"))  # noqa: S108 - programs that do not know TMPDIR
    mounts += [Mount("rw", path, path) for path in (folders.home, folders.tmp)]
    mounts.append(Mount("rw", spec.root, spec.place))
    mounts += covers
    # Parents before children: the workspace may lie below /tmp, a tool cache below the workspace's parent.
    return tuple(sorted(mounts, key=lambda m: m.target.count("/")))
