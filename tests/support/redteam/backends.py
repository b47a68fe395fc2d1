"""The four ways Airlock's sandbox is used, as a case is played under each: the columns of docs/guarantees.md.

`process`: started as root, where namespaces can be made · `process-in-container`: started as root in a default
container of an engine, where none can · `process-as-user`: started as a normal user · `container`: each sandbox a
sibling container.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from tests.support.user_python import python_for_everybody

from .product import ROOT, Product
from .world import UID

BACKENDS = ("process", "process-in-container", "process-as-user", "container")
NEEDS_ENGINE = frozenset({"process-in-container", "container"})
IMAGE = "airlock:local"


class NoPython(Exception):
    """Another user could start no Python here."""


def why_not(backend: str) -> str | None:
    """The sentence that says why a backend cannot be had here, or None."""
    if backend == "process":
        return None
    if os.getuid() != 0:
        return f"--backend {backend} has to be started as root; as a normal user, `process` is that user's own"
    if backend == "process-as-user":
        return None if shutil.which("setpriv") else "--backend process-as-user needs setpriv (util-linux) on PATH"
    if not shutil.which("docker"):
        return f"--backend {backend} needs Docker, and there is no docker command on PATH"
    asked = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    if asked.returncode:
        said = asked.stderr.strip().splitlines() or ["no answer"]
        return f"--backend {backend} needs a Docker engine: {said[-1]}"
    return None


def build_image() -> str | None:
    """Builds the product's image of this tree, quick where nothing changed; the engine's words where it cannot."""
    command = ["docker", "build", "-q", "-t", IMAGE, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"the image cannot be built: {done.stderr.strip()[-500:]}"


def product_under(backend: str, folder: Path) -> Product:
    """The product as this backend's people start it.

    Args:
        folder: where a Python that the user can start is put, where there is none.

    Raises:
        NoPython: no Python here could be started by another user.
    """
    if backend == "container":
        run = str(10**10 + secrets.randbelow(10**10))  # by which this runner's containers are told from others
        return Product(extra={"INPUT_SANDBOX": "container", "INPUT_SANDBOX-IMAGE": IMAGE, "GITHUB_RUN_ID": run})
    if backend != "process-as-user":
        return Product()
    python = python_for_everybody(folder)
    if python is None:
        raise NoPython("no Python here that another user could start")
    become = ("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--inh-caps=-all", python)
    plain = Product()
    return Product(command=(*become, *plain.command[1:]), library=(*become, *plain.library[1:]), user=UID)


def left_containers(product: Product) -> list[str]:
    """Sandbox containers of this product's runs, whose label's value is `airlock-RUN-PID`; none outlives a run."""
    asked = ["docker", "ps", "--all", "--filter", "label=airlock.run", "--format", '{{.ID}} {{.Label "airlock.run"}}']
    rows = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    return [row for row in rows if row.split()[1].startswith(f"airlock-{product.extra['GITHUB_RUN_ID']}-")]
