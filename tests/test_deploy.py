"""Files in deploy/: each starts commands that exist, with options that they have."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.http.request import validate_host

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
ROLES = {"build", "agents", "hardware", "web"}


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def unit(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(path)
    return found


def commands() -> Iterator[list[str]]:
    """Yield the words after `python` of each command that a container, unit or job starts."""
    for service in compose()["services"].values():
        words = service.get("command", [])
        if words[:1] == ["python"]:
            yield words[1:]
        elif words[:1] == ["sh"]:
            yield from (part.split()[1:] for part in words[2].split("&&"))
    lines = [unit(path)["Service"]["ExecStart"] for path in UNITS]
    lines += [
        line.removeprefix("exec ")
        for line in (DEPLOY / "arena-hardware.slurm").read_text().splitlines()
        if line.startswith("exec ")
    ]
    yield from (shlex.split(line)[1:] for line in lines)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_command_of_a_deployment_has_its_options(words: list[str]) -> None:
    names = [word for word in words if not word.startswith("--")]
    called = names[:3] if names[:2] == ["-m", "runners"] else names[:2]
    said = subprocess.run(
        [sys.executable, *called, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    for option in (word for word in words if word.startswith("--")):
        assert option in said.stdout


def test_compose_and_units_have_every_role() -> None:
    assert set(compose()["services"]) >= ROLES
    assert {path.stem.removeprefix("arena-") for path in UNITS} == ROLES


def test_compose_passes_on_what_the_web_server_needs_behind_a_proxy() -> None:
    given = compose()["services"]["web"]["environment"]
    text = (ROOT / "docs" / "deployment.md").read_text()
    part = text.partition("## Behind a proxy")[2].partition("## Several machines")[0]
    named = set(re.findall(r"\b([A-Z_]{9,})=", part)) - {"ARENA_PREFIX", "ARENA_URL"}
    assert len(named) == 4 and named <= given.keys()


@pytest.mark.parametrize("hosts", ["arena.example.org,10.0.0.7", ".example.org", "localhost"])
def test_health_check_of_the_web_server_asks_by_a_name_that_it_answers_to(hosts: str) -> None:
    command = compose()["services"]["web"]["healthcheck"]["test"]
    asked = command[-1].replace("u.urlopen(", "print((lambda r: r.get_header('Host'))(")
    said = subprocess.run(
        [sys.executable, "-c", f"{asked})"],
        env={"ALLOWED_HOSTS": hosts},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    assert validate_host(said.stdout.strip(), hosts.split(","))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_unit_gives_its_process_more_time_to_end_than_its_grace(path: Path) -> None:
    service = unit(path)["Service"]
    words = shlex.split(service["ExecStart"])
    grace = float(words[words.index("--grace") + 1]) if "--grace" in words else 0.0
    assert float(service.get("TimeoutStopSec", "90")) > grace
    assert service["Restart"] == "always"


def test_job_ends_by_itself_before_slurm_ends_it() -> None:
    script = DEPLOY / "arena-hardware.slurm"
    subprocess.run(["sh", "-n", script], check=True)
    words = shlex.split(script.read_text().splitlines()[-1])
    given = {name: float(words[words.index(name) + 1]) for name in ("--max-seconds", "--grace")}
    assert sum(given.values()) < 3600
