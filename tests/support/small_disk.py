"""A real file system of a few megabytes, for tests of what happens when it is full. Needs root."""

from __future__ import annotations

import contextlib
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[None]:
    """Mount an ext4 on a loop device; where the machine has no loop device, a tmpfs of that size, with a warning."""
    place.mkdir(exist_ok=True)
    image = place.with_name(f"{place.name}.image")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", str(image)], check=True)
    looped = subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], capture_output=True, text=True, check=False
    )
    if looped.returncode:
        warnings.warn(f"no loop device ({looped.stderr.strip()}): a tmpfs stands in", stacklevel=3)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "small", str(place)], check=True)
    place.chmod(0o755)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        image.unlink()
