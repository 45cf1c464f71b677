"""Tests of a task in the short form that is written and fitted in the browser."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.catalog.models import Hardware
from arena.catalog.task_folders import write_files
from arena.curation import checks, drafts
from arena.curation.models import Draft
from arena.curation.short_form import EXAMPLE
from arena.curation.validation import lacks_tolerance, problems_of
from arena.errors import Conflict
from evaluation.tasks.spec import reference_hash
from tests.arena.factories import LEASE

FIELDS = {**EXAMPLE, "from": "short", "languages": ["triton", "cpp"]}


@pytest.fixture
def page(client: Client, staff: Any) -> Client:
    client.force_login(staff)
    return client


@pytest.fixture
def short(page: Client) -> Draft:
    assert page.post(reverse("draft-new"), FIELDS).status_code == 302
    return Draft.objects.get()


def fitted_text(draft: Draft, folder: Path) -> str:
    """Return a fit of a draft, as the judge writes it."""
    found = [str(problem) for problem in problems_of(draft.name, draft.files)]
    assert len(found) == 1 and "no tolerance" in found[0], found
    (folder / draft.name).mkdir(exist_ok=True)
    write_files(folder / draft.name, draft.files)
    digest = reference_hash(folder / draft.name)
    constants = "".join(
        f"{dtype} = {{ c1 = 4.0, c2 = 2.0 }}\n" for dtype in ("float32", "float16", "bfloat16")
    )
    return f'reference = "{digest}"\n\n[tolerance]\n{constants}'


def end_fit(draft: Draft, user: Any, text: str) -> None:
    check = checks.request_fit(draft, user)
    assert checks.claim_check(check.pk, LEASE)
    body = {"type": "fitted", "task": draft.name, "text": text, "summary": "float32 c1 4 c2 2"}
    checks.add_steps(check.pk, LEASE, [body])
    assert checks.finish_check(check.pk, LEASE, True)


def test_form_offers_fields_that_are_a_task_by_themselves(page: Client) -> None:
    text = page.get(reverse("draft-new")).content.decode()
    for name in EXAMPLE:
        assert f'name="{name}"' in text
    assert "def reference(x, limit):" in text


def test_fields_of_the_form_become_a_draft_that_lacks_a_tolerance_alone(
    page: Client, short: Draft, bench: Hardware
) -> None:
    assert set(short.files) == {"task.toml", "reference.py"}
    assert 'languages = ["triton", "cpp"]' in short.files["task.toml"]
    assert lacks_tolerance(short.name, short.files)
    shown = page.get(short.get_absolute_url()).content.decode()
    assert "Fit the tolerance" in shown and "The files have" not in shown


def test_tolerance_is_fitted_and_used_by_two_presses(
    page: Client, short: Draft, staff: Any, bench: Hardware, tmp_path: Path
) -> None:
    act = reverse("draft-act", args=[short.pk, "fit"])
    assert "The fit waits for A CPU" in page.post(act, follow=True).content.decode()
    assert "being fitted" in page.get(short.get_absolute_url()).content.decode()
    check = short.checks.get()
    assert check.fits
    assert "Fit of" in page.get(reverse("check", args=[check.pk])).content.decode()
    checks.cancel_check(check, staff)
    end_fit(short, staff, fitted_text(short, tmp_path))
    shown = page.get(short.get_absolute_url()).content.decode()
    assert "float32 c1 4 c2 2" in shown and "Use this tolerance" in shown
    page.post(reverse("draft-act", args=[short.pk, "use-fit"]))
    short.refresh_from_db()
    assert "fitted.toml" in short.files and problems_of(short.name, short.files) == []
    shown = page.get(short.get_absolute_url()).content.decode()
    assert "Run the checks" in shown and "No check of these files has passed yet" in shown


def test_fault_that_a_fit_finds_is_a_problem_of_the_draft_until_its_file_changes(
    page: Client, short: Draft, staff: Any, bench: Hardware
) -> None:
    check = checks.request_fit(short, staff)
    assert checks.claim_check(check.pk, LEASE)
    message = "reference.py: line 5: AttributeError: no attribute 'clmp'"
    assert checks.finish_check(check.pk, LEASE, False, message)
    shown = html.unescape(page.get(short.get_absolute_url()).content.decode())
    assert "The files have 1 problem" in shown and "</a>: line 5: AttributeError: no att" in shown
    assert "Fit the tolerance" not in shown
    drafts.save_file(short, staff, "reference.py", short.files["reference.py"] + "# clamp\n")
    shown = html.unescape(page.get(short.get_absolute_url()).content.decode())
    assert "Fit the tolerance" in shown and "The files have 1 problem" not in shown


def test_fit_that_failed_without_a_fault_of_a_file_can_be_tried_again(
    page: Client, short: Draft, staff: Any, bench: Hardware
) -> None:
    check = checks.request_fit(short, staff)
    assert checks.claim_check(check.pk, LEASE)
    assert checks.finish_check(check.pk, LEASE, False, "The check took more than 9 seconds.")
    assert "Fit the tolerance" in page.get(short.get_absolute_url()).content.decode()


def test_changed_reference_needs_another_fit(
    short: Draft, staff: Any, bench: Hardware, tmp_path: Path
) -> None:
    end_fit(short, staff, fitted_text(short, tmp_path))
    drafts.use_fit(short, staff)
    with pytest.raises(Conflict, match="need no fit"):
        checks.request_fit(short, staff)
    changed = short.files["reference.py"].replace("clamp(0", "clamp(1")
    drafts.save_file(short, staff, "reference.py", changed)
    assert lacks_tolerance(short.name, short.files)
    with pytest.raises(Conflict, match="No fit of these files"):
        drafts.use_fit(short, staff)


def test_fit_of_files_that_cannot_be_read_is_refused(
    short: Draft, staff: Any, bench: Hardware
) -> None:
    drafts.save_file(short, staff, "task.toml", "title = 1")
    with pytest.raises(Conflict, match="correct their problems"):
        checks.request_fit(short, staff)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("title", " ", "needs a title"),
        ("category", "Nothing", "is no category"),
        ("level", "9", "is no level"),
        ("languages", [], "needs a language"),
        ("languages", ["cobol"], "needs a language"),
        ("name", "A b", "is no name of a task"),
    ],
)
def test_wrong_field_is_refused_and_the_others_are_kept(
    page: Client, field: str, value: object, problem: str
) -> None:
    data = {**FIELDS, "reference": f"# mine\n{EXAMPLE['reference']}", field: value}
    answer = page.post(reverse("draft-new"), data)
    text = answer.content.decode()
    assert answer.status_code == 422 and problem in text
    assert "# mine" in re.search(r'name="reference".*?</textarea>', text, re.DOTALL)[0]
    assert not Draft.objects.exists()


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("arguments", "this is not toml", "Not TOML: Invalid value (at line 1, column 1)"),
        ("arguments", '{ name = "x" },\r\n{ name = ', "Not TOML: Invalid value (at line 2, column"),
        ("arguments", "]\n[domain]\nrows = [", "It holds more than the arguments"),
        ("arguments", "[" * 9_000, "Not TOML: nested too deeply"),
        ("domain", "rows = [1, 2]\nrows = 3", "Not TOML: Cannot overwrite a value (at line 2"),
        ("domain", "rows = [1", "Not TOML: Unclosed array (at its end)"),
        ("models", "a = 1\n[domain]", "It holds more than the models"),
        ("reference", "def reference(x):\n  return x.", "reference.py: line 2: invalid syntax"),
    ],
)
def test_field_that_cannot_be_parsed_is_marked_with_its_own_line_before_a_draft_exists(
    page: Client, field: str, value: str, problem: str
) -> None:
    answer = page.post(reverse("draft-new"), {**FIELDS, field: value})
    assert answer.status_code == 422 and not Draft.objects.exists()
    labels = re.findall(r"<label>.*?</label>", answer.content.decode(), re.DOTALL)
    (marked,) = (label for label in labels if 'aria-invalid="true"' in label)
    message, _, text_area = marked.partition("<textarea")
    assert f'name="{field}"' in text_area and problem in html.unescape(message)
    assert "correct the marked fields" in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "old", "new", "problem"),
    [
        ("arguments", '"output"', '"otput"', "input, output, scalar; got 'otput' (at line 2)"),
        ("arguments", '"output"', '"input"', "arguments: none has the role output; add one"),
        ("domain", "cols = [1,", "colz = [1,", "domain.cols: missing; add its sizes"),
        ("domain", "[1, 65536]", "[65536, 1]", "got (65536, 1) (at line 2)"),
        ("models", "limit = 20.0", "limit = 7.0", "7.0 lies outside the domain"),
        ("models", "cols = 1024", "colz = 1024", "models.mobilenet-v1.cols: missing"),
        ("families", "vision", " , ", "families: must be a list of strings that is not empty"),
        ("reference", '"""Clip', "# Clip", "reference.py: begin with a docstring"),
        ("reference", "(x, limit)", "(x)", "line 4: reference takes x; the arguments are x, limit"),
        ("reference", "(x, limit)", "(x, limit, y)", "line 4: reference takes x, limit, y; the"),
    ],
)
def test_field_that_makes_no_task_is_marked_before_a_draft_exists(
    page: Client, field: str, old: str, new: str, problem: str
) -> None:
    value = EXAMPLE[field].replace(old, new)
    answer = page.post(reverse("draft-new"), {**FIELDS, field: value})
    assert answer.status_code == 422 and not Draft.objects.exists()
    text = html.unescape(answer.content.decode())
    (marked,) = (
        each for each in re.findall(r"<label.*?</label>", text, re.DOTALL) if problem in each
    )
    assert 'aria-invalid="true"' in marked and f'name="{field}"' in marked


