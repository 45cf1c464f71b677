"""Archived traces: out of the database, into the store, and still read by page and API."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from arena.accounts.models import User
from arena.runs import services
from arena.runs.models import ArchivedTrace, Blob, Event, Run, TrafficPart
from arena.runs.trace import retention, store
from arena.runs.trace.events import EventDraft
from arena.runs.trace.exports import MAX_EVENTS
from arena.runs.traffic import add_part
from arena.runs.transfer.results import line_of
from tests.arena.factories import finished

pytestmark = pytest.mark.django_db
LONG = "a line of a compiler\n" * 1000


@pytest.fixture(autouse=True)
def texts(settings: Any) -> None:
    """Keep the store of texts in memory."""
    memory = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
    settings.STORAGES = {**settings.STORAGES, store.NAME: memory}


@pytest.fixture
def run(start: Callable[..., Run], alice: User) -> Run:
    """Return a judged run that ended 100 days ago, with a text that an event cut."""
    run = start(owner=alice)
    usage = {"input_tokens": 70, "output_tokens": 7}
    call = {"provider": "p", "wire": "chat", "usage": usage, "cost_usd": 0.5}
    drafts = [EventDraft("model_call", call), EventDraft("log", {"text": LONG})]
    services.record(run.pk, drafts, producer="test")
    add_part(run.pk, 0, b'{"path": "relu"}\n')
    finished(run)
    Run.objects.filter(pk=run.pk).update(ended_at=timezone.now() - timedelta(days=100))
    return Run.objects.get(pk=run.pk)


def envelopes(run: Run) -> list[dict[str, Any]]:
    return [event.envelope() for event in run.events.order_by("seq")]


def command(*words: str) -> str:
    printed = StringIO()
    call_command("archive", *words, stdout=printed)
    return printed.getvalue()


def test_archive_of_old_runs_drops_their_trace_and_keeps_their_verdicts(run: Run) -> None:
    before, measured = envelopes(run), run.submissions.get().evaluations.get().measurements.count()
    assert command("--days", "30") == "1 texts moved, traces of 1 runs archived.\n"
    archived = ArchivedTrace.objects.get()
    assert not Event.objects.exists() and not TrafficPart.objects.exists()
    assert run.submissions.get().evaluations.get().measurements.count() == measured > 0
    assert [json.loads(line) for line in store.get(archived.sha256).splitlines()] == before
    assert retention.spent_by(archived).cost_usd == 0.5


def test_archive_leaves_runs_that_are_young_or_at_work(run: Run, start: Callable[..., Run]) -> None:
    services.claim_run(start().pk, "a lease")
    assert command("--days", "101").endswith("traces of 0 runs archived.\n")
    assert command().endswith("traces of 0 runs archived.\n")
    assert command("--days", "0").endswith("traces of 1 runs archived.\n")


def test_run_that_another_continues_is_archived_after_that_one(
    run: Run, start: Callable[..., Run]
) -> None:
    later = start()
    Run.objects.filter(pk=later.pk).update(continues=run)
    add_part(run.pk, 0, b'{"path": "relu"}\n')
    assert command("--days", "30").endswith("traces of 0 runs archived.\n")
    assert TrafficPart.objects.filter(run=run).exists()
    finished(later)
    assert command("--days", "0").endswith("traces of 2 runs archived.\n")


def test_archived_text_that_is_lost_is_an_error_with_a_remedy(client: Client, run: Run) -> None:
    command("--days", "30")
    archived = ArchivedTrace.objects.get()
    ArchivedTrace.objects.update(sha256="0" * 64)
    lost = client.get(f"/api/v1/runs/{run.pk}/events")
    assert (lost.status_code, lost.json()["error"]["code"]) == (409, "conflict")
    assert "backup" in lost.json()["error"]["hint"]
    cut = next(
        event["seq"]
        for event in map(json.loads, store.get(archived.sha256).splitlines())
        if "blobs" in event["body"]
    )
    ArchivedTrace.objects.update(sha256=archived.sha256)
    store.storages[store.NAME].delete(store.name_of(Blob.objects.get().pk))
    text = client.get(f"/api/v1/runs/{run.pk}/events/{cut}/blob", {"path": "text"})
    assert (text.status_code, "backup" in text.json()["error"]["hint"]) == (409, True)


def test_archive_twice_changes_nothing(run: Run) -> None:
    command("--days", "30")
    key = ArchivedTrace.objects.get().sha256
    assert command("--days", "30") == "0 texts moved, traces of 0 runs archived.\n"
    assert ArchivedTrace.objects.get().sha256 == key


def test_restored_trace_is_the_one_that_was_archived(run: Run) -> None:
    before = envelopes(run)
    command("--days", "30")
    command("--restore", run.pk)
    assert envelopes(run) == before
    assert not ArchivedTrace.objects.exists()
    with pytest.raises(CommandError, match="archived"):
        command("--restore", run.pk)


def test_event_after_the_archive_follows_the_archived_ones(run: Run) -> None:
    before = envelopes(run)
    command("--days", "30")
    services.record(run.pk, [EventDraft("note", {"text": "late"})], producer="test")
    events = [event.envelope() for event in retention.events_of(run)]
    assert events[:-1] == before
    assert events[-1]["seq"] == len(before) + 1
    assert retention.restore(run) == len(before)
    assert envelopes(run) == events


def test_event_that_comes_while_a_run_is_archived_keeps_its_trace_here(run: Run) -> None:
    stale = Run.objects.get(pk=run.pk)
    services.record(run.pk, [EventDraft("note", {"text": "late"})], producer="test")
    assert not retention.archive(stale)
    assert Event.objects.filter(run=run).count() == stale.last_seq + 1


def test_pages_of_an_archived_run_name_the_archive_and_offer_the_trace(
    client: Client, run: Run
) -> None:
    before = envelopes(run)
    command("--days", "30")
    page = client.get(run.get_absolute_url(), {"tab": "trace"}).content.decode()
    assert "was archived on" in page and f"/runs/{run.pk}/trace.jsonl" in page
    file = client.get(f"/runs/{run.pk}/trace.jsonl").content.decode()
    assert [json.loads(line) for line in file.splitlines()] == before
    results = client.get(run.get_absolute_url(), {"tab": "results"}).content.decode()
    assert "$0.50" in results
    other = client.get(f"/runs/{run.pk}/trace.md")
    assert other.status_code == 409 and "sessionid" not in client.cookies
    assert "The trace of this run is archived." in other.content.decode()
    event = client.get(f"/runs/{run.pk}/events/1/", follow=True)
    assert "was archived on" in event.content.decode()


def test_api_of_an_archived_run_reads_its_events_and_their_texts(client: Client, run: Run) -> None:
    before = envelopes(run)
    command("--days", "30")
    address = f"/api/v1/runs/{run.pk}"
    assert client.get(address).json()["archived_at"] is not None
    found = client.get(f"{address}/events", {"after": 0, "limit": 3}).json()
    assert (found["events"], found["more"]) == (before[:3], True)
    newest = client.get(f"{address}/events", {"limit": 2}).json()
    assert (newest["events"], newest["more"]) == (before[-2:], True)
    cut = next(event for event in before if "blobs" in event["body"])
    text = client.get(f"{address}/events/{cut['seq']}/blob", {"path": "text"})
    assert text.content.decode() == LONG
    assert Blob.objects.get().content == ""


def test_pages_of_an_archived_trace_read_its_file_once(client: Client, run: Run) -> None:
    before = envelopes(run)
    command("--days", "30")
    address = f"/api/v1/runs/{run.pk}/events"
    first = client.get(address, {"after": 0, "limit": 2}).json()
    store.storages[store.NAME].delete(store.name_of(ArchivedTrace.objects.get().sha256))
    found = list(first["events"])
    while first["more"]:
        first = client.get(address, {"after": found[-1]["seq"], "limit": 2}).json()
        found += first["events"]
    assert found == before
    earlier = client.get(address, {"before": 4, "limit": 2}).json()["events"]
    assert earlier == before[1:3]


def test_archived_private_run_is_offered_to_those_who_see_it(
    client: Client, run: Run, alice: User
) -> None:
    Run.objects.filter(pk=run.pk).update(visibility="owner")
    command("--days", "30")
    addresses = (f"/runs/{run.pk}/trace.jsonl", f"/api/v1/runs/{run.pk}/events")
    assert [client.get(each).status_code for each in addresses] == [404, 404]
    client.force_login(alice)
    assert [client.get(each).status_code for each in addresses] == [200, 200]


def test_exported_line_of_an_archived_run_is_that_of_before(run: Run) -> None:
    before = line_of(run)
    command("--days", "30")
    assert json.loads(line_of(Run.objects.get(pk=run.pk))) == json.loads(before)


def test_broken_run_with_an_archived_trace_is_not_continued(start: Callable[..., Run]) -> None:
    run = start()
    services.claim_run(run.pk, "lease")
    services.finish_run(run.pk, "lease", "broken", "no reason", "arena")
    assert services.can_continue(run)
    command("--days", "0")
    assert not services.can_continue(run)


def test_page_of_an_archived_trace_offers_no_file_that_is_refused(client: Client, run: Run) -> None:
    retention.archive(run)
    address = f"{run.get_absolute_url()}?tab=trace"
    assert "download the trace" in client.get(address).content.decode()
    Run.objects.filter(pk=run.pk).update(last_seq=MAX_EVENTS + 1)
    page = client.get(address).content.decode()
    assert "was archived on" in page and "trace.jsonl" not in page
