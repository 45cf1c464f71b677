"""Lock files: complete, with hashes, without an index, and within the ranges of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ROOT / "locks"
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
AGENTS = ROOT / "runners" / "harnesses"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
RENEW = "run scripts/lock"


def packages(lock: Path) -> list[Requirement]:
    return [
        Requirement(line.removesuffix("\\"))
        for line in lock.read_text().splitlines()
        if line and line[0] not in "# "
    ]


def pins(locks: Iterable[Path], python: str = "3.11", machine: str = "x86_64") -> dict[str, str]:
    """Return the version of each package on one kind of machine."""
    kind = {
        "python_version": python, "python_full_version": f"{python}.9",
        "implementation_name": "cpython", "platform_python_implementation": "CPython",
        "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
        "platform_machine": machine,
    }  # fmt: skip
    found: dict[str, str] = {}
    for lock in locks:
        for package in packages(lock):
            if package.marker is None or package.marker.evaluate(kind):
                name = canonicalize_name(package.name)
                assert name not in found, f"{name} has two versions in {lock.name}; {RENEW}"
                (exact,) = package.specifier
                found[name] = exact.version
    return found


def required(group: str) -> list[str]:
    """Return the requirements of a group with those of the groups that it includes."""
    found: list[str] = []
    for entry in GROUPS[group]:
        found += [entry] if isinstance(entry, str) else required(entry["include-group"])
    return found


def contradictions(requirements: list[str], pinned: dict[str, str]) -> list[str]:
    """Return the requirements that the pins lack or break."""
    wanted = [Requirement(requirement) for requirement in requirements]
    return [
        str(want)
        for want in wanted
        if (version := pinned.get(canonicalize_name(want.name))) is None
        or not want.specifier.contains(version, prereleases=True)
    ]


def locks_of(group: str, build: str) -> list[Path]:
    return [LOCKS / f"{group}.txt", LOCKS / f"torch-{build}.txt"]


def every_lock() -> list[Path]:
    return [*sorted(LOCKS.iterdir()), AGENTS / "requirements.txt"]


def test_each_group_has_a_lock() -> None:
    names = {f"{group}.txt" for group in GROUPS} | {"torch-cpu.txt", "torch-cuda.txt"}
    assert {lock.name for lock in LOCKS.iterdir()} == names


@pytest.mark.parametrize("build", ["cpu", "cuda"])
@pytest.mark.parametrize("group", list(GROUPS))
def test_lock_covers_its_group_within_the_ranges(group: str, build: str) -> None:
    for python in PYTHONS:
        for machine in ("x86_64", "aarch64"):
            pinned = pins(locks_of(group, build), python, machine)
            assert contradictions(required(group), pinned) == [], f"{python}: {RENEW}"


def test_pin_outside_the_range_and_missing_pin_are_found() -> None:
    pinned = pins(locks_of("run", "cpu"))
    assert contradictions(required("run"), {**pinned, "django": "6.0"}) == ["django~=5.2.19"]
    assert contradictions(required("run"), {**pinned, "torch": "2.12.0+cpu"}) == ["torch==2.13.0"]
    del pinned["aiohttp"]
    assert contradictions(required("run"), pinned) == ["aiohttp~=3.14"]


def test_lock_of_python_agents_keeps_their_versions() -> None:
    wanted = (AGENTS / "requirements.in").read_text().split()
    assert wanted and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in wanted)
    for python in PYTHONS:
        assert contradictions(wanted, pins([AGENTS / "requirements.txt"], python)) == [], RENEW


def test_groups_agree_on_every_version_and_dev_has_all() -> None:
    every = pins([LOCKS / "dev.txt"])
    for group in GROUPS:
        assert pins([LOCKS / f"{group}.txt"]).items() <= every.items(), group


def test_locks_have_what_each_installed_package_needs() -> None:
    pinned = pins(locks_of("dev", "cpu"))
    missing = [
        f"{name} needs {need}"
        for name, version in pinned.items()
        for need in _needs(name, version)
        if contradictions([need], pinned)
    ]
    assert missing == []


def _needs(name: str, version: str) -> list[str]:
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return []
    needs = [Requirement(need) for need in package.requires or ()] * (package.version == version)
    return [str(n) for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})]


@pytest.mark.parametrize("lock", every_lock(), ids=lambda lock: str(lock.relative_to(ROOT)))
def test_lock_has_hashes_and_names_no_index(lock: Path) -> None:
    text = lock.read_text()
    assert re.match(r"# .*, about \d+ MB\. Made by scripts/lock\.\n", text)
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash=sha256:[0-9a-f]{64}( \\)?$)", text, re.MULTILINE)
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    if lock.name != "torch-cpu.txt":  # its wheels are not on PyPI
        assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_cuda_packages_are_in_the_lock_of_the_cuda_build_only() -> None:
    cuda = pins([LOCKS / "torch-cuda.txt"])
    assert {"torch", "nvidia-cublas"} < cuda.keys()
    assert pins([LOCKS / "torch-cpu.txt"]) == {"torch": f"{cuda['torch']}+cpu"}
    for group in GROUPS:
        assert not cuda.keys() & pins([LOCKS / f"{group}.txt"]).keys()
    assert pins([LOCKS / "torch-cuda.txt"], machine="aarch64").keys() <= cuda.keys()
