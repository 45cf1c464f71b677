"""Project rules, checked over every file that git tracks, and the Makefile."""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.template import engines
from django.template.library import import_library

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500
PACKAGES = ("arena", "evaluation", "runners")
BANNED_OPENERS = re.compile(r"(what|who|whose|whom|whether|where|how|when|why)\b", re.IGNORECASE)
PRIVATE_WORDS = re.compile(
    r"contestant|inmate|zygote|shepherd|warden|leavings|glance|witness|oracle|confession|thawed"
    r"|\b(strays|rig|desk|doors?|sights?|crowds?|strangers?)\b",
    re.IGNORECASE,
)
PRIVATE_VERBS = set("hear hears heard lay lays laid look looks looked meet meets met".split())
PRIVATE_VERBS |= set("said say says tell tells told tend tends tended MOST LEAST".split())
"""Parts of names that a plainer verb, or MAX and MIN, replaced."""
NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def tracked(*patterns: str) -> list[Path]:
    """Return the files of the repository that match; all without a pattern."""
    words = ("git", "ls-files", "-z", "--", *patterns)
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in found.split("\0") if name and (ROOT / name).is_file()]


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run make without the variables of a make around it."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ("make", *arguments), cwd=ROOT, env={**clean, **environment}, capture_output=True, text=True
    )


def error_line(refused: subprocess.CompletedProcess[str]) -> str:
    """Return the one line of a refusal."""
    assert refused.returncode == 1, refused.stdout + refused.stderr
    (line,) = refused.stderr.splitlines()
    assert line.startswith("arena: ")
    return line


def modules() -> list[Path]:
    return [path for path in tracked("*.py") if path.relative_to(ROOT).parts[0] in PACKAGES]


def test_file_above_the_limit_is_refused() -> None:
    sources = [
        path
        for path in tracked("*.py", "*.html", "*.css", "*.js", "*.cpp", "*.toml", "Makefile")
        if "vendor" not in path.parts and "migrations" not in path.parts
    ]
    sources.remove(ROOT / "arena_client/types.py")  # made by scripts/client-types
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources}
    assert {path: n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_style_line_of_several_declarations_is_refused() -> None:
    several = re.compile(r";.*[;{]|\}.*\S|.{101}")
    lines = {
        f"{path.name}: {line}"
        for path in tracked("static/css/*.css")
        for line in path.read_text().splitlines()
        if several.search(line)
    }
    assert lines == set()


def test_module_without_a_docstring_is_refused() -> None:
    undocumented = [
        str(path.relative_to(ROOT))
        for path in modules()
        if (source := path.read_text()).strip()
        and "migrations" not in path.parts
        and path.name != "apps.py"  # a name and nothing else
        and not ast.get_docstring(ast.parse(source))
    ]
    assert undocumented == []


ROOM_OF_ROOMS = Path("evaluation/kinds")
"""A folder whose folders are rooms."""
DJANGOS = set("models admin apps urls api forms __init__ __main__".split())
"""Names of modules that Django and Python give."""


def room_of(module: Path) -> Path:
    """Return the room of a module: a folder of a package, or the package itself."""
    parts = module.parts[:-1]
    return Path(*parts[: 3 if parts[:2] == ROOM_OF_ROOMS.parts else 2])


def test_module_name_stands_once_in_a_room() -> None:
    found: dict[tuple[Path, str], list[str]] = {}
    for path in modules():
        module = path.relative_to(ROOT)
        if "migrations" not in module.parts and path.stem not in DJANGOS:
            found.setdefault((room_of(module), path.stem), []).append(str(module))
    assert [names for names in found.values() if len(names) > 1] == []


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("evaluation/types.py", "evaluation"),
        ("evaluation/bench/timing/clock.py", "evaluation/bench"),
        ("evaluation/kinds/kernel/gates/compile.py", "evaluation/kinds/kernel"),
        ("arena/runs/trace/events.py", "arena/runs"),
    ],
)
def test_room_of_a_module_is_a_folder_of_its_package(module: str, room: str) -> None:
    assert room_of(Path(module)) == Path(room)


def test_open_todo_or_swallowed_exception_is_refused() -> None:
    unfinished = re.compile(r"\b(TODO|FIXME|XXX)\b|except( Exception)?:\s*(#.*)?\n\s+pass\b")
    found = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py", "*.js", "*.html", "*.md")
        if path != Path(__file__) and "vendor" not in path.parts
        if unfinished.search(path.read_text())
    ]
    assert found == []


def test_tasks_folder_is_never_imported() -> None:
    assert tracked("tasks/*__init__.py") == []
    imports = re.compile(r"^\s*(from|import) tasks\b", re.MULTILINE)
    assert [path for path in tracked("*.py") if imports.search(path.read_text())] == []


