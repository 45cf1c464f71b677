"""Export and import of runs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from arena.catalog.models import Agent, Hardware, TaskVersion
from arena.errors import UserError
from arena.runs import experiments, services
from arena.runs.models import Blob, Evaluation, Event, Experiment, ImportedFile, Measurement, Run
from arena.runs.trace import redaction
from arena.runs.trace.events import EventDraft
from arena.runs.transfer import results
from arena.runs.transfer.imports import Limits
from tests.arena.factories import HIDDEN_CASE, finished

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The line of `line` once it is made, which takes longer than most tests here."""
    return []


@pytest.fixture
def line(start, lines: list[str]) -> dict[str, Any]:
    """Line of a judged run of an experiment; the run itself is deleted."""
    experiment = Experiment.objects.create(slug="pair", title="Pair", plan={"repeats": 1})
    if not lines:
        lines.append(results.line_of(judged(start, experiment)))
        Run.objects.all().delete()
    found: dict[str, Any] = json.loads(lines[0])
    return found


def judged(start, experiment: Experiment) -> Run:
    run = start(experiment=experiment, label="pair")
    long = EventDraft("log", {"text": "begin " + "x" * 100_000})
    services.record(run.pk, [long], producer="host.example:12:ab")
    done = finished(run)
    done.started_at = done.created_at.replace(microsecond=123)
    done.save()
    return done


def write(path: Path, *lines: Any) -> Path:
    path.write_text(
        "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
    )
    return path


def call(*words: object) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command(*map(str, words), stdout=out, stderr=out)
    except SystemExit as left:
        return int(left.code), out.getvalue()
    return 0, out.getvalue()


def unnumbered(line: dict[str, Any]) -> str:
    """Return a line without the row numbers that differ between databases."""
    text = json.dumps(line, sort_keys=True)
    numbers = [("submission", submission["id"]) for submission in line["submissions"]]
    numbers += [
        ("evaluation", evaluation["id"])
        for submission in line["submissions"]
        for evaluation in submission["evaluations"]
    ]
    for name, number in numbers:
        text = re.sub(rf"\b{name}-{number}\b", name, text)
        text = re.sub(rf'"id": {number}\b', '"id"', text)
    return text


def test_unnumbered_ids_with_common_prefix_are_distinct():
    def line(first: int, second: int) -> dict[str, Any]:
        evaluations = [{"id": first, "at": f"evaluation-{first}"}]
        evaluations += [{"id": second, "at": f"evaluation-{second}"}]
        return {"submissions": [{"id": second, "evaluations": evaluations}]}

    assert unnumbered(line(1, 12)) == unnumbered(line(31, 7))


def test_import_exported_run_round_trips(line, tmp_path):
    code, told = call("import_results", write(tmp_path / "r.jsonl", line))
    assert (code, "1 runs loaded" in told) == (0, True)
    run = Run.objects.get()
    again = json.loads(results.line_of(run))
    assert unnumbered(again) == unnumbered(line)
    assert run.speedup == 2.0 and run.final.round == 1 and run.owner is None


@pytest.mark.parametrize("of_agent", [False, True])
def test_import_keeps_who_started_a_run_and_its_quarantine(start, alice, tmp_path, of_agent):
    run = finished(start(owner=alice))
    services.quarantine(run.agent if of_agent else run, "It read the clock of the judge.")
    line = results.line_of(run)
    services.release(run.agent if of_agent else run)
    run.delete()
    assert services.import_results(write(tmp_path / "r.jsonl", line)).refused == []
    again = Run.objects.get()
    assert (again.by_arena, again.quarantine_reason) == (False, "It read the clock of the judge.")
    assert again.quarantined_at and not Run.objects.counted().exists()


def test_import_private_values_stay_private(line, tmp_path, client):
    services.import_results(write(tmp_path / "r.jsonl", line))
    run = Run.objects.get()
    assert Measurement.objects.filter(split="unseen", case=HIDDEN_CASE).exists()
    assert HIDDEN_CASE not in json.dumps(Evaluation.objects.get().report)
    for page in (
        reverse("run", args=[run.pk]),
        f"/runs/{run.pk}/events/?after=0",
        f"/api/v1/runs/{run.pk}",
        f"/api/v1/runs/{run.pk}/events",
    ):
        answer = client.get(page)
        assert answer.status_code == 200
        assert HIDDEN_CASE not in answer.content.decode()


