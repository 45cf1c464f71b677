"""Tests of checks of drafts on a worker: a real judge inside one more sandbox."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model

from arena.catalog.models import Hardware, Worker
from arena.curation import checks, drafts
from arena.curation.models import Check, Draft
from arena.curation.short_form import EXAMPLE, ShortForm
from arena.curation.starter import starter_draft
from arena.curation.validation import problems_of
from evaluation.sandbox.features import isolation_features
from runners.worker import checking, judging

pytestmark = pytest.mark.django_db
NAME = "vector_sum"
SMALL = (
    ('"torch-to-cpp", "cpp-to-cpp"', '"cpp-to-cpp"'),
    ("2097152", "4099"), ("1048576", "2048"), ("65536", "1024"), ("65537", "1025"),
    ("[1, 4099]", "[1, 8192]"),
)  # fmt: skip
LEFT_OUT = (
    "honest/pointers.cpp.cpp", "mutants/last_left_out.cpp.toml", "mutants/no_scale.cpp.toml",
)  # fmt: skip
SMALL_FORM = {
    "domain": """
dtypes = ["float32"]
rows = [1, 1024]
cols = [1, 256]
limit = { choices = [6.0, 20.0] }
""",
    "models": """
mobilenet-v2 = { rows = 256, cols = 80, limit = 6.0, source = "MobileNetV2: last layer" }
deepspeech = { rows = 128, cols = 64, limit = 20.0, source = "Deep Speech: hidden layers" }
mobilenet-v1 = { rows = 256, cols = 64, limit = 6.0, source = "MobileNet: last layer" }
""",
}
QUICK_JUDGE = """
import dataclasses, sys
from evaluation.__main__ import main
from evaluation.bench.memory import ring
from evaluation.bench.timing import plan as plans

ring.MAX_SLOTS = 32
plans.FINAL_PLAN = dataclasses.replace(plans.QUICK_PLAN, min_blocks=3, max_blocks=3)
sys.exit(main(sys.argv[1:]))
"""
"""The judge with few and short measurements, for a check whose times are not tested."""

BUSY_JUDGE = """
import sys
from evaluation.__main__ import main
from evaluation.errors import Inconclusive
from evaluation.kinds.kernel.admission.admit import _TaskJudge
from evaluation.types import Verdict

def disturbed(*_):
    raise Inconclusive("inconclusive, other work disturbed 60 of 62 pairs of windows")

_TaskJudge._judge = lambda *_: (Verdict.PASSED, None, "")
_TaskJudge._speedup = disturbed
sys.exit(main(sys.argv[1:]))
"""
"""The judge on a machine that is never idle."""

PROBE = """
import ctypes, os, socket

