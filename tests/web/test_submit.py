"""The page that submits a kernel, and the board of submitted kernels."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from arena.catalog.models import Hardware, TaskVersion
from arena.leaderboard.kernels.kernels import ranked_kernels
from arena.leaderboard.ranking.boards import board
from arena.runs import services
from arena.runs.models import Measurement, Run
from tests.arena.factories import compiled, gate, hide, judge, report

pytestmark = pytest.mark.django_db
TASK = "relu/cpp-to-cpp"
GOOD = {"task": TASK, "source": "int relu;\r\nint x;", "scope": "final", "visibility": "public"}


@pytest.fixture(autouse=True)
def world(task, hardware) -> None:
    """A task and a device to judge it on."""


def kernel(owner, unseen: float = 1.8, judge_version: str = "1", **more) -> Run:
    """Return the judged run of a public kernel with a final verdict."""
    values = {"task_slug": TASK, "source": "int relu;", "scope": "final", "visibility": "public"}
    submission = services.submit_kernel(owner=owner, **values | more)
    content_hash = submission.run.task_version.content_hash
    outcome = report(unseen=unseen, task_hash=content_hash, judge_version=judge_version)
    judge(submission.evaluations.get(), outcome)
    return Run.objects.get(pk=submission.run_id)


def test_source_that_is_too_long_is_refused_and_not_cut(client, alice):
    client.force_login(alice)
    box = client.get("/submit/").content.decode().partition('name="source"')[2].partition(">")[0]
    assert "maxlength" not in box
    page = client.post("/submit/", GOOD | {"source": "x" * 1_000_001}).content.decode()
    assert "at most 1000000 characters (it has 1000001)" in page
    assert not Run.objects.exists()


def test_submit_page_opens_the_run_that_it_creates(client, alice):
    client.force_login(alice)
    assert "relu.cpp" in client.get("/submit/", {"task": TASK}).content.decode()
    response = client.post("/submit/", GOOD)
    run = Run.objects.get()
    assert response.url == f"/runs/{run.pk}/"
    assert (run.owner, run.visibility, run.status) == (alice, "public", "judging")
    submission = run.submissions.get()
    assert submission.files == {"relu.cpp": "int relu;\nint x;"}
    assert submission.evaluations.get().scope == "final"
    page = client.get(response.url).content.decode()
    assert "alice" in page and "no build worker is online" in page


def test_submit_page_takes_an_uploaded_file(client, alice):
    client.force_login(alice)
    upload = SimpleUploadedFile("mine.cpp", b"int relu; // uploaded")
    assert client.post("/submit/", GOOD | {"source": "", "upload": upload}).status_code == 302
    assert Run.objects.get().submissions.get().files == {"relu.cpp": "int relu; // uploaded"}


def test_submit_page_completes_a_part_of_a_name(client, alice):
    client.force_login(alice)
    assert client.post("/submit/", GOOD | {"task": "relu"}).status_code == 302


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "nothing"}, "There is no task"),
        ({"task": "\x00"}, "Null characters"),
        ({"source": "  "}, "Paste the source"),
        ({"source": "x" * 1_000_001}, "at most 1000000"),
        ({"source": "int \x00;"}, "Null characters"),
        ({"upload": SimpleUploadedFile("a.cpp", b"int;")}, "not both"),
        ({"source": "", "upload": SimpleUploadedFile("a.cpp", b"\xff\xfe")}, "not text in UTF-8"),
        ({"source": "", "upload": SimpleUploadedFile("a.cpp", b"a\x00b")}, "contains a NUL"),
        ({"source": "", "upload": SimpleUploadedFile("a.cpp", b"")}, "empty"),
        ({"source": "", "upload": SimpleUploadedFile("a", b"x" * 1_000_001)}, "1,000,001 bytes"),
        ({"source": "", "upload": SimpleUploadedFile("a.py", b"x = 1")}, "ends in .cpp, such as"),
        ({"scope": "profile"}, "valid choice"),
        ({"visibility": "staff"}, "valid choice"),
        ({"hardware": "nope"}, "valid choice"),
        ({"label": "x" * 101}, "at most 100"),
    ],
)
def test_submit_page_refuses_and_says_why(client, alice, changes, message):
    client.force_login(alice)
    page = client.post("/submit/", GOOD | changes)
    assert page.status_code == 422 and message in page.content.decode()
    assert not Run.objects.exists()


def test_submit_page_with_a_huge_body_is_refused(client, alice):
    client.force_login(alice)
    assert client.post("/submit/", GOOD | {"source": "x" * 3_000_000}).status_code in (400, 413)


def test_submit_page_at_the_limit_gives_the_reason(client, alice, settings):
    settings.MAX_DAILY_FINALS = 0
    client.force_login(alice)
    page = client.post("/submit/", GOOD)
    assert page.status_code == 422 and "Wait until the oldest" in page.content.decode()


def test_owner_of_a_kernel_submits_it_again_from_its_page(client, alice, charlie, hardware):
    more = {"label": "tiles", "visibility": "owner", "source": "int relu; // <mine>"}
    run = services.submit_kernel(
        owner=alice, task_slug=TASK, hardware_slug=hardware.slug, scope="round", **more
    ).run
    client.force_login(alice)
    link = f"/submit/?from={run.pk}"
    assert f'<a href="{link}">Submit again</a>' in client.get(f"/runs/{run.pk}/").content.decode()
    form = client.get(link).context["form"]
    assert {**more, "task": TASK, "scope": "round", "hardware": hardware.slug} == {
        name: form[name].value() for name in (*more, "task", "scope", "hardware")
    }
    assert "int relu; // &lt;mine&gt;" in client.get(link).content.decode()
    hide(run, "public")
    client.force_login(charlie)
    assert "Submit again" not in client.get(f"/runs/{run.pk}/").content.decode()
    assert "relu" not in str(client.get(link).context["form"]["source"].value())
    for unknown in ("nothing", ""):
        assert client.get(f"/submit/?from={unknown}&task={TASK}").status_code == 200


def test_kernel_that_could_not_be_measured_has_the_reason_once(client, alice):
    why = "processor busy 74 % of the time: inconclusive"
    submission = services.submit_kernel(owner=alice, task_slug=TASK, source="int relu;")
    busy = gate("performance", "inconclusive", "MACHINE_BUSY", message=why)
    gates = (gate("integrity"), compiled(), gate("correctness"), busy)
    for _ in range(2):
        judge(submission.evaluations.get(), report("inconclusive", message=why, gates=gates))
    client.force_login(alice)
    page = client.get(f"/runs/{submission.run_id}/?tab=results").content.decode()
    assert page.count(why) == 1 and f"Not judged, and not counted: {why}" in page
    assert "Arena fault" not in page and "Submit again" in page


def test_every_page_of_a_kernel_names_the_user_who_submitted_it(client, alice, charlie):
    run, other = kernel(alice), kernel(charlie)
    pages = ("", "rounds/1/", "notes/", "events/1/", "trace.md")
    compared = f"/compare/?run={run.pk}&run={other.pk}"
    for address in [*(f"/runs/{run.pk}/{page}" for page in pages), compared]:
        page = client.get(address)
        assert page.status_code == 200, address
        assert "alice" in page.content.decode(), address
        assert "Direct submission" not in page.content.decode(), address


def test_kernels_rank_by_the_held_out_interval_one_for_each_user(client, alice, charlie):
    kernel(alice, 1.2)
    best = kernel(alice, 2.5, label="tiles")
    other = kernel(charlie, 1.9)
    assert [(run.pk, run.rank) for run in ranked_kernels()] == [(best.pk, 1), (other.pk, 2)]
    page = client.get("/kernels/", {"task": TASK}).content.decode()
    assert page.index("tiles") < page.index("charlie") and "2.50×" in page
    assert board().rows == []


def test_kernels_show_the_memory_of_their_public_cases(client, alice):
    measured = Measurement.objects.filter(evaluation__submission__run=kernel(alice, 2.5))
    measured.filter(split="seen").update(memory_bytes=256 << 20, baseline_memory_bytes=0)
    measured.filter(split="unseen").update(memory_bytes=999 << 20)

    page = client.get("/kernels/", {"task": TASK}).content.decode()

    assert "256\u202fMiB" in page and "baseline 0\u202fMiB" in page and "999\u202fMiB" not in page


def test_kernels_that_do_not_count_are_on_no_board(client, alice, task):
    hide(kernel(alice), "owner")
    submission = services.submit_kernel(
        task_slug=TASK, source="int;", owner=alice, visibility="public"
    )
    judge(submission.evaluations.get(), report(unseen=None))
    assert not ranked_kernels()
    kernel(alice)
    TaskVersion.objects.create(task=task, content_hash="b" * 64, public={"target_file": "r.cpp"})
    assert not ranked_kernels(), "its version of the task is not the newest"
    assert "No kernel has passed" in client.get("/kernels/").content.decode()


def test_kernels_of_each_version_of_the_judge_rank_apart(client, alice, charlie):
    old = kernel(alice, 9.0, judge_version="9")
    new = kernel(alice, 1.5, judge_version="10")
    other = kernel(charlie, 2.5, judge_version="10")
    assert [(run.pk, run.rank) for run in ranked_kernels()] == [
        (other.pk, 1), (new.pk, 2), (old.pk, 1),
    ]  # fmt: skip
    assert "judge 9</span>" in client.get("/kernels/").content.decode()


def test_kernels_of_each_device_rank_apart(client, alice, charlie, hardware):
    other = Hardware.objects.create(slug="other", name="Other", kind="cpu", queue="hw.other")
    kernel(alice, 1.5, hardware_slug=hardware.slug), kernel(charlie, 2.0, hardware_slug=other.slug)
    assert [run.rank for run in ranked_kernels()] == [1, 1]
    assert [run.owner for run in ranked_kernels(hardware="other")] == [charlie]


def test_kernels_page_names_a_filter_that_matches_nothing(client, alice):
    kernel(alice)
    page = client.get("/kernels/", {"task": "nope", "hardware": "none"})
    assert page.status_code == 200 and "There is no task “nope”" in page.content.decode()
