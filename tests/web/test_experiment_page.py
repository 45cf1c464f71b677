"""The page of an experiment: its matrix, and the button that cancels what has not ended."""

from __future__ import annotations

import re
from functools import partial

import pytest

from arena.runs.models import Experiment, Run
from arena.runs.services import quarantine
from tests.arena.factories import judged_run
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def experiment(db):
    return Experiment.objects.create(slug="ab", title="A or B", plan={})


@pytest.fixture
def judged(task, hardware, experiment):
    return partial(judged_run, hardware=hardware, experiment=experiment)


@pytest.mark.django_db
def test_matrix_has_a_cell_for_each_agent_and_task_that_leads_to_its_run(client, judged):
    fast, slow = judged("new", "relu", 2.0), judged("old", "relu", 0.5)
    failed, queued = judged("old", "gelu", status="failed"), judged("new", "gelu", status="queued")
    page = client.get("/experiments/ab/").content.decode()
    table = page.partition('<table class="matrix">')[2].partition("</table>")[0]
    cells = dict(re.findall(r'<td><a href="/runs/(\w+)/" title="([^"]+)"', table))
    assert cells == {
        fast.pk: "relu/cpp-to-cpp: 2.00×",
        slow.pk: "relu/cpp-to-cpp: 0.50×",
        failed.pk: "gelu/cpp-to-cpp: Failed",
        queued.pk: "gelu/cpp-to-cpp: Queued",
    }
    assert table.count("<b>F</b>") == table.count("<b>Q</b>") == table.count('class="slow"') == 1


@pytest.mark.django_db
def test_owner_cancels_the_runs_that_have_not_ended_and_no_others(
    client, judged, alice, charlie, bob
):
    own = [judged("new", name, status="queued", owner=alice) for name in ("relu", "gelu")]
    other = judged("old", "relu", status="queued", owner=charlie)
    done = judged("old", "gelu", 2.0, owner=alice)
    assert "Cancel" not in client.get("/experiments/ab/").content.decode()
    client.force_login(alice)
    assert ">Cancel 2 runs<" in client.get("/experiments/ab/").content.decode()
    page = client.post("/experiments/ab/cancel/", follow=True).content.decode()
    assert "2 runs cancelled." in page and '"message success"' in page
    states = dict(Run.objects.values_list("pk", "status"))
    assert [states[run.pk] for run in (*own, other, done)] == [
        "cancelled", "cancelled", "queued", "passed",
    ]  # fmt: skip
    page = client.post("/experiments/ab/cancel/", follow=True).content.decode()
    assert "No run of this experiment is yours to cancel." in page and '"message error"' in page
    client.force_login(bob)
    client.post("/experiments/ab/cancel/")
    assert Run.objects.get(pk=other.pk).status == "cancelled", "staff cancel every run"


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_cell_of_the_matrix_opens_its_run(open_page, served_world, in_thread):
    run = served_world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=1)
    shown = Experiment.objects.create(slug="ab", title="A or B", plan={})
    Run.objects.filter(pk=run.pk).update(experiment=shown)
    for address in ("/experiments/ab/", "/leaderboard/parts/matrix/"):
        page = open_page(address)
        page.click(f".matrix a[href='/runs/{run.pk}/']", timeout=1000 * PATIENCE_SECONDS)
        page.wait_for_selector(f"h1:has-text('{run.task_version.task.slug}')")
        assert page.url.endswith(f"/runs/{run.pk}/") and page.console_errors == []


@pytest.mark.django_db
def test_list_of_experiments_has_one_that_came_since_it_was_counted(client, judged):
    judged("new", "relu", 2.0)
    assert client.get("/experiments/").status_code == 200
    later = Experiment.objects.create(slug="cd", title="C or D", plan={})
    judged("old", "relu", status="queued", experiment=later)
    page = client.get("/experiments/").content.decode()
    assert "/experiments/cd/" in page and "/experiments/ab/" in page


@pytest.mark.django_db
def test_list_of_experiments_counts_no_verdict_in_quarantine(client, judged):
    judged("new", "relu", 2.0)
    held = judged("old", "gelu", 9.0)
    for passed in ("2", "1"):
        page = client.get("/experiments/").content.decode()
        for column in ("With a result", "Passed"):
            assert re.findall(f'data-label="{column}">(\\d+)<', page) == [passed]
        quarantine(held, "It reads its inputs' seeds.")


@pytest.mark.django_db
def test_experiment_or_run_of_a_user_names_who_started_it(client, judged, hardware, alice, bob):
    """Else one with the title of an official comparison could be taken for that."""
    own = judged("new", "relu", 2.0, owner=alice)
    other = judged("new", "gelu", 2.0, owner=bob, experiment=None)
    for title, owner in (("By staff", bob), ("By the command line", None)):
        official = Experiment.objects.create(slug=title.split()[-1], title=title, plan={})
        judged_run("old", "relu", 2.0, hardware=hardware, experiment=official, owner=owner)
    page = client.get("/experiments/").content.decode()
    assert page.count("Started by alice.") == page.count("Started by") == 1
    assert "Started by alice." in client.get("/experiments/ab/").content.decode()
    assert "Started by" not in client.get("/experiments/staff/").content.decode()
    assert "started by alice" in client.get(f"/runs/{own.pk}/").content.decode()
    Run.objects.filter(pk=own.pk).update(owner=None)  # as one that was imported
    assert "started by a user of another arena" in client.get(f"/runs/{own.pk}/").content.decode()
    imported = client.get("/experiments/ab/").content.decode()
    assert "Started by a user of another arena." in imported
    assert "started by" not in client.get(f"/runs/{other.pk}/").content.decode()