def test_make_without_a_target_lists_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    public = set(re.findall(r"^([a-z-]+):.*?## ", text, re.MULTILINE))
    assert {"arena", "test", "lint", "admin", "admit", "bench", "clean"} <= public
    printed = make()
    assert printed.returncode == 0
    assert set(re.findall(r"^  make (\S+) +\S", printed.stdout, re.MULTILINE)) == public


def test_taken_port_is_refused_in_one_line() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        message = error_line(make("port", f"PORT={port}"))
    assert message.startswith(f"arena: port {port} is taken")
    assert "make arena PORT=" in message


@pytest.mark.parametrize("port", ["http", "-1", "0", "65536", "123456", ""])
def test_port_that_is_not_a_number_is_refused(port: str) -> None:
    assert "must be a number" in error_line(make("port", f"PORT={port}"))


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout in which nothing was installed yet."""
    for name in ("Makefile", "locks", "scripts"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize(("version", "age"), [("3.9", "old"), ("3.15", "new"), ("3.20", "new")])
def test_python_without_a_torch_is_refused_before_anything_is_created(
    bare: Path, version: str, age: str
) -> None:
    other = bare / f"python{version}"
    other.write_text(f"#!/bin/sh\necho {version}\n")
    other.chmod(0o755)
    refused = make("-C", str(bare), "arena", f"PYTHON={other}")
    assert f"Python {version} is too {age}" in error_line(refused)
    assert not (bare / ".venv").exists()
    assert not (bare / ".arena").exists()


def test_missing_compiler_is_refused_before_anything_is_created(bare: Path) -> None:
    tools = bare / "bin"
    tools.mkdir()
    for name in ("sh", "make", "realpath", "id", "mktemp", "dirname", "rm"):
        found = subprocess.run(("which", name), capture_output=True, text=True, check=True).stdout
        (tools / name).symlink_to(found.strip())
    refused = make("-C", str(bare), "arena", f"PYTHON={sys.executable}", PATH=str(tools))
    assert "no C++ compiler" in error_line(refused)
    assert not (bare / ".venv").exists()


def test_folder_that_is_not_writable_is_refused(bare: Path) -> None:
    refused = make("-C", str(bare), "ready", ARENA_HOME="/proc/of/this")
    assert "cannot write to /proc" in error_line(refused)


def test_empty_setting_counts_as_unset() -> None:
    rule = "print: ; +@echo $(PYTHON) $$ARENA_HOME"
    empty = {"PYTHON": "", "ARENA_HOME": ""}
    for run in (
        make("--eval", rule, "print", *(f"{name}={value}" for name, value in empty.items())),
        make("--eval", rule, "print", **empty),
    ):
        assert run.stdout.split() == ["python3", f"{ROOT}/.arena"], run.stderr
    custom = make("--eval", rule, "print", "PYTHON=python3.14", "ARENA_HOME=/srv/arena")
    assert custom.stdout.split() == ["python3.14", "/srv/arena"]


@pytest.fixture
def python(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an interpreter whose environments log their calls, and fail at words in `fails`."""
    monkeypatch.setenv("ARENA_TORCH", "cuda")  # so that no index is asked
    monkeypatch.setenv("UV", "")
    made = bare / "made"
    made.write_text(
        '#!/bin/sh\necho "$(basename "$0") $*" >> log\n'
        'case "$*" in *"$(cat fails)"*) exit 1 ;; esac\n'
    )
    made.chmod(0o755)
    (bare / "fails").write_text("nothing at all")
    python = bare / "python3.14"
    python.write_text(
        "#!/bin/sh\n"
        "[ $1 = -c ] && echo True && exit\n"
        f'[ $1 = scripts/install ] && exec {sys.executable} "$@"\n'
        "mkdir -p .venv/bin && cp made .venv/bin/python && cp made .venv/bin/pytest\n"
    )
    python.chmod(0o755)
    return python


