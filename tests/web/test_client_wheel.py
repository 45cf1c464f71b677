"""The client that an arena serves: installed by pip in Pythons of today and of some years ago."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from arena.accounts.models import User
from arena.client_wheel import wheel
from arena_client.__main__ import COMMANDS


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("wheel") / wheel().name
    path.write_bytes(wheel().content)
    return path


@pytest.fixture(scope="module")
def installed(saved, tmp_path_factory) -> Path:
    """Return the command `arena` of a new environment into which pip has installed the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    install = [folder / "bin" / "pip", "install", "--quiet", "--no-index", "--no-deps", saved]
    subprocess.run(install, check=True, capture_output=True)
    return folder / "bin" / "arena"


def test_wheel_made_again_is_equal(saved):
    wheel.cache_clear()
    assert wheel().content == saved.read_bytes()


def test_installed_client_names_its_commands(installed):
    said = subprocess.run([installed, "--help"], capture_output=True, text=True, check=True)
    assert "submit" in said.stdout and "download" in said.stdout


def test_client_in_python_3_10_starts(saved):
    python = shutil.which("python3.10") or ""
    works = python and not subprocess.run([python, "-c", ""], capture_output=True).returncode
    if not works:
        pytest.skip("python3.10 is not installed")
    said = subprocess.run(
        [python, "-c", "import arena_client.__main__ as m; m.main(['--help'])"],
        env={"PYTHONPATH": str(saved)},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0 and "submit" in said.stdout, said.stderr


def test_download_of_the_named_wheel_is_the_wheel_and_of_another_is_not_found(client):
    answer = client.get(f"/client/{wheel().name.replace('+', '%2B')}")
    assert answer.content == wheel().content
    other = client.get("/client/kernel_arena_client-0.0.1-py3-none-any.whl")
    assert other.status_code == 404


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/submit/", "/account/"])
def test_pages_show_lines_whose_address_is_the_wheel(client, path):
    client.force_login(User.objects.create_user("ada"))
    if path == "/submit/":
        page = client.get(path)
    else:
        page = client.post(path, {"name": "box", "scopes": ["submit"], "days": "30"})
    text = html.unescape(page.content.decode())
    address = re.search(r"pip install http://testserver(/client/\S+\.whl)", text)
    assert address and client.get(address[1]).content == wheel().content
    assert "export ARENA_URL=http://testserver ARENA_TOKEN=arena_" in text
    if path == "/account/":
        secret = re.search(r"data-secret[^>]*>(arena_[\w-]+)<", text)
        assert secret and f"ARENA_TOKEN={secret[1]}\n" in text


def complete(installed: Path, arena: str, *words: str) -> list[str]:
    said = subprocess.run(
        [installed, "--url", arena, "complete", "--", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return said.stdout.split()


def test_completion_of_commands_and_options_needs_no_arena(installed):
    nowhere = "http://127.0.0.1:1"
    assert complete(installed, nowhere, "s") == ["submit", "session"]
    assert complete(installed, nowhere, "submit", "--f") == ["--final"]
    assert complete(installed, nowhere, "watch", "") == []


def test_completion_in_bash_offers_the_commands(installed):
    script = f"""
        PATH={installed.parent}:$PATH
        eval "$(arena completion bash)"
        COMP_WORDS=(arena do) COMP_CWORD=1
        _arena && echo "${{COMPREPLY[@]}}"
    """
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["download"], said.stderr


@pytest.mark.parametrize("command", [*COMMANDS])
def test_completion_knows_the_options_of_each_command(installed, command):
    said = subprocess.run(
        [installed, command, "--help"], capture_output=True, text=True, check=True
    )
    options = {*re.findall(r"--[a-z][a-z-]*", said.stdout)} - {"--help"}
    assert options == {*COMMANDS[command]}
