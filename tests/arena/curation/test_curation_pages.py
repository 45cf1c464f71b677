"""Tests of the pages of curation: access, uploads, refusals, and bad input."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from arena.catalog.models import Hardware, Operator, Task
from arena.catalog.sync import publish_folder
from arena.curation import drafts
from arena.curation.models import Check, Draft
from arena.curation.short_form import EXAMPLE
from arena.curation.starter import starter_draft
from tests.arena.curation.conftest import NAME, admission, checked
from tests.arena.curation.test_archives import in_folder, lying_bomb, tarred, zipped

ATTEMPT = {
    "type": "attempt", "task": f"{NAME}/cpp-to-cpp", "role": "honest", "name": "pointers",
    "verdict": "passed", "reason": None, "as_expected": True, "seconds": 1, "message": "",
}  # fmt: skip


@pytest.fixture
def page(client: Client, staff: Any) -> Client:
    client.force_login(staff)
    return client


def upload(client: Client, content: bytes, **more: Any) -> Any:
    data = {"archive": SimpleUploadedFile("task.zip", content), **more}
    return client.post(reverse("draft-new"), data)


def every_page(draft: Draft, check: Check) -> list[str]:
    return [
        reverse("curate"), reverse("draft-new"), reverse("draft", args=[draft.pk]),
        reverse("draft-diff", args=[draft.pk]), reverse("draft-file", args=[draft.pk]),
        reverse("draft-file", args=[draft.pk]) + "?path=task.toml",
        reverse("check", args=[check.pk]), reverse("check-steps", args=[check.pk]),
    ]  # fmt: skip


def test_only_reviewers_and_staff_see_the_pages(
    client: Client, draft: Draft, staff: Any, reviewer: Any, bench: Hardware, django_user_model: Any
) -> None:
    attempt = {"type": "attempt", "task": f"{NAME}/cpp-to-cpp", "name": "no_scale", "seconds": 1}
    check = checked(draft, staff, True, attempt, admission(f"{NAME}/cpp-to-cpp", "0" * 64))
    addresses = every_page(draft, check)
    assert {client.get(address).status_code for address in addresses} == {302}
    client.force_login(django_user_model.objects.create_user("eve"))
    assert {client.get(address).status_code for address in addresses} == {403}
    for user in (reviewer, staff):
        client.force_login(user)
        assert {client.get(address).status_code for address in addresses} == {200}


def test_reviewer_cannot_retire_a_task(client: Client, reviewer: Any) -> None:
    task = publish_folder(NAME, starter_draft(NAME, "T"), "0" * 64)[0].task
    client.force_login(reviewer)
    address = reverse("task-status", args=[NAME, task.track])
    assert client.post(address, {"status": "retired", "reason": "r"}).status_code == 403


def test_archive_becomes_a_draft(page: Client) -> None:
    answer = upload(page, zipped(in_folder()))
    draft = Draft.objects.get()
    assert answer.url == reverse("draft", args=[draft.pk])
    assert draft.files == dict(sorted(starter_draft(NAME, "Vector sum").items()))
    assert b"No worker that measures is online" in page.get(answer.url).content


def test_archive_without_a_folder_takes_the_name_of_the_form(page: Client) -> None:
    packed = zipped(starter_draft("named", "T"))
    assert upload(page, packed).status_code == 422
    assert upload(page, packed, name="named").status_code == 302
    assert Draft.objects.get().name == "named"


def test_folder_is_uploaded_with_its_paths(page: Client) -> None:
    uploads = [SimpleUploadedFile(path, text.encode()) for path, text in in_folder().items()]
    data = {"folder": uploads, "paths": list(in_folder())}
    assert page.post(reverse("draft-new"), data).status_code == 302
    assert Draft.objects.get().name == NAME
    del data["paths"]
    assert page.post(reverse("draft-new"), data).status_code == 422


@pytest.mark.parametrize(
    "content",
    [
        b"no archive", lying_bomb(), tarred({"../../x/task.toml": "x"}), zipped({"a1/b.sh": ""}),
        zipped({**in_folder("one"), **in_folder("two"), "two/run.sh": "x"}),
    ],
)  # fmt: skip
def test_refused_archive_adds_nothing(page: Client, content: bytes) -> None:
    answer = upload(page, content)
    assert answer.status_code == 422
    assert b'role="alert"' in answer.content
    assert not Draft.objects.exists()


def test_clashing_name_is_refused_on_the_page(page: Client, draft: Draft) -> None:
    answer = upload(page, zipped({**in_folder("another"), **in_folder()}))
    assert answer.status_code == 409
    assert b"an open draft" in answer.content
    assert Draft.objects.count() == 1


def beside(form: str, page: str) -> str:
    """Return what the page of a new task shows within one of its forms."""
    found = re.search(rf'<form[^>]*aria-labelledby="by-{form}".*?</form>', page, re.DOTALL)
    assert found
    return html.unescape(found[0])


SHORT = {**EXAMPLE, "from": "short", "languages": ["cpp"], "name": NAME}
START = {"from": "form", "name": NAME, "title": "T"}
FOLDER = {"archive": in_folder()}
FILES = {"archive": starter_draft(NAME, "T"), "name": NAME}


@pytest.mark.parametrize(
    ("form", "sent", "hint"),
    [
        ("short", SHORT, "Choose another name."),
        ("form", START, "Choose another name."),
        ("upload", FOLDER, "Rename the folder."),
        ("upload", FILES, "Choose another name."),
    ],
)
def test_name_of_a_task_is_refused_beside_its_form_with_a_link(
    page: Client, form: str, sent: dict[str, Any], hint: str
) -> None:
    publish_folder(NAME, starter_draft(NAME, "T"), "0" * 64)
    more = {}
    if files := sent.get("archive"):
        more["archive"] = SimpleUploadedFile("task.zip", zipped(files))
    answer = page.post(reverse("draft-new"), {**sent, **more})
    text = answer.content.decode()
    assert answer.status_code == 409 and text.count('role="alert"') == 1
    link = f'<a href="/curate/?q={NAME}">Change that task instead</a>'
    assert f"There is a task {NAME!r} already. {hint} {link}" in beside(form, text)
    assert text.count(" autofocus") == beside(form, text).count(" autofocus") == 1
    assert NAME in page.get(f"/curate/?q={NAME}").content.decode()


def test_wrong_title_is_marked_in_the_form_that_was_sent_alone(page: Client) -> None:
    text = page.post(reverse("draft-new"), {**START, "title": " "}).content.decode()
    assert "A task needs a title" in beside("form", text) and f'value="{NAME}"' in beside(
        "form", text
    )
    for other in ("short", "upload"):
        assert "aria-invalid" not in beside(other, text) and NAME not in beside(other, text)


def test_another_draft_of_a_task_is_refused_with_a_link_to_the_open_one(
    page: Client, staff: Any
) -> None:
    publish_folder(NAME, starter_draft(NAME, "T"), "0" * 64)
    address = reverse("draft-of-task", args=[NAME])
    page.post(address)
    shown = page.post(address, follow=True).content.decode()
    assert f'<a href="{Draft.objects.get().get_absolute_url()}">Open that draft</a>' in shown


def test_form_with_a_bad_name_is_shown_again(page: Client) -> None:
    answer = page.post(reverse("draft-new"), {"from": "form", "name": "A b", "title": "T"})
    assert answer.status_code == 422
    assert b"is no name of a task" in answer.content


def test_file_is_saved_without_javascript(page: Client, draft: Draft) -> None:
    address = reverse("draft-file", args=[draft.pk]) + "?path=prompt.md"
    data = {"path": "prompt.md", "text": "Add them.\r\n", "content": draft.content_hash}
    assert page.post(address, data).status_code == 302
    draft.refresh_from_db()
    assert draft.files["prompt.md"] == "Add them.\n"
    conflicting = page.post(address, {**data, "text": "Mine."})
    assert conflicting.status_code == 409
    assert b"Mine." in conflicting.content


def test_text_is_shown_as_it_is(page: Client, draft: Draft) -> None:
    address = reverse("draft-file", args=[draft.pk]) + "?path=prompt.md"
    data = {"path": "prompt.md", "text": "\n</textarea><script>", "content": draft.content_hash}
    page.post(address, data)
    shown = page.get(address).content.decode()
    assert "\n\n&lt;/textarea&gt;&lt;script&gt;</textarea>" in shown


def test_validation_answers_with_the_problems(page: Client, draft: Draft) -> None:
    address = reverse("draft-validate", args=[draft.pk])
    body = {"path": "task.toml", "text": "title = 1"}
    found = page.post(address, json.dumps(body), "application/json").json()
    assert found["problems"][0]["path"] == "task.toml"
    body = {"path": "task.toml", "text": draft.files["task.toml"]}
    assert page.post(address, json.dumps(body), "application/json").json() == {"problems": []}


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"path": 1}', "[" * 20_000, "nul\0"])
def test_validation_of_no_file_is_a_bad_request(page: Client, draft: Draft, body: str) -> None:
    address = reverse("draft-validate", args=[draft.pk])
    assert page.post(address, body, "application/json").status_code == 400


@pytest.mark.parametrize(
    "body", ['{"path": "x", "text": ""}', '{"path": "prompt.md", "text": "\\ud800"}']
)
def test_validation_of_a_refused_file_says_so(page: Client, draft: Draft, body: str) -> None:
    answer = page.post(reverse("draft-validate", args=[draft.pk]), body, "application/json")
    assert len(answer.json()["problems"]) == 1


def test_unknown_things_are_not_found(page: Client, draft: Draft) -> None:
    for name in ("draft", "draft-diff", "draft-file", "check", "check-steps"):
        assert page.get(reverse(name, args=[999])).status_code == 404
    answer = page.post(reverse("draft-act", args=[draft.pk, "explode"]), follow=True)
    assert b"There is no action" in answer.content
    answer = page.post(reverse("draft-of-task", args=["unknown"]), follow=True)
    assert b"There is no task" in answer.content


def test_failed_check_names_the_mutant_that_passes(
    page: Client, draft: Draft, staff: Any, bench: Hardware
) -> None:
    attempt = ATTEMPT | {"role": "mutant", "name": "no_scale", "as_expected": False}
    check = checked(draft, staff, False, attempt, admission(f"{NAME}/cpp-to-cpp", "0", False))
    shown = page.get(reverse("check", args=[check.pk])).content.decode()
    assert "mutant no_scale passed" in shown
    assert "not as expected" in shown
    answer = page.post(reverse("draft-act", args=[draft.pk, "request-review"]), follow=True)
    assert "A check of these files failed" in answer.content.decode()


def test_traceback_of_a_crashed_mutant_shows_its_last_line_first(
    page: Client, draft: Draft, staff: Any, bench: Hardware
) -> None:
    lines = ("Traceback (most recent call last):", '  File "x.py", line 3', "ValueError: <b>")
    attempt = ATTEMPT | {
        "role": "mutant", "name": "squared", "verdict": "failed", "reason": "CRASH",
        "as_expected": False, "message": "\n".join(lines),
    }  # fmt: skip
    check = checked(draft, staff, False, attempt, admission(f"{NAME}/cpp-to-cpp", "0", False))
    shown = page.get(reverse("check", args=[check.pk])).content.decode()
    cell = shown.partition('data-label="Found"')[2].partition("</td>")[0]
    first, _, folded = cell.partition("<details>")
    assert "ValueError: &lt;b&gt;" in first and "Traceback" not in first
    whole = "\n".join(lines).replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert re.search(r"<pre[^>]*>(.*?)</pre>", folded, re.DOTALL)[1] == whole


def test_inconclusive_step_is_marked_and_does_not_count_as_judged(
    page: Client, draft: Draft, staff: Any, bench: Hardware
) -> None:
    disturbed = ATTEMPT | {
        "name": "pointers, timed", "verdict": "inconclusive", "reason": "MACHINE_BUSY",
        "as_expected": False, "message": "98 of 100 pairs of windows were disturbed",
    }  # fmt: skip
    check = checked(draft, staff, False, ATTEMPT, disturbed)
    shown = page.get(reverse("check", args=[check.pk])).content.decode()
    assert "1 implementation judged" in shown
    row = shown.partition("pointers, timed")[2].partition("</tr>")[0]
    assert 'data-verdict="inconclusive"' in row and "98 of 100 pairs" in row
    assert "not as expected" not in shown


def test_tasks_are_listed_by_pages_and_searched_by_words(page: Client, staff: Any) -> None:
    names = [f"task{number:02}" for number in range(52)]
    for name in names:
        operator = Operator.objects.create(slug=name, title=f"Title of {name}", level=1)
        Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
    drafts.create_from_form(staff, "scaled_sum", "Scaled sum")
    drafts.create_from_form(staff, "other_sum", "Other sum")

    def listed(query: str) -> list[str]:
        text = page.get(reverse("curate") + query).content.decode()
        return re.findall(r'href="/tasks/(task\d+)/cpp-to-cpp/"', text)

    assert (listed(""), listed("?page=2")) == (names[:20], names[20:40])
    assert listed("?q=title+task51") == ["task51"]
    first = page.get(reverse("curate")).content.decode()
    assert "1 to 20 of 52 operators" in first and 'rel="next"' in first
    found = page.get(reverse("curate") + "?q=scaled").content.decode()
    assert "scaled_sum" in found and "other_sum" not in found and "No task matches" in found


def test_tasks_are_listed_by_state_which_a_retirement_keeps(page: Client) -> None:
    tasks = [
        publish_folder(name, starter_draft(name, "T"), "0" * 64)[0].task
        for name in ("one_", "two_")
    ]
    address = reverse("task-status", args=["one_", tasks[0].track])
    form = {"status": "retired", "reason": "It is too easy.", "back": "q=one&state=published"}
    answer = page.post(address, form)
    assert answer.url == reverse("curate") + "?q=one&state=published"

    def listed(state: str) -> set[str]:
        text = page.get(reverse("curate"), {"state": state}).content.decode()
        return set(re.findall(r'href="/tasks/([^"]+)/"', text))

    retired = {tasks[0].slug}
    assert listed("retired") == retired
    assert listed("published") == listed("") - retired and tasks[1].slug in listed("published")
    assert "Reason: It is too easy." in page.get(f"/tasks/one_/{tasks[0].track}/").content.decode()


def test_reviewer_reads_that_the_reference_decides_what_is_right(
    client: Client, draft: Draft, staff: Any, reviewer: Any, bench: Hardware
) -> None:
    checked(draft, staff, True, admission(f"{NAME}/cpp-to-cpp", "0" * 64))
    drafts.request_review(draft, staff)
    client.force_login(reviewer)
    shown = client.get(reverse("draft", args=[draft.pk])).content.decode()
    assert "The reference decides what is right once it is published" in shown


def test_tracks_that_no_check_judged_are_published_by_a_confirmation_alone(
    page: Client, draft: Draft, staff: Any, reviewer: Any, bench: Hardware
) -> None:
    checked(draft, staff, True, admission(f"{NAME}/cpp-to-cpp", "0" * 64))
    drafts.request_review(draft, staff)
    drafts.review(draft, reviewer, draft.content_hash, True, "")
    address = reverse("draft", args=[draft.pk])
    named = "torch-to-cpp, torch-to-torch"
    assert f"{named} too" in page.get(address).content.decode()
    publish = reverse("draft-act", args=[draft.pk, "publish"])
    refused = page.post(publish, follow=True).content.decode()
    assert f"No check has judged {named}" in refused and not Task.objects.exists()
    page.post(publish, {"unjudged": "1"})
    assert Task.objects.count() == 3
    shown = page.get(f"/tasks/{NAME}/torch-to-cpp/").content.decode()
    assert "<strong>Not admitted.</strong>" in shown
    assert "not admitted</span>" in page.get("/tasks/").content.decode()


def test_page_of_a_new_task_describes_the_short_form(page: Client) -> None:
    text = page.get(reverse("draft-new")).content.decode()
    assert "short form needs three files" in text and "fitted.toml" in text
    assert "python -m evaluation fit NAME --tasks FOLDER" in text
