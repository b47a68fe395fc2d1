"""What this machine can do for a run: system, git, kernel, Docker, and each sandbox backend's probe, really run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agent.contract.errors import AirlockError
from agent.contract.sandbox import Purpose, SandboxSpec, unprivileged
from agent.doctor_finding import FAIL, OK, WARNING, Finding
from agent.kernel.landlock import landlock_abi, missing
from agent.kernel.prctl import libc
from agent.launch_place import ENGINE, Place, find_place
from agent.launch_sandboxes import Sandboxes
from agent.sandbox.engine import own_container

_NEWUSER, _NEWNET = 0x10000000, 0x40000000


def system(facts: dict[str, str]) -> Iterator[Finding]:
    """Operating system, Python, user, git.

    Args:
        facts: `RUNNER_*` of a job, to tell a hosted runner from another.
    """
    about = platform.uname()
    where = facts.get("RUNNER_ENVIRONMENT") or ("this machine" if not facts.get("RUNNER_NAME") else "a runner")
    if about.system != "Linux":
        yield Finding("system", FAIL, f"{about.system} {about.release}", "Use Linux: runs-on: ubuntu-latest.")
        return
    yield Finding("system", OK, f"Linux {about.release} on {about.machine}, {where}, {_container()}")
    version = platform.python_version()
    old = sys.version_info < (3, 11)
    yield Finding("python", FAIL if old else OK, version, "Install Python 3.11 or newer." if old else "")
    user = "root; commands run as another user" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    yield Finding("user", OK, user)
    git = shutil.which("git", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if git is None:
        yield Finding("git", FAIL, "not found on the system's PATH", "Install git (Debian: apt install git).")
        return
    said = subprocess.run([git, "--version"], env={}, capture_output=True, text=True, check=False).stdout.strip()
    yield Finding("git", OK, said)


def _container() -> str:
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return "in a container"
    return "in no container"


def kernel() -> Iterator[Finding]:
    """Landlock, seccomp, namespaces: asked of the kernel."""
    abi = landlock_abi()
    if abi < 1:
        yield Finding(
            "landlock",
            FAIL,
            "this kernel has none, so the harness cannot be confined to the workspace",
            "Use Linux 5.13 or newer with Landlock among /sys/kernel/security/lsm.",
        )
    else:
        lacks = missing(abi)
        yield Finding(
            "landlock",
            WARNING if lacks else OK,
            f"ABI {abi}" + (f"; {'; '.join(lacks)}" if lacks else ""),
            "A newer kernel closes this (6.12 has ABI 6)." if lacks else "",
        )
    seccomp = os.path.exists("/proc/sys/kernel/seccomp/actions_avail")
    yield Finding(
        "seccomp",
        OK if seccomp else FAIL,
        "filters can be installed" if seccomp else "the kernel offers no filters",
        "" if seccomp else "Use a kernel with CONFIG_SECCOMP_FILTER.",
    )
    flags = _NEWNET if os.geteuid() == 0 else _NEWUSER | _NEWNET
    refused = _refused(flags)
    yield Finding(
        "namespaces",
        WARNING if refused else OK,
        f"none can be made here ({refused}), so commands have no loopback" if refused else "can be made",
        "Allow user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0), or use the container backend."
        if refused
        else "",
    )


def _refused(flags: int) -> str:
    """The kernel's words when a child asks for these namespaces; empty when it gets them."""
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(flags) == 0 else ctypes.get_errno() or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return os.strerror(code) if code > 0 else "" if code == 0 else f"signal {-code}"


def docker(image: str, engine: Path = ENGINE) -> Iterator[Finding]:
    """The engine, and the image that commands would run in.

    Args:
        image: name of it, or empty.
    """
    less = "The process backend is used instead; for containers: "
    if not engine.is_socket():
        yield Finding("docker", WARNING, f"no engine at {engine}", less + "start Docker on this runner.")
        return
    if not os.access(engine, os.W_OK):
        yield Finding("docker", WARNING, f"{engine} may not be used by this user", less + "join the group docker.")
        return
    import docker as sdk  # lazily: 28 MB
    from docker.errors import DockerException, ImageNotFound

    try:
        client = sdk.APIClient(base_url=f"unix://{engine}", timeout=10, version="auto")
        with contextlib.closing(client):
            yield Finding("docker", OK, f"engine {client.version()['Version']}")
            if image:
                client.inspect_image(image)
                yield Finding("image", OK, f"{image} is here")
    except ImageNotFound:
        fix = f"It is pulled at the first run; or: docker pull {image}"
        yield Finding("image", WARNING, f"{image} is not here", fix)
    except (DockerException, OSError) as exc:
        said = str(exc).splitlines()[0][:200]
        yield Finding("docker", WARNING, f"the engine does not answer: {said}", less + "see `docker version`.")


def sandboxes(asked: str, image: str) -> Iterator[Finding]:
    """Start each backend and ask it for forbidden things, as a run does at its start.

    Args:
        asked: auto, process or container.
    """
    place = find_place("/")
    reports = {name: _probe(name, image, place) for name in ("container", "process") if asked in ("auto", name)}
    for name, finding in reports.items():
        other = any(f.state == OK for n, f in reports.items() if n != name)
        if finding.state == FAIL and other:  # one that holds is enough
            finding = Finding(finding.topic, WARNING, finding.text, finding.fix)
        yield finding


def _probe(name: str, image: str, place: Place) -> Finding:
    topic = f"sandbox {name}"
    fix = {
        "process": "Without a sandbox only read and comment modes run. See landlock, seccomp and namespaces above.",
        "container": "Name the image with --image (input `sandbox-image`), and see docker above.",
    }[name]
    owner = unprivileged(0, 0) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    with tempfile.TemporaryDirectory(prefix="airlock-doctor-") as folder:
        state, root = Path(folder), Path(folder, "work")
        state.chmod(0o711)
        root.mkdir()
        if os.geteuid() == 0:
            os.chown(root, *owner)
        settings = {"sandbox": name, "sandbox-image": image}
        boxes = Sandboxes(settings, place, state=state, owner=owner, watched=lambda: ())
        try:
            if name == "container" and place.engine is not None and not image:
                own = own_container(str(place.engine))
                if own is None:
                    return Finding(topic, FAIL, "not tried: no image is named", fix)
            report = boxes.probe(SandboxSpec(Purpose.MAIN, str(root)), (), ())
        except AirlockError as exc:
            return Finding(topic, FAIL, str(exc), fix)
        finally:
            boxes.stop_all()
    failed = [f"{item.name}: {item.detail}" for item in report.items if not item.held]
    if not report.ok:
        return Finding(topic, FAIL, "; ".join(failed or report.missing), fix)
    lacks = [text for text in report.missing if not text.startswith("no container backend")]
    held = f"{len(report.items)} of {len(report.items)} forbidden acts refused; loopback: " + (
        "yes" if report.loopback else "no"
    )
    return Finding(topic, OK, held + (f"; {'; '.join(lacks)}" if lacks else ""))