@pytest.mark.parametrize("parameters", ["x, limit=6.0", "*, limit, x, y=1", "x, **scalars"])
def test_reference_that_takes_the_arguments_in_another_way_becomes_a_draft(
    page: Client, parameters: str
) -> None:
    value = EXAMPLE["reference"].replace("(x, limit)", f"({parameters})")
    assert page.post(reverse("draft-new"), {**FIELDS, "reference": value}).status_code == 302


def test_name_of_an_open_draft_is_refused_with_a_link_to_it(page: Client, short: Draft) -> None:
    answer = page.post(reverse("draft-new"), FIELDS)
    assert answer.status_code == 409
    link = f'<a href="{short.get_absolute_url()}">Open that draft</a>'
    assert link in answer.content.decode()


def test_hostile_text_stays_in_its_field(page: Client) -> None:
    evil = 'x"\nlanguages = ["evil"]</textarea><script>'
    page.post(reverse("draft-new"), {**FIELDS, "title": evil})
    draft = Draft.objects.get()
    assert draft.files["task.toml"].count("\nlanguages = ") == 1
    shown = page.get(draft.get_absolute_url() + "file/?path=task.toml").content.decode()
    assert "&lt;/textarea&gt;&lt;script&gt;" in shown and "</textarea><script>" not in shown
