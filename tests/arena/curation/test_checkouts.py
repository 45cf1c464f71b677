"""Tests of tasks from a checkout: the plan, its confirmation, and paths that leave the folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.catalog.sync import publish_folder
from arena.catalog.task_folders import write_files
from arena.curation import checkouts, drafts
from arena.curation.models import Draft
from arena.curation.starter import starter_draft
from arena.errors import Conflict, NotFound

COMMIT = "c" * 40


@pytest.fixture
def root(tmp_path: Path, settings: Any, staff: Any) -> Path:
    """Return a checkout with a task of each kind."""
    place = tmp_path / "checkouts" / "ours"
    for name in ("created", "updated", "skipped", "faulty", "held"):
        write_files(place / "tasks" / name, starter_draft(name, "T"))
    (place / ".git").mkdir()
    (place / ".git" / "HEAD").write_text(COMMIT)
    publish_folder("skipped", starter_draft("skipped", "T"), "0" * 64)
    publish_folder("updated", starter_draft("updated", "Earlier"), "0" * 64)
    (place / "tasks" / "faulty" / "task.toml").write_text("title = 1")
    drafts.create_from_form(staff, "held", "T")
    settings.ARENA_CHECKOUTS = str(tmp_path / "checkouts")
    return place


def actions(path: str = "ours") -> dict[str, str]:
    return {each.name: each.action for each in checkouts.plan(path)}


def test_plan_says_what_happens_to_each_task(root: Path) -> None:
    assert actions() == {
        "created": "create", "updated": "update", "skipped": "skip", "faulty": "error",
        "held": "error",
    }  # fmt: skip
    assert Draft.objects.count() == 1


def test_confirmed_plan_makes_the_chosen_drafts(root: Path, staff: Any) -> None:
    keys = [each.key for each in checkouts.plan("ours") if each.action == "update"]
    (made,) = checkouts.carry_out(staff, "ours", keys)
    assert (made.name, made.origin) == ("updated", f"the checkout ours at {COMMIT}")
    with pytest.raises(Conflict, match="has changed since"):
        checkouts.carry_out(staff, "ours", keys)


def test_changed_file_needs_another_plan(root: Path, staff: Any) -> None:
    keys = [each.key for each in checkouts.plan("ours") if each.action in ("create", "update")]
    (root / "tasks" / "created" / "prompt.md").write_text("Other.")
    with pytest.raises(Conflict, match="has changed since"):
        checkouts.carry_out(staff, "ours", keys)
    assert Draft.objects.count() == 1


@pytest.mark.parametrize("path", ["..", "ours/../..", "../checkouts2", "ours/link", "none", "a\0b"])
def test_path_that_leaves_the_folder_is_refused(root: Path, tmp_path: Path, path: str) -> None:
    shutil.copytree(root, tmp_path / "checkouts2")
    (root / "link").symlink_to("/etc")
    with pytest.raises(NotFound):
        checkouts.plan(path)


def test_link_in_a_task_is_an_error(root: Path) -> None:
    (root / "tasks" / "created" / "honest" / "x.cpp.cpp").symlink_to("/etc/passwd")
    (root / "tasks" / "updated" / "more").symlink_to("/etc")
    assert {actions()[name] for name in ("created", "updated")} == {"error"}


def test_same_name_twice_is_an_error(root: Path) -> None:
    write_files(root / "more" / "created", starter_draft("created", "T"))
    assert [each.action for each in checkouts.plan("ours") if each.name == "created"] == [
        "error", "error",
    ]  # fmt: skip


def test_page_shows_the_plan_and_makes_the_drafts(root: Path, staff: Any, client: Client) -> None:
    client.force_login(staff)
    shown = client.get(reverse("checkout"), {"path": "ours"}).content.decode()
    assert "equal to the published version" in shown
    keys = [each.key for each in checkouts.plan("ours") if each.action == "create"]
    answer = client.post(reverse("checkout"), {"path": "ours", "task": keys})
    assert answer.status_code == 302
    assert Draft.objects.filter(name="created").exists()
    assert client.get(reverse("checkout"), {"path": "../.."}).status_code == 404


def test_page_without_a_folder_of_checkouts_says_so(staff: Any, client: Client) -> None:
    client.force_login(staff)
    assert "ARENA_CHECKOUTS" in client.get(reverse("checkout")).content.decode()
    assert client.get(reverse("checkout"), {"path": "x"}).status_code == 409


@pytest.mark.parametrize(
    ("head", "files", "expected"),
    [
        ("ref: refs/heads/main\n", {"refs/heads/main": f"{COMMIT}\n"}, COMMIT),
        ("ref: refs/heads/main\n", {"packed-refs": f"# pack\n{COMMIT} refs/heads/main\n"}, COMMIT),
        (f"{COMMIT}{'0' * 24}\n", {}, COMMIT),
        ("ref: refs/../../secret\n", {}, ""),
        ("nothing that Git writes", {}, ""),
        ("ref: refs/\0", {}, ""),
    ],
)
def test_commit_is_read_from_the_files_of_git(
    head: str, files: dict[str, str], expected: str, root: Path
) -> None:
    for name, text in {"HEAD": head, **files}.items():
        path = root / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert checkouts.commit_of(root / "tasks") == expected


@pytest.mark.parametrize("linked", [".git", ".git/HEAD", ".git/refs", ".git/packed-refs"])
def test_commit_behind_a_link_is_not_read(linked: str, root: Path, tmp_path: Path) -> None:
    (root / ".git" / "HEAD").write_text("ref: refs/key")
    outside = tmp_path / "outside"
    for path, text in {
        ".git/HEAD": "d" * 40, ".git/refs/key": "d" * 40, ".git/packed-refs": "d" * 40 + " refs/key"
    }.items():  # fmt: skip
        (outside / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / path).write_text(text)
    if linked == ".git":
        shutil.rmtree(root / ".git")
    (root / linked).unlink(missing_ok=True)
    (root / linked).symlink_to(outside / linked)
    assert checkouts.commit_of(root) == ""


@pytest.mark.parametrize("endless", ["HEAD", "packed-refs"])
def test_commit_in_a_file_without_an_end_is_not_read(endless: str, root: Path) -> None:
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (root / ".git" / endless).unlink(missing_ok=True)
    os.mkfifo(root / ".git" / endless)
    assert checkouts.commit_of(root) == ""