found = [name for name in os.environ if "ARENA" in name or "URL" in name]
for path in ({home!r}, {root!r}, "/root", "/home", "/tmp", "/proc/1/environ"):
    try:
        found.append(os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
    found.append("network")
except OSError:
    pass
if os.getuid() in ({user}, 0) and {other_user}:
    found.append("user")
libc, new_user, session, of_user = ctypes.CDLL(None), 0x10000000, -3, b"user"
calls = {{
    "unshare": (272, new_user), "io_uring_setup": (425, 1, ctypes.create_string_buffer(120)),
    "bpf": (321, 0, ctypes.create_string_buffer(120), 120), "userfaultfd": (323, 1),
    "search for a key": (250, 10, session, of_user, b"arena-test", 0),
    "key by number": (250, 11, {key}, ctypes.create_string_buffer(99), 99),
}}
if os.uname().machine == "x86_64":
    found += [name for name, call in calls.items() if libc.syscall(*call) >= 0]
raise RuntimeError("reached: " + repr(found))
"""


def small_files() -> dict[str, str]:
    """Return the files of a task that is checked in less than a minute."""
    files = starter_draft(NAME, "Vector sum")
    for name in LEFT_OUT:
        del files[name]
    for old, new in SMALL:
        assert old in files["task.toml"]
        files["task.toml"] = files["task.toml"].replace(old, new)
    return files


@pytest.fixture
def draft(valkey: str, settings: Any) -> Draft:
    settings.REDIS_URL = valkey
    hardware = Hardware.objects.create(slug="cpu", name="A CPU", kind="cpu", queue="hw.cpu")
    Worker.objects.create(name="w", hardware=hardware, queues=["hw.cpu"], pid=1)
    user = get_user_model().objects.create_user("ada", is_staff=True)
    return drafts.create(user, {NAME: small_files()}, "the test")[0]


@pytest.fixture
def judged_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have the source of another judge executed in place of the judge."""

    def judge(source: str) -> None:
        monkeypatch.setattr(judging, "COMMAND", (sys.executable, "-c", source))

    return judge


def check_of(draft: Draft) -> Check:
    check = checks.request_check(draft, draft.author)
    checking.check(check.pk)
    check.refresh_from_db()
    return check


def steps(check: Check, kind: str) -> list[dict[str, Any]]:
    return [step.body for step in check.steps.all() if step.body["type"] == kind]


def key_in_session() -> int:
    """Put a key into a session keyring of this process; return its number, or 0 without one."""
    if platform.machine() != "x86_64":
        return 0
    libc, join, add_key, session = ctypes.CDLL(None), (250, 1, None), 248, -3
    if libc.syscall(*join) < 0:
        return 0
    return int(libc.syscall(add_key, b"user", b"arena-test", b"secret", 6, session))


def test_reference_reaches_nothing_but_its_sandbox(
    draft: Draft, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in judging.ENVIRONMENT:
        if name.startswith("ARENA"):  # settings of the judge, which are no secrets
            monkeypatch.delenv(name, raising=False)
    port = int(valkey.rpartition(":")[2].partition("/")[0])
    home, root = str(settings.ARENA_HOME), str(settings.BASE_DIR)
    probe = PROBE.format(
        home=home, root=root, port=port, key=key_in_session(), user=os.getuid(),
        other_user=isolation_features().other_user,
    )  # fmt: skip
    source = draft.files["reference.py"] + probe
    drafts.save_file(draft, draft.author, "reference.py", source)
    check = check_of(draft)
    assert check.status == "failed", check.message
    errors = [step["message"] for step in steps(check, "error")]
    assert errors
    assert all("RuntimeError: reached: []" in error for error in errors), errors
    shown = [str(step.body) for step in check.steps.all()]
    assert not [text for text in shown if "arena-check-" in text], "paths begin at the task"


def test_draft_in_the_short_form_is_fitted_and_then_admitted(
    draft: Draft, judged_by: Callable[[str], None]
) -> None:
    """The check imports PyTorch's compiler, inside a sandbox with a `/tmp` that is read-only."""
    judged_by(QUICK_JUDGE)
    fields = {name: text for name, text in EXAMPLE.items() if name != "name"}
    form = ShortForm(languages=("cpp",), **{**fields, **SMALL_FORM})
    short = drafts.create(draft.author, {"clipped_relu": form.files()}, "the test")[0]
    fit = checks.request_fit(short, draft.author)
    checking.check(fit.pk)
    fit.refresh_from_db()
    assert fit.status == "passed", (fit.message, steps(fit, "error"))
    drafts.use_fit(short, draft.author)
    assert "[measured]" in short.files["fitted.toml"]
    assert problems_of(short.name, short.files) == []
    check = check_of(short)
    assert check.status == "passed", (check.message, steps(check, "error"))
    assert {step["task"] for step in steps(check, "admission")} == {
        "clipped_relu/torch-to-cpp", "clipped_relu/torch-to-torch",
    }  # fmt: skip


def test_fit_of_a_wrong_reference_fails_with_its_line(draft: Draft) -> None:
    fields = {name: text for name, text in EXAMPLE.items() if name != "name"} | SMALL_FORM
    fields["reference"] = EXAMPLE["reference"].replace("clamp", "clmp")
    form = ShortForm(languages=("cpp",), **fields)
    short = drafts.create(draft.author, {"clipped_relu": form.files()}, "the test")[0]
    fit = checks.request_fit(short, draft.author)
    checking.check(fit.pk)
    fit.refresh_from_db()
    assert fit.status == "failed"
    assert fit.message.startswith("reference.py: line 5: AttributeError: ")


def test_reference_that_never_ends_is_ended_by_cancellation(
    draft: Draft, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = draft.files["reference.py"] + "\nwhile True:\n    pass\n"
    drafts.save_file(draft, draft.author, "reference.py", source)
    heartbeats: list[bool] = []

    def heartbeat(check_id: int, lease: str) -> bool:
        heartbeats.append(True)
        checks.cancel_check(Check.objects.get(pk=check_id), draft.author)
        return bool(Check.objects.filter(pk=check_id, lease=lease).exists())

    monkeypatch.setattr(checking.checks, "heartbeat_check", heartbeat)
    check = check_of(draft)
    assert (check.status, check.message) == ("broken", "Cancelled by ada.")
    assert heartbeats == [True]


def test_check_that_other_work_disturbs_is_tried_again_and_then_broken(
    draft: Draft, judged_by: Callable[[str], None]
) -> None:
    judged_by(BUSY_JUDGE)
    check = check_of(draft)
    assert check.status == "queued"
    checking.check(check.pk)
    check.refresh_from_db()
    reason = "inconclusive, other work disturbed 60 of 62 pairs of windows"
    *judged, step = steps(check, "attempt")
    assert {each["verdict"] for each in judged} == {"passed"}
    assert (step["verdict"], step["message"]) == ("inconclusive", reason)
    assert step["name"].endswith(", timed")
    named = f"{step['task']}: {step['role']} {step['name']}: {reason}"
    assert (check.status, check.message) == ("broken", named)
    assert drafts.lacking(draft) == ["No check of these files has passed yet: run the checks."]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_mutant_that_passes_fails_the_check(draft: Draft, judged_by: Callable[[str], None]) -> None:
    judged_by(QUICK_JUDGE)
    mutant = 'note = "adds in another order"\nof = "honest/backward.cpp.cpp"\n' + (
        "edits = [['args->y[i] + args->a * args->x[i]', 'args->a * args->x[i] + args->y[i]']]\n"
    )
    drafts.save_file(draft, draft.author, "mutants/difference.cpp.toml", mutant)
    check = check_of(draft)
    assert check.status == "failed", check.message
    by_task = {step["task"]: step for step in steps(check, "admission")}
    problems = by_task[f"{NAME}/cpp-to-cpp"]["problems"]
    assert "mutant difference passed: correct it, or add a case that it fails" in problems
    assert check.total == len(steps(check, "attempt"))
    with pytest.raises(drafts.Conflict, match="A check of these files failed"):
        drafts.request_review(draft, draft.author)
