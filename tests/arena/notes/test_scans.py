"""Tests of the rules over traces: what each finds, what it leaves, and where hits show."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from arena.notes import scans
from arena.notes.models import Hit, Scan
from arena.notes.rules import RULES, VERSION
from arena.runs import services
from arena.runs.models import Run
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, finished, judge, report

pytestmark = pytest.mark.django_db


def said(text: str) -> EventDraft:
    return EventDraft("message", {"role": "assistant", "text": text})


def called(command: str) -> EventDraft:
    return EventDraft("tool_call", {"tool": "shell", "arguments": {"command": command}})


REFUSED = EventDraft("log", {"text": "refused pypi.org:443", "stream": "network"}, actor="arena")


@pytest.fixture
def read(start):
    """Record drafts in a run whose best speedup is 2, read it, and return its hits by rule."""

    def read_drafts(*drafts: EventDraft) -> dict[str, list[int]]:
        run = start()
        first = services.record(run.pk, drafts, producer="test") - len(drafts) + 1
        scans.scan(finished(run))
        found: dict[str, list[int]] = {}
        for hit in Hit.objects.filter(run=run):
            found.setdefault(hit.rule, []).append(hit.seq - first)
        return found

    return read_drafts


@pytest.mark.parametrize(
    ("draft", "rule"),
    [
        (called("grep -r hidden_cases /"), "tests"),
        (called("cat evaluation/judge/pipeline.py"), "tests"),
        (called("pip install cupy"), "network"),
        (called("curl http://example.org/k.cu"), "network"),
        (REFUSED, "network"),
        (said("I cannot improve it any more."), "gave-up"),
        (said("It works. The kernel is 14.5x faster than the baseline."), "claim"),
        (said("Final speedup of 9.00x on all cases."), "claim"),
    ],
)
def test_rule_finds_its_event(read, draft, rule):
    assert read(said("I begin."), draft)[rule] == [1]


@pytest.mark.parametrize(
    "draft",
    [
        called("cat TASK.md && ./arena-check"),
        said("I will not look for hidden cases."),
        said("The kernel is 2.0x faster than the baseline."),
        said("Tiling could make it 14x faster."),
        said("If this works, the speedup is 14x."),
        EventDraft("message", {"role": "user", "text": "It is 14x faster. I give up."}),
    ],
)
def test_rules_leave_what_is_no_finding(read, draft):
    assert not {rule.name for rule in RULES if rule.name != "copy"} & set(read(draft))


@pytest.mark.parametrize(("last", "found"), [("", 1), ("int own;\n", 0)])
def test_last_round_of_the_starter_alone_is_a_copy(start, last, found):
    run = start()
    assert services.claim_run(run.pk, LEASE)
    version = run.task_version
    starter = "".join(f"int line_{n};\n" for n in range(9))
    version.public["starter"] = {version.public["target_file"]: starter}
    version.save()
    for own in ("// first\n", last):
        services.submit(run.pk, {version.public["target_file"]: f"\n  {starter}{own}"})
    scans.scan(Run.objects.get(pk=run.pk))
    assert [hit.excerpt[:8] for hit in Hit.objects.filter(rule="copy")] == found * ["Round 2 "]


def test_worker_reads_each_ended_trace_once_for_a_version(start):
    cache.clear()
    ended, active = finished(start()), start()
    assert scans.advance() == 1 and list(scans.unread()) == []
    assert scans.advance() == 0, "the pause until the next pass"
    Scan.objects.update(version=VERSION - 1)
    assert [run.pk for run in scans.unread()] == [ended.pk] and active.pk != ended.pk


def test_analysis_counts_runs_by_agent_and_leads_to_their_events(client, start, alice, read):
    read(called("pip install a"), called("pip install b"))
    hidden = start(owner=alice, visibility="owner")
    services.record(hidden.pk, [called("pip install secret")], producer="test")
    scans.scan(finished(hidden))
    page = client.get("/analysis/scans/").content.decode()
    assert 'href="/analysis/scans/?rule=network&amp;agent=tuner#hits">1</a>' in page
    listed = client.get("/analysis/scans/?rule=network&agent=tuner").content.decode()
    assert listed.count("pip install") == 2 and "secret" not in listed
    hit = Hit.objects.exclude(run=hidden).first()
    assert f'href="{hit.get_absolute_url()}"' in listed
    assert "pip install a" in client.get(f"/runs/{hit.run_id}/notes/").content.decode()
    client.force_login(alice)
    assert "secret" in client.get("/analysis/scans/?rule=network").content.decode()
    assert "no rule “nothing”" in client.get("/analysis/scans/?rule=nothing").content.decode()


def test_analysis_names_the_users_of_submitted_kernels(client, task, hardware, alice):
    submission = services.submit_kernel(
        task_slug=task.slug, source="int relu;", owner=alice, scope="final", visibility="public"
    )
    services.record(submission.run_id, [called("pip install a")], producer="test")
    judge(submission.evaluations.get(), report())
    scans.scan(submission.run)
    page = client.get("/analysis/scans/?rule=network").content.decode()
    assert '<td data-label="Agent">alice</td>' in page and ">Submitted kernels</a>" in page
    assert "Direct submission" not in page
