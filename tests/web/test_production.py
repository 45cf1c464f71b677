"""Tests of the pages and the API of production tasks, and of other pages with such a run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.catalog.models import Agent, Hardware, Operator, Task, TaskVersion
from arena.leaderboard.production.architectures import FAMILY_TITLES, probes
from arena.published.models import PublishedVerdict
from arena.runs import services
from arena.runs.display.funnels import DROPS
from arena.runs.models import Evaluation, GateResult, Run
from evaluation.kinds.module.architectures import FAMILIES, architectures
from evaluation.kinds.module.drops import Drop
from tests.arena.production import CEILINGS, performance, production_run, production_task
from tests.arena.published import load_verdicts, verdict_line
from tests.web.test_pages import INLINE

pytestmark = pytest.mark.django_db
LLAMA = "/production/llama/"
MAX_INDEX_QUERIES, MAX_ARCHITECTURE_QUERIES, MAX_RUN_QUERIES = 4, 11, 16


def text_of(client: Any, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    text: str = answer.content.decode()
    return text


def queries(client: Any, address: str) -> int:
    """Return the queries of a page that was opened before."""
    client.get(address)
    with CaptureQueriesContext(
        connection,
    ) as found:
        assert client.get(address).status_code == 200
    return len(found)


def test_every_family_has_a_title() -> None:
    assert set(FAMILY_TITLES) == set(FAMILIES)


def test_list_has_every_architecture_by_family(client: Any) -> None:
    page = text_of(client, "/production/")
    assert "No production task is in the catalogue" in page and "python -m runners sync" in page
    for each in architectures().values():
        assert f'href="/production/{each.name}/"' in page
    assert "stands in for YOLOv10 of FastKernels" in page
    titles = re.findall(r'</a> ?<span class="dim">([^<;]+?)(?:, \d+ modules?)?;', page)
    assert list(dict.fromkeys(titles)) == list(FAMILY_TITLES.values())
    assert f"<summary>{len(titles)} architectures without a result" in page


@pytest.mark.parametrize(
    ("family", "names"),
    [
        ("speech", {"whisper", "token2wav_dit"}),
        ("world_model", {"latte", "vjepa2"}),
        ("multimodal", {"clip_text", "siglip_text", "siglip2", "qwen2_vl", "qwen3_vl",
                        "qwen2_5_omni_thinker"}),
    ],
)  # fmt: skip
def test_family_has_the_architectures_of_its_heading_alone(
    client: Any, family: str, names: set[str]
) -> None:
    page = text_of(client, f"/production/?family={family}")
    assert set(re.findall(r'href="/production/(\w+)/"', page)) == names


def test_list_is_filtered_by_family(client: Any) -> None:
    page = text_of(client, "/production/?family=vision")
    assert 'href="/production/dit/"' in page and 'href="/production/llama/"' not in page
    assert "There is no family “none”" in text_of(client, "/production/?family=none")
    assert "There is no device “none”" in text_of(client, "/production/?hardware=none")


def test_list_shows_the_best_deployed_speedup_and_the_number_of_judged_runs(client: Any) -> None:
    production_task("llama_mlp")
    assert "No run has been judged" in text_of(client, "/production/")
    production_run("tuner", "llama_rms_norm", performance(4.0, 1.2))
    folded = text_of(client, "/production/").partition("<details")[2]
    assert 'href="/production/dit/"' in folded and 'href="/production/llama/"' not in folded
    best = production_run("climber", "llama_mlp", performance(1.5, 1.4))
    page = text_of(client, "/production/")
    row = page.partition('href="/production/llama/"')[2].partition("</tr>")[0]
    assert 'data-label="Modules">2<' in row and 'data-label="Judged">2<' in row
    assert f'href="/runs/{best.pk}/">1.40×' in row and "Climber" in row and "1.36 to 1.44" in row


def test_page_is_of_one_device(client: Any) -> None:
    gpu = Hardware.objects.create(slug="gpu", name="A GPU", kind="gpu", queue="hw.gpu")
    production_run("tuner", "llama_rms_norm", performance(4.0, 1.2))
    production_run("climber", "llama_mlp", performance(4.0, 1.2))
    on_gpu = production_run("tuner", "llama_rms_norm", performance(4.0, 1.9), hardware=gpu)
    assert "1.90×" not in text_of(client, LLAMA) and "1.20×" in text_of(client, LLAMA)
    page = text_of(client, f"{LLAMA}?hardware=gpu")
    assert "1.90×" in page and "1.20×" not in page and on_gpu.pk in page
    assert "1.90×" in text_of(client, "/production/?hardware=gpu")


def test_architecture_page_shows_what_the_probe_found(client: Any) -> None:
    page = text_of(client, "/production/bitnet/")
    assert f"{probes()['bitnet'].parameters:,}" in page and "4.9e-07" in page
    assert "FastKernels calls it BitNet." in page and "0 graph breaks" in page
    assert "timm is not installed" in text_of(client, "/production/mobilenet_v4/")
    text_of(client, "/production/none/", 404)


def test_architecture_page_names_the_kinds_of_device_with_error_limits(client: Any) -> None:
    shown = "<dt>Can be judged on</dt><dd>{}</dd>"
    for name, kinds in (("llama", "GPU, CPU"), ("bamba", "–")):
        page = " ".join(client.get(f"/production/{name}/").content.decode().split()).replace(
            "> <", "><"
        )
        assert shown.format(kinds) in page, name


def test_architecture_without_a_task_names_the_command_that_adds_one(client: Any) -> None:
    assert "has no task in the catalogue" in text_of(client, LLAMA)
    assert "production fit flux --write" in text_of(client, "/production/flux/")
    assert "describes no module" in text_of(client, "/production/bamba/")


def test_architecture_page_shows_shares_ceilings_and_the_best_kernel(client: Any) -> None:
    detail = performance(4.0, 1.2, ceilings={**CEILINGS, "prefill": interval_at(1.5)})
    best = production_run("tuner", "llama_rms_norm", detail)
    production_task("llama_mlp", ceilings={"prefill": interval_at(2.0)})
    page = text_of(client, LLAMA)
    modules = page.partition('aria-label="Table: modules"')[2].partition("</table>")[0]
    norm = modules.partition("RMS norm</a>")[2].partition("</tr>")[0]
    assert "33%" in norm and "ceiling 1.50×" in norm, "of the verdict on this device"
    assert "15%" in norm and "ceiling 1.18×" in norm, "of the task"
    assert best.pk in norm and "4.00×" in norm and "1.16 to 1.24" in norm
    assert "50%" in modules.partition("MLP</a>")[2], "the largest share is the first row"
    assert modules.index("MLP</a>") < modules.index("RMS norm</a>")


def test_architecture_page_labels_the_composition_as_predicted(client: Any) -> None:
    production_run("tuner", "llama_rms_norm", performance(4.0, 1.25))
    assert "predicted" not in text_of(client, LLAMA).partition('id="modules"')[0], "one is measured"
    production_run("tuner", "llama_mlp", performance(4.0, 1.25))
    production_run("tuner", "llama_decoder_layer", performance(4.0, 1.1))
    page = text_of(client, LLAMA)
    assert "Predicted, not measured:" in page and "gives 1.67× for the model" in page
    assert "one contains the other: Decoder layer of Llama 3.1" in page


def test_architecture_page_shows_the_funnel_of_each_submission(client: Any) -> None:
    production_run("tuner", "llama_rms_norm", performance(4.0, 0.64, drop="graph_break"))
    production_run("climber", "llama_mlp", performance(1.5, 1.2))
    over = performance(3.0, 1.9, drop="over_ceiling")
    disputed = production_run("cheat", "llama_mlp", over, verdict="disputed")
    page = text_of(client, LLAMA)
    table = page.partition('aria-label="Table: submissions"')[2]
    assert "graph break" in table and "leaves its graph at this module" in table
    assert table.index("1.20×") < table.index("0.64×") < table.index(disputed.pk)
    assert "1 of these 3 submissions wins alone and loses deployed." in page
    assert "the table has the same numbers" in page and "application/json" in page


def test_submissions_of_an_architecture_are_in_pages(client: Any) -> None:
    for number in range(15):
        production_run(f"agent-{number}", "llama_mlp", performance(1.5, 1.01 + number / 100))
    page = text_of(client, LLAMA)
    assert "1 to 12 of 15 submissions" in page and "page=2" in page
    last = text_of(client, f"{LLAMA}?page=2").partition('aria-label="Table: submissions"')[2]
    assert "Agent-0<" in last and "Agent-14<" not in last


def test_private_and_quarantined_runs_are_on_no_page_of_others(
    client: Any, alice: Any, bob: Any, charlie: Any
) -> None:
    own = production_run("a", "llama_mlp", performance(), owner=alice, visibility="owner")
    held = production_run("b", "llama_mlp", performance())
    services.quarantine(held, "It read the clock.")
    agent = production_run("c", "llama_mlp", performance()).agent
    Agent.objects.filter(pk=agent.pk).update(
        quarantined_at="2026-01-01T00:00Z", quarantine_reason="It cheats."
    )
    for user, shown in ((None, False), (charlie, False), (alice, True), (bob, True)):
        if user:
            client.force_login(user)
        page = text_of(client, LLAMA)
        assert (own.pk in page) is shown, user
        assert held.pk not in page and "C<" not in page, user
        assert 'data-label="Judged">1' not in text_of(client, "/production/")


def test_runs_of_a_draft_task_are_hidden(client: Any) -> None:
    run = production_run("a", "llama_mlp", performance())
    Task.objects.update(status="draft")
    assert run.pk not in text_of(client, LLAMA)
    assert "has no task in the catalogue" in text_of(client, LLAMA)


@pytest.mark.parametrize("detail", [{}, [], {"deployed": "fast"}, {"deployed": {"speedup": 1.2}}])
def test_pages_open_without_a_funnel_in_the_verdict(client: Any, detail: Any) -> None:
    run = production_run("a", "llama_mlp", detail)
    for address in (LLAMA, "/production/", run.get_absolute_url(), f"/runs/{run.pk}/rounds/1/"):
        page = text_of(client, address)
        assert 'id="chart-funnel"' not in page, address
    assert "has been timed" in text_of(client, LLAMA)


@pytest.mark.parametrize("production", [None, [], "text", {}, {"ceilings": 1, "constructor": 2,
                                        "shapes": "x", "paths": 1, "places": "x"}])  # fmt: skip
def test_pages_open_with_a_malformed_description_of_the_task(client: Any, production: Any) -> None:
    run = production_run("a", "llama_mlp", performance())
    version = TaskVersion.objects.get()
    version.public["production"] = production
    version.save()
    for address in (LLAMA, run.get_absolute_url(), "/tasks/llama_mlp/production/"):
        text_of(client, address)


def test_page_of_an_architecture_whose_file_is_gone_stays(client: Any) -> None:
    run = production_run("a", "llama_mlp", performance())
    operator = Operator.objects.get()
    operator.source |= {"architecture": "gone", "architecture_title": "Gone 1"}
    operator.save()
    assert run.pk in text_of(client, "/production/gone/")
    assert "Gone 1" in text_of(client, "/production/")


def test_run_page_shows_its_funnel_with_the_sentence_of_its_drop(client: Any) -> None:
    run = production_run("tuner", "llama_rms_norm", performance(4.0, 0.64))
    gate = GateResult.objects.get(gate="performance")
    for drop in Drop:
        gate.detail["drop"] = drop.value
        gate.save()
        page = text_of(client, run.get_absolute_url())
        first = DROPS[drop].replace("`", "").replace("'", "&#x27;")
        assert first in re.sub(r"</?code>", "", page), drop
    assert "The module alone is 4.00× as fast" in page and "Amdahl" in page
    assert "Deployed, the model is 0.64× as fast (0.62 to 0.66)." in page
    assert "held-out" not in page and '"name">generalization' not in page
    assert page.count('<td class="n" data-label="Eager">') == 2, "a row for each phase"
    assert "11.1\u202fms vs 9.81\u202fms" in page


def test_run_page_names_phases_that_are_unexplained_or_not_compiled(client: Any) -> None:
    detail = performance(1.2, 1.4, unexplained=["decode"], not_compiled=["prefill"])
    detail["reported"]["candidate"] |= {"graph_breaks": 3, "reasons": ["call of <b>c</b>"]}
    page = text_of(client, production_run("tuner", "llama_mlp", detail).get_absolute_url())
    assert "In decode, the model gains more than the module alone explains" in page
    assert "In prefill, the model with this module ran in eager" in page
    assert "3 graph breaks" in page and "call of &lt;b&gt;c&lt;/b&gt;" in page


def test_round_page_shows_its_funnel_in_place_of_cases(client: Any) -> None:
    run = production_run("tuner", "llama_mlp", performance(2.0, 1.1))
    page = text_of(client, f"/runs/{run.pk}/rounds/1/")
    assert 'id="chart-funnel"' in page and "Phases and regimes" in page and "GB/s" not in page


def test_ordinary_run_has_no_funnel(client: Any, start: Any) -> None:
    run = start()
    page = text_of(client, f"/runs/{run.pk}/?tab=results")
    assert 'id="chart-funnel"' not in page and "generalization" in page


def test_task_page_describes_the_module(client: Any) -> None:
    production_task("llama_rms_norm")
    page = text_of(client, "/tasks/llama_rms_norm/production/")
    for text in (
        'href="/production/llama/"', "transformers 5.23.0", "licence Apache-2.0", "256, eps=1e-06",
        "bfloat16[1, 64, 256]", "1.31×", "1.18×", "LlamaRMSNorm", "model.norm",
    ):  # fmt: skip
        assert text in page, text
    assert "Held-out cases" not in page and "Public cases" not in page


def test_task_page_shows_the_reason_that_prevents_judging(client: Any) -> None:
    production_task("llama_rms_norm", unavailable="transformers is not installed")
    Task.objects.update(in_tree=False)
    page = text_of(client, "/tasks/llama_rms_norm/production/")
    assert "transformers is not installed" in page and "folder of this task" not in page
    assert "transformers is not installed" in text_of(client, LLAMA)


def test_board_of_production_counts_kernels_that_lose_deployed(client: Any) -> None:
    production_run("tuner", "llama_rms_norm", performance(4.0, 0.64))
    production_run("tuner", "llama_mlp", performance(2.0, 0.9))
    production_run("climber", "llama_rms_norm", performance(1.1, 1.2))
    production_run("climber", "llama_mlp", performance(1.1, 1.2))
    page = text_of(client, "/leaderboard/?suite=production")
    cells = re.findall(r'data-label="Wins alone, loses deployed">(\d+)<', page)
    assert cells == ["0", "2"], "climber, then tuner"
    board = page.partition('id="board"')[2]
    assert "Deployed speedup" in board and "Retained" not in board and "% of roofline" not in board
    assert 'href="/production/?hardware=test-cpu"' in page and "held-out" not in page
    only = text_of(client, "/leaderboard/?suite=production&family=vision")
    assert "No judged run matches" in only
    part = text_of(client, "/leaderboard/parts/categories/?suite=production")
    assert "Geomean deployed speedup" in part


def test_replaced_run_counts_no_more_as_a_loss(client: Any) -> None:
    production_run("tuner", "llama_mlp", performance(4.0, 0.64))
    address = "/leaderboard/?suite=production"
    assert 'loses deployed">1<' in text_of(client, address)
    production_run("tuner", "llama_mlp", performance(4.0, 1.1))
    assert 'loses deployed">0<' in text_of(client, address)


def test_native_board_has_no_production_column(client: Any, start: Any) -> None:
    production_run("tuner", "llama_mlp", performance(4.0, 0.64))
    assert "loses deployed" not in text_of(client, "/leaderboard/")


def test_pages_with_a_funnel_have_no_inline_script_or_style(client: Any) -> None:
    run = production_run("tuner", "llama_rms_norm", performance(4.0, 0.64, drop="graph_break"))
    for address in ("/production/", LLAMA, run.get_absolute_url(), f"/runs/{run.pk}/rounds/1/"):
        assert not INLINE.search(text_of(client, address)), address


def test_comparison_of_production_runs_names_the_deployed_speedup(client: Any) -> None:
    runs = [production_run(by, "llama_rms_norm", performance(2.0, 1.1)) for by in ("a", "b")]
    page = text_of(client, f"/compare/?run={runs[0].pk}&run={runs[1].pk}")
    assert "Deployed speedup" in page and "Held-out" not in page


def test_other_pages_open_with_production_runs(client: Any) -> None:
    run = production_run("tuner", "llama_rms_norm", performance(4.0, 1.2))
    other = production_run("climber", "llama_rms_norm", performance(2.0, 1.1))
    direct = Agent.objects.create(slug="direct-submission", title="D", adapter="direct-submission")
    Run.objects.filter(pk=production_run("own", "llama_mlp").pk).update(agent=direct)
    for address in (
        "/", "/tasks/", "/tasks/?suite=production", "/tasks/?track=production", "/runs/",
        "/runs/?track=production", f"/compare/?run={run.pk}&run={other.pk}", "/agents/",
        "/agents/tuner/", "/agents/tuner/failures/", "/kernels/", "/analysis/", "/hardware/",
        "/tasks/llama_rms_norm/", "/methodology/", f"/runs/{run.pk}/summary/",
        "/api/v1/tasks?suite=production", "/api/v1/tasks/llama_rms_norm/production",
        f"/api/v1/runs/{run.pk}", "/api/v1/leaderboard?suite=production",
        "/api/v1/leaderboard/records", f"/api/v1/runs/{run.pk}/submissions/1",
    ):  # fmt: skip
        assert client.get(address).status_code in (200, 302), address
    assert "Deployed speedup" in text_of(client, "/tasks/?suite=production")
    assert "own kernel" in text_of(client, LLAMA)


def test_published_verdicts_are_on_the_pages_of_their_modules(client: Any, tmp_path: Path) -> None:
    production_task("llama_rms_norm")
    lost = verdict_line("llama_rms_norm/production", 0.9, agent="Other", drop="fusion_lost")
    load_verdicts(tmp_path, [verdict_line("llama_rms_norm/production", 1.2), lost])
    index = text_of(client, "/production/")
    assert "published verdicts on 1 module." in index and ">1.20×</a>" in index
    assert 'href="/production/llama/#published">2</a>' in index
    for address in (LLAMA, "/tasks/llama_rms_norm/production/"):
        page = text_of(client, address)
        for part in ("Published verdicts", "1.20×", "Invented maker", "2 in place of 8",
                     "fusion lost", "judge 6, final, Nov 26, 2026", "NVIDIA H200"):  # fmt: skip
            assert part in page, (address, part)
    assert "Published verdicts" not in text_of(client, "/production/dit/")


def test_page_of_a_published_verdict_names_its_judge_and_what_is_not_recorded(
    client: Any, tmp_path: Path
) -> None:
    production_task("llama_rms_norm")
    machine = {"device": {"name": "NVIDIA H200", "uuid": "aec47549"}, "torch": "2.11.0+cu130",
               "source": "229d7645b2ce", "peaks": {"memory_gbps": 4212.2}}  # fmt: skip
    line = verdict_line("llama_rms_norm/production", 1.2, machine=machine)
    seconds = {"compile": 14.3, "performance": 64.3, "total": 99.4}
    line["detail"] |= performance(2.0, 1.2) | {"seconds": seconds}
    load_verdicts(tmp_path, [line, verdict_line("llama_rms_norm/production", 0.9, agent="Other")])
    found = PublishedVerdict.objects.get(agent="Invented maker")
    address = found.get_absolute_url()
    assert f'href="{address}"' in text_of(client, LLAMA)
    page = text_of(client, address)
    for part in ("1.20×", "Version</dt><dd class=\"mono\">6<", "229d7645b2ce", "aec47549",
                 "2.11.0+cu130", "4,212 GB/s, measured", "1 min 39 s in all", "Phases and regimes",
                 "It is no run", "2 in place of 8"):  # fmt: skip
        assert part in page, part
    assert 'Driver</dt><dd class="mono">not recorded' in page
    assert 'Task version</dt><dd class="mono">not recorded' in page
    other = PublishedVerdict.objects.get(agent="Other").get_absolute_url()
    assert f'href="{other}"' in page
    load_verdicts(tmp_path, [line | {"judge_version": "8"}])
    assert client.get(other).status_code == 404
    assert "judge 8" in text_of(client, LLAMA) and f'href="{address}"' in text_of(client, LLAMA)


def test_architectures_of_the_api_have_the_best_kernel_of_each_module(client: Any) -> None:
    run = production_run("tuner", "llama_rms_norm", performance(4.0, 1.2))
    production_task("llama_mlp")
    found = client.get("/api/v1/production/architectures").json()
    assert len(found) == len(architectures())
    llama = client.get("/api/v1/production/architectures/llama").json()
    assert llama in found and llama["hardware"] == "test-cpu" and llama["paper"] == "Llama-3.1"
    by_task = {module["task"]: module for module in llama["modules"]}
    norm = by_task["llama_rms_norm/production"]
    assert norm["judged"] == 1 and norm["best"]["run"] == run.pk
    assert norm["best"]["agent"] == "tuner" and norm["best"]["speedup"] == pytest.approx(1.2)
    assert by_task["llama_mlp/production"]["best"] is None
    vision = client.get("/api/v1/production/architectures?family=vision").json()
    assert {each["family"] for each in vision} == {"vision"}
    for address in ("/none", "/llama?hardware=none"):
        answer = client.get(f"/api/v1/production/architectures{address}")
        assert answer.status_code == 404 and "There is no" in answer.json()["error"]["message"]


def test_queries_of_the_pages_do_not_grow_with_runs(client: Any, lasting_answers: None) -> None:
    production_run("first", "llama_rms_norm", performance(2.0, 1.1))
    run = production_run("first", "llama_mlp", performance(2.0, 1.1))
    addresses = ("/production/", LLAMA, "/leaderboard/?suite=production", f"/runs/{run.pk}/")
    before = [queries(client, address) for address in addresses]
    for number in range(10):
        for on in ("llama_rms_norm", "llama_mlp", "llama_attention", "dit_gelu"):
            detail = performance(2.0, 1.1 + number / 100)
            production_run(f"agent-{number}", on, detail)
    assert [queries(client, address) for address in addresses] == before
    assert before[0] <= MAX_INDEX_QUERIES and before[1] <= MAX_ARCHITECTURE_QUERIES
    assert before[3] <= MAX_RUN_QUERIES


def test_rejudged_run_shows_the_funnel_of_its_newest_verdict(client: Any) -> None:
    run = production_run("tuner", "llama_mlp", performance(2.0, 1.7))
    past = Evaluation.objects.get()
    Evaluation.objects.filter(pk=past.pk).update(scope="past")
    new = Evaluation.objects.create(
        submission=past.submission, scope="final", hardware=run.hardware, status="done",
        verdict="passed",
    )  # fmt: skip
    GateResult.objects.create(
        evaluation=new, gate="performance", verdict="passed", detail=performance(2.0, 1.05)
    )
    table = text_of(client, LLAMA).partition('aria-label="Table: submissions"')[2]
    assert "1.05×" in table and "1.70×" not in table


def test_ceiling_below_1_is_noise_with_its_interval_on_every_page(client: Any) -> None:
    noise = {phase: interval_at(0.9) for phase in CEILINGS}
    run = production_run("tuner", "llama_rms_norm", performance(4.0, 1.2, ceilings=noise))
    production_task("llama_mlp", ceilings=noise)
    for address in (LLAMA, run.get_absolute_url(), "/tasks/llama_mlp/production/"):
        page = text_of(client, address)
        assert page.count("about 1× (noise)") >= len(noise), address
        assert "0.88 to 0.92" in page and "0.90×" not in page, address


def interval_at(speedup: float) -> dict[str, float]:
    return {"speedup": speedup, "low": speedup * 0.98, "high": speedup * 1.02}