def test_export_line_omits_worker_machine(line):
    assert "host.example" not in json.dumps(line)


def test_import_run_is_marked_on_pages_and_in_api(line, tmp_path, client):
    services.import_results(write(tmp_path / "h200.jsonl", line))
    run = Run.objects.get()
    page = client.get(reverse("run", args=[run.pk])).content.decode()
    assert "It ran on Test CPU and ended" in page and "<code>h200.jsonl</code>" in page
    assert "imported" in client.get(reverse("runs")).content.decode()
    told = client.get(f"/api/v1/runs/{run.pk}").json()
    assert told["imported_from"] == "h200.jsonl" and told["imported_at"]


def test_import_same_run_twice_changes_nothing(line, tmp_path):
    path = write(tmp_path / "r.jsonl", line)
    services.import_results(path)
    before = list(Event.objects.values_list("pk", flat=True))
    assert "loaded before" in call("import_results", path)[1]
    other = write(tmp_path / "other.jsonl", line, "")
    assert services.import_results(other).existing == [line["run"]["id"]]
    assert list(Event.objects.values_list("pk", flat=True)) == before
    assert Run.objects.count() == 1 and ImportedFile.objects.count() == 2


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("xz", lzma.compress)])
def test_import_packed_file_loads_and_torn_file_is_refused(line, tmp_path, ending, pack):
    packed = tmp_path / f"r.jsonl.{ending}"
    packed.write_bytes(pack(json.dumps(line).encode()))
    torn = tmp_path / f"torn.jsonl.{ending}"
    torn.write_bytes(packed.read_bytes()[:200])
    damaged = tmp_path / f"damaged.jsonl.{ending}"
    damaged.write_bytes(packed.read_bytes()[:100] + bytes(9) + packed.read_bytes()[109:])
    assert call("import_results", packed)[0] == 0
    for path in (torn, damaged):
        with pytest.raises(CommandError, match=f"no whole .{ending} file"):
            call("import_results", path)
    with pytest.raises(CommandError, match="No such file"):
        call("import_results", tmp_path / "none.jsonl")


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.jsonl.xz"])
def test_import_overlong_line_is_refused_and_next_loaded(line, tmp_path, name):
    good = json.dumps(line).encode()
    lines = b"x" * 3 * len(good) + b"\n" + good
    path = tmp_path / name
    path.write_bytes(results.PACKED.get(path.suffix, bytes)(lines))
    found = services.import_results(path, limits=Limits(line_bytes=len(good) + 1))
    assert found.loaded == [line["run"]["id"]]
    (refusal,) = found.refused
    assert f"{name}:1: longer than" in refusal


def test_lines_of_concatenated_xz_files_reads_both(tmp_path):
    path = tmp_path / "r.jsonl.xz"
    path.write_bytes(lzma.compress(b"a\nb") + lzma.compress(b"c\n"))
    assert list(results.lines_of(path)) == [b"a\n", b"bc\n"]


def test_file_packed_in_parts_is_read_whole(tmp_path):
    path = tmp_path / "r.jsonl.xz"
    lines = [b"%d\n" % number + b" " * 2**20 + b"\n" for number in range(33)]
    path.write_bytes(results.PACKED[path.suffix](b"".join(lines)))
    assert b"".join(results.lines_of(path)) == b"".join(lines)


def test_import_xz_with_huge_dictionary_is_refused(tmp_path):
    large = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2 * results.MAX_UNPACK_BYTES}]
    path = tmp_path / "r.jsonl.xz"
    path.write_bytes(lzma.compress(b"{}\n", filters=large))
    with pytest.raises(UserError, match="Memory usage limit"):
        services.import_results(path)


def test_import_too_many_lines_stops(tmp_path):
    path = write(tmp_path / "r.jsonl", "", "", "", "", "")
    (refusal,) = services.import_results(path, limits=Limits(lines=3)).refused
    assert "more than 3 lines" in refusal


