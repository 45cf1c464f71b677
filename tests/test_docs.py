"""Documents: paths and links lead somewhere, and pages keep to their length."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAX_CONTRIBUTING_WORDS, MAX_RECORD_WORDS, MAX_RELEASE_LINES = 1500, 300, 60
FOLDERS = "arena|benchmarks|docs|evaluation|runners|scripts|static|tasks|templates|tests"
CODE = re.compile(r"`([^`\n]+)`|^ {4}(.+)$", re.MULTILINE)
PATH = re.compile(rf"(?:\./)?((?:\.ci|{FOLDERS})/[\w./-]*)")
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]+))?\)")


def documents() -> list[Path]:
    """Return every tracked document but the prompts of tasks, which are data."""
    names = subprocess.run(
        ("git", "ls-files", "-co", "--exclude-standard", "*.md"),
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in names if not name.endswith("/prompt.md")]


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def paths_in(text: str) -> set[str]:
    """Return the paths from the root in quoted or indented code; placeholders are skipped."""
    words = (word for code in CODE.findall(text) for word in "".join(code).split())
    return {match[1] for word in words if (match := PATH.fullmatch(word))}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_document_names_only_paths_that_exist(document: Path) -> None:
    assert {path for path in paths_in(document.read_text()) if not (ROOT / path).exists()} == set()


def test_path_in_a_command_is_found() -> None:
    text = "`cat docs/a.md tasks/<name>/b` and docs/prose\n\n    ./scripts/c tests/d -k e\n"
    assert paths_in(text) == {"docs/a.md", "scripts/c", "tests/d"}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_document_links_only_to_what_exists(document: Path) -> None:
    broken = [
        (path, anchor)
        for path, anchor in LINK.findall(document.read_text())
        if not (target := document.parent / path if path else document).exists()
        or (anchor and anchor not in anchors(target))
    ]
    assert broken == []


def test_contributing_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().split()) <= MAX_CONTRIBUTING_WORDS


def test_releases_in_the_changelog_are_short_enough_to_be_read() -> None:
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    lengths = [len(release.rstrip().splitlines()) for release in releases]
    assert lengths
    assert max(lengths) <= MAX_RELEASE_LINES


def test_decision_records_are_short_and_listed_in_order() -> None:
    folder = ROOT / "docs/adr"
    records = sorted(folder.glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    lengths = {record.name: len(record.read_text().split()) for record in records}
    assert {name: n for name, n in lengths.items() if n > MAX_RECORD_WORDS} == {}
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert listed == [record.name for record in records]


def test_settings_in_the_deployment_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs/deployment.md").read_text()
    table = re.findall(r"^\| (`[A-Z_`, ]+`) \|", page, re.MULTILINE)
    documented = {name for row in table for name in re.findall(r"[A-Z_]+", row)}
    read = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', _product_source()))
    external = {  # variables of other programs, passed on or set for them
        "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "DJANGO_SETTINGS_MODULE", "GOMP_SPINCOUNT",
        "HIP_VISIBLE_DEVICES", "PATH", "ROCM_PATH", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR", "TRITON_INTERPRET", "XDG_CACHE_HOME",
    }  # fmt: skip
    assert read - external <= documented


def _product_source() -> str:
    folders = ("arena", "evaluation", "runners")
    return "\n".join(p.read_text() for name in folders for p in (ROOT / name).rglob("*.py"))
