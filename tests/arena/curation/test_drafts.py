"""Tests of drafts: made, changed, checked, reviewed by a second person, and published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction

from arena.audit.models import AuditEntry
from arena.catalog.models import Hardware, Task, TaskFolder
from arena.catalog.sync import publish_folder, sync_tasks
from arena.catalog.task_folders import root_of, write_files
from arena.curation import checks, drafts
from arena.curation.models import Check, Draft, Review
from arena.curation.starter import starter_draft
from arena.curation.validation import problems_of
from arena.errors import Conflict, Forbidden, NotFound, UserError
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import folder_of
from tests.arena.curation.conftest import NAME, admission, checked
from tests.arena.factories import LEASE

pytestmark = pytest.mark.usefixtures("unreachable_queue")


@pytest.fixture
def unreachable_queue(valkey: str, settings: Any) -> None:
    settings.REDIS_URL = valkey


def approved(draft: Draft, staff: Any, reviewer: Any) -> Draft:
    checked(draft, staff)
    drafts.request_review(draft, staff)
    drafts.review(draft, reviewer, draft.content_hash, True, "")
    return draft


def test_new_draft_is_a_valid_task(draft: Draft) -> None:
    assert drafts.problems_of(draft.name, draft.files) == []
    assert draft.files["task.toml"].startswith('title = "Vector sum"')
    assert AuditEntry.objects.get().action == "draft.create"


@pytest.mark.parametrize("name", ["", "A", "x", "1a", "a-b", "../x", "a" * 61, "a b", "é1"])
def test_bad_name_is_refused(staff: Any, name: str) -> None:
    with pytest.raises(UserError, match="is no name of a task"):
        drafts.create_from_form(staff, name, "T")
    assert not Draft.objects.exists()


def test_name_of_an_open_draft_is_refused(draft: Draft, reviewer: Any) -> None:
    with pytest.raises(Conflict, match="an open draft 'vector_sum' by ada already"):
        drafts.create_from_form(reviewer, NAME, "Another")
    assert Draft.objects.count() == AuditEntry.objects.count() == 1


def test_name_of_a_task_is_refused(staff: Any) -> None:
    publish_folder(NAME, starter_draft(NAME, "T"), "0" * 64)
    with pytest.raises(Conflict, match="There is a task 'vector_sum' already"):
        drafts.create_from_form(staff, NAME, "T")


def test_clashing_name_among_several_adds_none(draft: Draft, staff: Any) -> None:
    both = {name: starter_draft(name, "T") for name in ("another", NAME)}
    with pytest.raises(Conflict):
        drafts.create(staff, both, "the archive a.zip")
    assert list(Draft.objects.all()) == [draft]


def test_edit_changes_the_content_and_the_state(draft: Draft, staff: Any, reviewer: Any,
                                                bench: Hardware) -> None:  # fmt: skip
    approved(draft, staff, reviewer)
    before = draft.content_hash
    drafts.save_file(draft, reviewer, "prompt.md", "Add.\r\nNow.", before)
    assert (draft.state, draft.files["prompt.md"]) == ("draft", "Add.\nNow.")
    assert draft.content_hash != before
    with pytest.raises(Conflict, match="has changed since you opened"):
        drafts.save_file(draft, staff, "prompt.md", "Mine.", before)
    with pytest.raises(Conflict, match="No check of these files has passed yet"):
        drafts.publish(draft, staff)


def test_next_step_while_a_check_is_under_way_is_no_further_check(
    draft: Draft, staff: Any, bench: Hardware
) -> None:
    checks.request_check(draft, staff)
    assert "is under way" in drafts.lacking(draft)[0]


def test_short_form_with_its_fitted_tolerance_is_a_draft_without_problems(staff: Any) -> None:
    folder = folder_of(settings.ARENA_TASKS, "mse_loss")
    names = ("task.toml", "reference.py", "fitted.toml")
    short = {name: (folder / name).read_text(encoding="utf-8") for name in names}
    (made,) = drafts.create(staff, {"my_loss": short}, "the form")
    assert problems_of("my_loss", made.files) == []
    del short["fitted.toml"]
    (missing,) = problems_of("my_loss", short)
    assert "python -m evaluation fit my_loss" in str(missing)


@pytest.mark.parametrize("path", ["../x.py", "x.py", "honest/../../x", "/task.toml", "honest/", ""])
def test_path_outside_the_folder_is_refused(draft: Draft, staff: Any, path: str) -> None:
    with pytest.raises(UserError, match="is no file of a task"):
        drafts.save_file(draft, staff, path, "")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 300_000])
def test_text_that_is_no_text_is_refused(draft: Draft, staff: Any, text: str) -> None:
    with pytest.raises(UserError):
        drafts.save_file(draft, staff, "prompt.md", text)


def test_removed_file_is_a_problem(draft: Draft, staff: Any) -> None:
    drafts.remove_file(draft, staff, "baseline/cpp.cpp")
    assert str(drafts.problems_of(NAME, draft.files)[0]).startswith("baseline/cpp.cpp: no such")
    with pytest.raises(NotFound):
        drafts.remove_file(draft, staff, "baseline/cpp.cpp")


def test_reference_is_parsed_and_never_run(draft: Draft, staff: Any, tmp_path: Path) -> None:
    trap = tmp_path / "was-run"
    text = draft.files["reference.py"] + f"\nopen({str(trap)!r}, 'w')\n"
    drafts.save_file(draft, staff, "reference.py", text)
    assert drafts.problems_of(NAME, draft.files) == []
    publish_folder(NAME, draft.files, draft.content_hash)
    assert not trap.exists()


@pytest.mark.parametrize(
    ("path", "edit", "message"),
    [
        ("task.toml", lambda t: t + "x", "task.toml: not TOML"),
        ("task.toml", lambda t: "[" * 9_000, "task.toml: not TOML"),
        ("task.toml", lambda t: "a = " + "[" * 9_000, "task.toml: cannot be read: RecursionError"),
        ("task.toml", lambda t: t.replace("c1 = 4.0", "c1 = 1" + "0" * 400), "task.toml: cannot"),
        ("task.toml", lambda t: t.replace('"Vector', '"' + "V" * 201), "task.toml: title: longer"),
        ("task.toml", lambda t: t.replace("level = 1 ", "level = 10 "), "task.toml: level: 10 is"),
        ("reference.py", lambda t: t + "def (", "reference.py: line 2"),
        ("reference.py", lambda t: "(" * 9_000, "reference.py: line 1: too many nested"),
        ("reference.py", lambda t: t.replace("def reference", "def price"), "reference.py: ref"),
        ("honest/odd.cpp", lambda t: "", "honest/odd.cpp: name it <name>.<language>.<suffix>"),
        ("mutants/no_scale.cpp.toml", lambda t: t.replace("args->a", "args->b"), "mutants/no_sc"),
    ],
)
def test_problem_names_the_file(
    draft: Draft, path: str, edit: Callable[[str], str], message: str
) -> None:
    files = {**draft.files, path: edit(draft.files.get(path, ""))}
    found = drafts.problems_of(NAME, files)
    assert str(found[0]).startswith(message) and len(found) == len(set(found))


def test_review_needs_a_passed_check(draft: Draft, staff: Any, bench: Hardware) -> None:
    with pytest.raises(Conflict, match="No check of these files has passed yet"):
        drafts.request_review(draft, staff)
    checked(draft, staff, False, {"type": "check", "name": "cost", "ok": False, "message": "m"})
    with pytest.raises(Conflict, match="A check of these files failed"):
        drafts.request_review(draft, staff)


def test_author_cannot_review(draft: Draft, staff: Any, bench: Hardware) -> None:
    checked(draft, staff)
    drafts.request_review(draft, staff)
    with pytest.raises(Forbidden, match="by a second person"):
        drafts.review(draft, staff, draft.content_hash, True, "")
    with pytest.raises(IntegrityError), transaction.atomic():
        Review.objects.create(
            draft=draft, content_hash="", author=staff, reviewer=staff, approved=True
        )


@pytest.mark.parametrize("change", ["save", "remove", "replace"])
def test_editor_cannot_review_what_they_changed(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware, change: str
) -> None:
    if change == "save":
        drafts.save_file(draft, reviewer, "prompt.md", "Add.")
    elif change == "remove":
        drafts.save_file(draft, staff, "honest/spare.cpp", draft.files["baseline/cpp.cpp"])
        drafts.remove_file(draft, reviewer, "honest/spare.cpp")
    else:
        drafts.replace_files(draft, reviewer, {**draft.files, "prompt.md": "Add."}, "an upload")
    checked(draft, staff)
    drafts.request_review(draft, reviewer)
    for approves in (True, False):
        with pytest.raises(Forbidden, match="You edited this draft since its last approval"):
            drafts.review(draft, reviewer, draft.content_hash, approves, "Fine.")
    third = get_user_model().objects.create_user("mary", is_staff=True)
    drafts.review(draft, third, draft.content_hash, True, "")
    assert draft.state == "approved"


def test_editor_can_review_again_after_an_approval(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware
) -> None:
    third = get_user_model().objects.create_user("mary", is_staff=True)
    drafts.save_file(draft, reviewer, "prompt.md", "Add.")
    approved(draft, staff, third)
    drafts.save_file(draft, third, "prompt.md", "Add the two.")
    checked(draft, staff)
    drafts.request_review(draft, staff)
    with pytest.raises(Forbidden, match="You edited this draft"):
        drafts.review(draft, third, draft.content_hash, True, "")
    drafts.review(draft, reviewer, draft.content_hash, True, "")
    assert draft.state == "approved"


def test_review_of_other_content_is_refused(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware
) -> None:
    checked(draft, staff)
    drafts.request_review(draft, staff)
    with pytest.raises(Conflict, match="not in review any more"):
        drafts.review(draft, reviewer, "f" * 64, True, "")
    with pytest.raises(UserError, match="needs a comment"):
        drafts.review(draft, reviewer, draft.content_hash, False, " ")
    outsider = get_user_model().objects.create_user("eve")
    with pytest.raises(Forbidden):
        drafts.review(draft, outsider, draft.content_hash, True, "")
    drafts.review(draft, reviewer, draft.content_hash, False, "The prompt is short.")
    assert draft.state == "draft"


def test_unreviewed_draft_cannot_be_published(draft: Draft, staff: Any, reviewer: Any,
                                              bench: Hardware) -> None:  # fmt: skip
    checked(draft, staff)
    with pytest.raises(Conflict, match="Nobody has approved"):
        drafts.publish(draft, staff)
    approved(draft, staff, reviewer)
    with pytest.raises(Forbidden, match="Only staff publish"):
        drafts.publish(draft, reviewer)
    assert not Task.objects.exists()


def test_published_draft_is_an_immutable_version_on_every_worker(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware, tmp_path: Path,
    settings: Any,
) -> None:  # fmt: skip
    approved(draft, staff, reviewer)
    versions = drafts.publish(draft, staff)
    slugs = [version.task.slug for version in versions]
    assert slugs == [
        f"{NAME}/{track}" for track in ("torch-to-cpp", "cpp-to-cpp", "torch-to-torch")
    ]
    assert all(version.task.takes_runs for version in versions)
    settings.ARENA_HOME = tmp_path  # of a worker on another machine
    root = root_of(versions[1])
    assert root == tmp_path / "tasks" / draft.content_hash
    loaded = load_task(root, NAME, "cpp-to-cpp")
    assert loaded.hash == versions[1].content_hash
    assert root_of(versions[0]) == root
    assert not list((tmp_path / "tasks").glob(".new-*"))


def test_admission_of_the_check_is_stored_with_the_version(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware, tmp_path: Path
) -> None:
    published = publish_folder("other_name", starter_draft("other_name", "T"), "0" * 64)
    drafts.create(staff, {"second": starter_draft("second", "T")}, "x")
    slug, digest = published[0].task.slug, published[0].content_hash
    checked(draft, staff, True, admission(slug, digest))
    drafts.request_review(draft, staff)
    drafts.review(draft, reviewer, draft.content_hash, True, "")
    drafts._store_admissions(draft, published)
    published[0].refresh_from_db()
    assert published[0].admitted
    assert published[0].admission["elsewhere"][0]["device"] == "A CPU"


def test_sync_keeps_what_was_published_in_the_browser(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware, tmp_path: Path
) -> None:
    approved(draft, staff, reviewer)
    drafts.publish(draft, staff)
    report = sync_tasks(tmp_path)
    assert report.missing == []
    assert Task.objects.filter(in_tree=True).count() == 3
    write_files(tmp_path / NAME, starter_draft(NAME, "Of the checkout"))
    report = sync_tasks(tmp_path)
    assert (report.curated, report.changed) == ([NAME], [])
    assert Task.objects.first().operator.title == "Vector sum"


def test_next_version_drops_tracks_and_keeps_the_old_version(
    draft: Draft, staff: Any, reviewer: Any, bench: Hardware
) -> None:
    approved(draft, staff, reviewer)
    first = drafts.publish(draft, staff)
    again = drafts.edit_published(staff, NAME)
    assert again.files == draft.files
    toml = again.files["task.toml"].replace('"torch-to-cpp", ', "")
    drafts.save_file(again, staff, "task.toml", toml)
    approved(again, staff, reviewer)
    drafts.publish(again, staff)
    dropped = Task.objects.get(track="torch-to-cpp")
    assert not dropped.takes_runs
    assert dropped.versions.get() == first[0]
    assert TaskFolder.objects.count() == 2


def test_task_of_the_checkout_becomes_a_draft(staff: Any, tmp_path: Path, settings: Any) -> None:
    write_files(tmp_path / NAME, starter_draft(NAME, "Vector sum"))
    settings.ARENA_TASKS = tmp_path
    sync_tasks(tmp_path)
    assert drafts.edit_published(staff, NAME).files == starter_draft(NAME, "Vector sum")
    with pytest.raises(NotFound):
        drafts.edit_published(staff, "unknown")


def test_task_is_retired_with_a_reason(staff: Any, reviewer: Any) -> None:
    task = publish_folder(NAME, starter_draft(NAME, "T"), "0" * 64)[0].task
    with pytest.raises(UserError, match="needs a reason"):
        drafts.set_task_status(task, staff, "retired", " ")
    with pytest.raises(Forbidden):
        drafts.set_task_status(task, reviewer, "retired", "Old.")
    with pytest.raises(UserError, match="cannot become 'draft'"):
        drafts.set_task_status(task, staff, "draft", "Old.")
    drafts.set_task_status(task, staff, "retired", "Old.")
    assert task.status == "retired"
    with pytest.raises(Conflict):
        drafts.set_task_status(task, staff, "retired", "Old.")
    assert AuditEntry.objects.filter(action="task.retire", text="Old.").count() == 1


def test_check_needs_a_worker(draft: Draft, staff: Any) -> None:
    with pytest.raises(Conflict, match="No worker that measures is online"):
        checks.request_check(draft, staff)


def test_second_check_on_the_same_hardware_is_refused(
    draft: Draft, staff: Any, bench: Hardware
) -> None:
    checks.request_check(draft, staff)
    with pytest.raises(Conflict, match="waits or runs"):
        checks.request_check(draft, staff)


def test_check_is_claimed_once_and_retried_once(draft: Draft, staff: Any, bench: Hardware) -> None:
    check = checks.request_check(draft, staff)
    assert checks.claim_check(check.pk, LEASE)
    assert checks.claim_check(check.pk, "another") is None
    checks.add_steps(check.pk, "another", [{"type": "task", "count": 1}])
    assert not check.steps.exists()
    checks.add_steps(check.pk, LEASE, [{"type": "task", "count": 3}, {"type": "attempt"}])
    assert checks.break_check(check.pk, LEASE, "gone")
    check.refresh_from_db()
    assert (check.status, check.total, check.steps.count()) == ("queued", 0, 0)
    assert checks.claim_check(check.pk, LEASE)
    assert checks.break_check(check.pk, LEASE, "gone again")
    check.refresh_from_db()
    assert (check.status, check.message) == ("broken", "gone again")


def test_check_of_files_that_changed_meanwhile_judges_no_others(
    draft: Draft, staff: Any, bench: Hardware
) -> None:
    """Else files that pass could be judged in the place of those that are then published."""
    before = dict(draft.files)
    check = checks.request_check(draft, staff)
    drafts.save_file(draft, staff, "prompt.md", "Files that pass.")
    assert checks.claim_check(check.pk, LEASE) is None
    assert not checks.finish_check(check.pk, LEASE, True)
    drafts.replace_files(draft, staff, before, "an archive")
    assert draft.content_hash == check.content_hash and drafts.lacking(draft)
    check.refresh_from_db()
    assert check.status == "broken" and "changed" in check.message


def test_silent_worker_loses_its_check(draft: Draft, staff: Any, bench: Hardware) -> None:
    check = checks.request_check(draft, staff)
    checks.claim_check(check.pk, LEASE)
    Check.objects.update(heartbeat_at="2020-01-01T00:00Z")
    assert checks.reap_checks() == 1
    check.refresh_from_db()
    assert check.status == "queued"
    assert not checks.heartbeat_check(check.pk, LEASE)


def test_cancelled_check_stops_its_worker(draft: Draft, staff: Any, bench: Hardware) -> None:
    check = checks.request_check(draft, staff)
    checks.claim_check(check.pk, LEASE)
    checks.cancel_check(check, staff)
    assert not checks.heartbeat_check(check.pk, LEASE)
    with pytest.raises(Conflict):
        checks.cancel_check(check, staff)


def test_discarded_draft_frees_its_name(draft: Draft, staff: Any) -> None:
    drafts.discard(draft, staff)
    with pytest.raises(Conflict, match="closed"):
        drafts.save_file(draft, staff, "prompt.md", "x")
    assert drafts.create_from_form(staff, NAME, "Again").pk != draft.pk