def test_second_start_installs_nothing_and_exits_0(bare: Path, python: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = str(listener.getsockname()[1])
    ran = [make("-C", str(bare), "arena", f"PORT={port}", f"PYTHON={python}") for _ in range(2)]
    assert [done.returncode for done in ran] == [0, 0], ran[0].stderr
    calls = (bare / "log").read_text().splitlines()
    assert [call for call in calls if "pip install" in call] == [
        "python -m pip install --only-binary=:all: --require-hashes"
        " -r locks/run.txt -r locks/torch-cuda.txt"
    ]
    assert calls.count("python -m runners") == 2


def test_failed_installation_exits_1_and_continues_at_the_next_start(
    bare: Path, python: Path
) -> None:
    (bare / "fails").write_text("--require-hashes")
    failed = make("-C", str(bare), "bench", f"PYTHON={python}")
    assert "The same command continues it." in error_line(failed)
    assert not (bare / ".venv/run.stamp").exists()
    assert "benchmarks" not in (bare / "log").read_text()
    (bare / "fails").write_text("nothing at all")
    assert make("-C", str(bare), "bench", f"PYTHON={python}").returncode == 0
    assert (bare / "log").read_text().endswith("python benchmarks/judge.py\n")


@pytest.mark.parametrize("fails", ["-m serial", "-m not serial"])
def test_failed_tests_exit_1_after_all_tests_ran(bare: Path, python: Path, fails: str) -> None:
    (bare / "scripts").unlink()
    shutil.copytree(ROOT / "scripts", bare / "scripts")
    (bare / "scripts" / "extras").write_text("#!/bin/sh\n")
    (bare / "fails").write_text(fails)
    assert make("-C", str(bare), "test", f"PYTHON={python}").returncode == 1
    commands = (bare / "log").read_text().splitlines()
    assert [shlex.split(line)[0] for line in commands].count("pytest") == 2


def test_dry_run_of_make_runs_nothing(bare: Path) -> None:
    (bare / ".venv").mkdir()
    shown = make("-C", str(bare), "-n", "clean")
    assert shown.returncode == 0
    assert "rm -rf .venv" in shown.stdout
    assert (bare / ".venv").exists()


@pytest.mark.slow
def test_import_contracts_hold() -> None:
    linted = subprocess.run(
        (Path(sys.executable).with_name("lint-imports"), "--no-cache"),
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout


def test_layout_of_the_code_keeps_its_rules() -> None:
    checked = subprocess.run(
        (sys.executable, "scripts/layout"), cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_template_that_is_not_formatted_is_refused() -> None:
    djade = (Path(sys.executable).with_name("djade"), "--check", "--target-version", "5.2")
    checked = subprocess.run((*djade, *tracked("templates/*.html")), capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def unused_libraries(template: str) -> list[str]:
    """Return the libraries of tags and filters that a template loads and does not use."""
    loaded = re.findall(r"\{% load ([^%]*) %\}", template)
    found = []
    for name in " ".join(loaded).split():
        library = import_library(engines["django"].engine.libraries[name])
        names = [
            *(f"{{% {tag} " for tag in library.tags),
            *(f"|{each}" for each in library.filters),
        ]
        if not any(each in template for each in names):
            found.append(name)
    return found


def test_template_loads_no_library_that_it_does_not_use() -> None:
    assert unused_libraries('{% load humanize static %}<i>{% static "a" %}</i>') == ["humanize"]
    found = {str(path): unused_libraries(path.read_text()) for path in tracked("templates/*.html")}
    assert not {path: names for path, names in found.items() if names}


def test_missing_migration_is_refused(tmp_path: Path) -> None:
    checked = subprocess.run(
        (sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"),
        cwd=ROOT, env={**os.environ, "ARENA_HOME": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


def test_judge_imports_without_web_framework() -> None:
    hide = (
        "import sys; sys.modules.update(dict.fromkeys(['django', 'pydantic', 'dramatiq', 'redis']))"
    )
    modules = (
        "evaluation.__main__, evaluation.bench.devices.detect, evaluation.kinds.kernel.session"
    )
    program = f"{hide}; import {modules}"
    done = subprocess.run((sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_library_without_a_reason_is_refused() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    names = {
        re.split(r"[\[~=<>]", entry)[0]
        for group in groups.values()
        for entry in group
        if isinstance(entry, str)
    }
    page = (ROOT / "docs/dependencies.md").read_text()
    explained = set(re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE))
    assert explained == names


def docstrings(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of a module and of its classes and functions."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def test_docstrings_open_with_a_noun_phrase_or_an_imperative() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {text.splitlines()[0]}"
        for path in modules()
        for line, text in docstrings(path)
        if BANNED_OPENERS.match(text)
    ]
    assert found == []


def test_words_that_the_glossary_replaced_are_not_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in modules()
        if "migrations" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PRIVATE_WORDS.search(line)
    ]
    assert found == []


def test_verbs_that_the_glossary_replaced_are_in_no_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{token.start[0]} {token.string}"
        for path in [*modules(), *tracked("benchmarks/*.py")]
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME and PRIVATE_VERBS & set(NAME_PART.findall(token.string))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("S301", "pickle.loads(b'')"),
        ("S324", "hashlib.md5(b'')"),
        ("S506", "yaml.load('')"),
        ("S602", "subprocess.run(input(), shell=True)"),
        ("S608", 'cursor.execute(f"SELECT * FROM runs WHERE name = {input()}")'),
    ],
)
def test_lint_refuses_what_a_security_rule_names(rule: str, line: str) -> None:
    ruff = (sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--ignore", "F")
    code = f"import hashlib, pickle, subprocess, yaml\n\n{line}\n"
    for package in PACKAGES:
        checked = subprocess.run(
            (*ruff, "--stdin-filename", f"{package}/new.py", "-"),
            cwd=ROOT,
            input=code,
            capture_output=True,
            text=True,
        )
        assert f" {rule} " in checked.stdout, package