def changed(line: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with one value changed; `path` is names and numbers joined by dots."""
    copy = json.loads(json.dumps(line))
    place = copy
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        place = place[step]
    place[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("arena_results", 2, "format 2, and 1 is read here"),
        ("task.hash", "b" * 64, "was judged as bbbbbbbbbbbb, and here it is aaaaaaaaaaaa"),
        ("task.slug", "gelu/cpp-to-cpp", "no task 'gelu/cpp-to-cpp' here"),
        ("colour", "red", "colour is not known"),
        ("run.id", "../../etc/pw", "no id of a run"),
        ("run.status", "running", "the run is running, not judged"),
        ("run.speedup", "fast", "run.speedup: “fast” value must be a float"),
        ("run.owner", "alice", "run.owner is not known"),
        ("run.last_seq", 3, "not numbered 1, 2, 3"),
        ("run", None, "run should be an object"),
        ("submissions.0.round", -1, "greater than or equal to 0"),
        ("submissions.0.evaluations.0.status", "measuring", "an evaluation of it is measuring"),
        ("submissions.0.evaluations.0.scope", "secret", "'secret' is not a valid choice"),
        ("submissions.0.evaluations.0.measurements.0.split", "x", "'x' is not a valid choice"),
        ("submissions.0.evaluations.0.measurements.0.speedup", None, "cannot be null"),
        ("events.0.kind", "rumour", "event 1 is of no known kind"),
        ("events.0.visibility", "staff", "event 1 is hidden"),
        ("events.0.body", {"colour": 1}, "colour is not known"),
        ("blobs", {"0" * 64: "x"}, "does not hold what its hash says"),
        ("run.created_at", "", "run.created_at: “” value has an invalid format"),
        ("run.ended_at", None, "run.ended_at is missing"),
        ("run.created_at", "2026-11-01T10:00:00", "created_at has no time zone"),
        ("run.ended_at", "2030-01-01T00:00:00+00:00", "ended_at is in the future"),
        ("events.0.at", "", "event.at: “” value has an invalid format"),
        ("experiment.created_at", "", "experiment.created_at: “” value has an invalid format"),
        ("experiment.slug", "a b", "experiment.slug: Enter a valid “slug”"),
        ("agent.slug", "", "agent.slug: This field cannot be blank"),
        ("agent.slug", "a b/<c>", "agent.slug: Enter a valid “slug”"),
        ("agent.settings", [1], "settings should be an object"),
        ("hardware.slug", "", "hardware.slug: This field cannot be blank"),
        ("hardware.queue", "build", "hardware.queue should be hw.test-cpu"),
        ("hardware.peaks", [1], "peaks should be an object"),
        ("hardware.isolation", "none", "isolation should be an object"),
        ("hardware.fingerprint", [], "fingerprint should be an object"),
        ("run.budget", [3], "budget should be an object"),
        ("run.budget", {"rounds": "three"}, "budget.rounds should be a whole number"),
        ("run.speedup", "inf", "speedup is inf, which nothing measures"),
        ("run.low", -2.0, "low is -2.0, which nothing measures"),
        ("run.roofline_share", 1e-300, "roofline_share is 1e-300, which nothing measures"),
        ("run.reason", ["late"], "reason should be a text"),
        ("run.rounds", 10**30, "larger than any number here"),
        ("submissions.0.note", "\ud800", "surrogates not allowed"),
        ("submissions.0.files", "int relu;", "files should be an object"),
        ("submissions.0.files", {"relu.cpp": ["int relu;"]}, "files.relu.cpp should be a text"),
        ("submissions.0.files", {"": "int relu;"}, "files: '' is no name of a file"),
        ("submissions.0.files", {"a\nb": "int relu;"}, "files: 'a\\nb' is no name of a file"),
        ("submissions.0.evaluations.0.report", {"kernels": [{"name": 1}]}, "should be a text"),
        ("submissions.0.evaluations.0.fingerprint", [1], "fingerprint should be an object"),
        ("submissions.0.evaluations.0.gates.0.detail", [1], "detail should be an object"),
        ("submissions.0.evaluations.0.gates.0.detail", {"baseline_us": 1}, "should be an object"),
        ("submissions.0.evaluations.0.measurements.0.symbols", [1], "symbols should be an object"),
        ("events.0.body.blobs", ["blobs"], "event 1: blobs should be an object"),
        ("events.0.body.blobs", "blobs", "event 1: blobs should be an object"),
        ("events.0.body.blobs", {"blobs": [1]}, "event 1: blobs.blobs should be an object"),
        ("events.0.body.blobs", {"": {"sha256": "0", "size": 1}}, "the whole of it is missing"),
        ("events.0.body", {"colour": 1, "blobs": {}}, "colour is not known"),
    ],
)
def test_import_invalid_line_is_refused_and_others_loaded(line, tmp_path, path, value, message):
    good = changed(line, "run.id", "0123456789ab")
    code, told = call(
        "import_results", write(tmp_path / "r.jsonl", changed(line, path, value), good)
    )
    (refusal,) = [each for each in told.splitlines() if ".jsonl:1: " in each]
    assert message in refusal and code == 1
    assert "1 runs loaded, 1 lines refused" in told
    assert [run.pk for run in Run.objects.all()] == ["0123456789ab"]
    assert not ImportedFile.objects.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not JSON"),
        ('{"a": NaN}', "not JSON (NaN is no number)"),
        ("[1]", "not a line of results"),
        ("[" * 100_000, "not JSON"),
        ('{"a": 1e999}', "not JSON (1e999 is larger than any number here)"),
    ],
)
def test_import_non_result_line_is_refused(tmp_path, text, message):
    code, told = call("import_results", write(tmp_path / "r.jsonl", text))
    assert code == 1 and f"r.jsonl:1: {message}" in told


def test_import_deeply_nested_settings_are_refused(line, tmp_path):
    deep = changed(line, "agent.settings", {"a": json.loads("[" * 500 + "]" * 500)})
    (refusal,) = services.import_results(write(tmp_path / "r.jsonl", deep)).refused
    assert "settings is nested more than 32 deep" in refusal


def test_import_refusal_message_is_short(line, tmp_path):
    long = changed(line, "run.speedup", "x" * 100_000)
    (refusal,) = services.import_results(write(tmp_path / "r.jsonl", long)).refused
    assert "run.speedup: “xxx" in refusal and len(refusal) < 1000


def test_import_secret_in_cut_text_is_redacted(line, tmp_path):
    (number,) = [n for n, event in enumerate(line["events"]) if "blobs" in event["body"]]
    cut = f"events.{number}.body.text"
    services.import_results(write(tmp_path / "r.jsonl", changed(line, cut, "sk-" + "x1" * 20)))
    body = Event.objects.get(seq=number + 1).body
    assert body["text"] == "[redacted]" and body["blobs"] == line["events"][number]["body"]["blobs"]


def test_import_secret_in_blob_is_redacted(line, tmp_path, client):
    (number,) = [n for n, event in enumerate(line["events"]) if "blobs" in event["body"]]
    secret = "sk-" + "x1" * 20
    whole = f"{'before ' * 2000}{secret}{' after' * 2000}"
    digest = hashlib.sha256(whole.encode()).hexdigest()
    leaky = changed(line, "blobs", line["blobs"] | {digest: whole})
    kept = {"text": {"sha256": digest, "size": len(whole)}}
    leaky = changed(leaky, f"events.{number}.body.blobs", kept)
    assert not services.import_results(write(tmp_path / "r.jsonl", leaky)).refused
    address = f"/api/v1/runs/{leaky['run']['id']}/events/{number + 1}/blob?path=text"
    assert client.get(address).content.decode() == whole.replace(secret, "[redacted]")
    assert not Blob.objects.filter(content__contains=secret).exists()
    body = Event.objects.get(seq=number + 1).body
    assert body["blobs"]["text"]["size"] == len(whole) - len(secret) + len("[redacted]")


def test_import_escaped_secret_in_blob_is_redacted(line, tmp_path, monkeypatch):
    secret = 'quoted"and\\back'
    monkeypatch.setattr(redaction, "_secrets_of_this_process", lambda: (secret,))
    (number,) = [n for n, event in enumerate(line["events"]) if "blobs" in event["body"]]
    whole = json.dumps({"text": f"before\n{secret}"})
    digest = hashlib.sha256(whole.encode()).hexdigest()
    leaky = changed(line, "blobs", line["blobs"] | {digest: whole})
    kept = {"": {"sha256": digest, "size": len(whole)}}
    leaky = changed(leaky, f"events.{number}.body.blobs", kept)
    assert not services.import_results(write(tmp_path / "r.jsonl", leaky)).refused
    digest = Event.objects.get(seq=number + 1).body["blobs"][""]["sha256"]
    assert json.loads(Blob.objects.get(pk=digest).content) == {"text": "before\n[redacted]"}


def test_import_oversized_plan_is_refused(line, tmp_path):
    large = changed(line, "experiment.plan", {"tasks": ["relu/cpp-to-cpp"] * 20_000})
    (refusal,) = services.import_results(write(tmp_path / "r.jsonl", large)).refused
    assert "experiment.plan has more than 256 KiB" in refusal


def test_import_refused_line_loads_after_task_sync(line, tmp_path):
    path = write(tmp_path / "r.jsonl", changed(line, "task.hash", "b" * 64))
    assert services.import_results(path).refused
    TaskVersion.objects.update(content_hash="b" * 64)
    assert services.import_results(path).loaded


def test_import_agent_with_other_settings_becomes_inactive_agent(line, tmp_path, agent):
    told = changed(line, "agent.settings", {"seed": 9})
    services.import_results(write(tmp_path / "r.jsonl", told))
    other = Run.objects.get().agent
    assert other.slug.startswith("tuner-") and not other.active
    agent.refresh_from_db()
    assert agent.active and agent.settings == {}


@pytest.mark.parametrize("of_file", [True, False])
def test_import_agent_that_is_given_solutions_is_open_book_here(line, tmp_path, agent, of_file):
    told = changed(line, "agent.settings", {"seed": 9})
    Agent.objects.update(open_book=not of_file, shipped=True)
    if of_file:
        told["agent"]["open_book"] = True
    assert services.import_results(write(tmp_path / "r.jsonl", told)).refused == []
    run = Run.objects.get()
    assert run.agent != agent and run.agent.open_book
    assert json.loads(results.line_of(run))["agent"]["open_book"] is True


@pytest.mark.parametrize(("since", "known"), [(-1, 12.0), (1, 10.0)], ids=["before", "after"])
def test_import_hardware_keeps_newest_values(line, tmp_path, hardware, since, known):
    ended = datetime.fromisoformat(line["run"]["ended_at"])
    Hardware.objects.update(seen_at=ended + timedelta(hours=since))
    line["hardware"]["peaks"] = {"copy_gbps": 12.0}
    call("import_results", write(tmp_path / "a.jsonl", line))
    hardware.refresh_from_db()
    assert hardware.peaks == {"copy_gbps": known}


def test_import_known_hardware_keeps_its_queue(line, tmp_path, hardware):
    Hardware.objects.update(seen_at=line["run"]["created_at"], queue="hw.elsewhere")
    line["hardware"] |= {"kind": "gpu", "arch": "new"}
    services.import_results(write(tmp_path / "a.jsonl", line))
    hardware.refresh_from_db()
    assert (hardware.queue, hardware.kind, hardware.arch) == ("hw.elsewhere", "cpu", "new")


def test_start_plan_ignores_imported_runs(line, tmp_path, task, agent):
    services.import_results(write(tmp_path / "r.jsonl", line))
    entrant = experiments.Entrant(agent="tuner")
    plan = experiments.Plan(slug="pair", title="Pair", agents=[entrant], tasks=["relu/*"])
    assert len(experiments.start(plan).runs) == 1


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.jsonl.xz"])
def test_export_writes_judged_runs_only(start, tmp_path, name):
    experiment = Experiment.objects.create(slug="pair", title="Pair")
    run = finished(start(experiment=experiment))
    start(experiment=experiment)
    path = tmp_path / name
    assert results.export(experiment, path) == 1
    first = path.read_bytes()
    (line,) = results.lines_of(path)
    assert json.loads(line)["run"]["id"] == run.pk
    results.export(experiment, path)
    assert path.read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == [name]
