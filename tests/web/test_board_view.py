"""The view of a board: order, chosen agents, results by held-out sizes, p of fast_p, and CSV."""

from __future__ import annotations

import csv
import re
from functools import partial

import pytest
from django.utils import timezone

from arena.catalog.models import Agent, Hardware
from arena.leaderboard.ranking.boards import board, holding_options
from arena.leaderboard.ranking.fast_p import curves, levels, x_of, y_of
from arena.leaderboard.ranking.filters import NO_FILTERS, Filters
from arena.leaderboard.ranking.results import snapshot
from tests.arena import factories
from tests.arena.factories import judged_run
from tests.web.conftest import DESK, PHONE, TIMEOUT_MS

TASK = "rms_norm/cpp-to-cpp"


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


@pytest.fixture
def three(judged):
    """Judge three agents: the first by rank is the slowest and cheapest where it solved."""
    for name in ("relu", "gelu", "silu"):
        judged("whole", name, 1.2, cost_usd=0.1, tokens=1000)
    for name in ("relu", "gelu"):
        judged("half", name, 3.0, cost_usd=0.9, tokens=9000)
    judged("free", "relu", 1.5)
    judged("free", "gelu", 1.5)


def agents_of(client, query: str = "") -> list[str]:
    page = client.get(f"/leaderboard/?{query}").content.decode()
    table = page[page.index('<table class="cards board') :]
    return re.findall(r'name="agent" value="([^"]+)" form="chosen"', table)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("", ["whole", "half", "free"]),
        ("-solved", ["half", "free", "whole"]),
        ("solved", ["whole", "free", "half"]),
        ("agent", ["free", "half", "whole"]),
        ("cost", ["whole", "half", "free"]),
        ("-cost", ["half", "whole", "free"]),
    ],
)
def test_board_is_sorted_by_any_column_with_unknown_values_last(client, three, sort, order):
    assert agents_of(client, f"sort={sort}") == order


@pytest.mark.django_db
def test_board_ranked_by_the_sol_score_keeps_it_in_every_link(client, judged):
    judged("fast", "relu", 3.0, roofline_share=0.3)
    judged("near", "relu", 2.0, roofline_share=0.9)
    assert agents_of(client) == ["fast", "near"]
    assert agents_of(client, "score=sol") == ["near", "fast"]
    assert agents_of(client, "sort=sol") == ["fast", "near"]
    page = client.get("/leaderboard/?score=sol&sort=agent").content.decode()
    assert re.search(
        r'og:description" content="[^"]*near leads with an SOL score of 0\.', page, re.I
    )
    assert '<a href="/leaderboard/?score=sol&amp;sort=agent" aria-current="true">SOL' in page
    assert '<a href="/leaderboard.csv?score=sol&amp;sort=agent">' in page
    assert "<strong>0.92</strong>" in page and "counts as 0.5" in page
    answer = client.get("/api/v1/leaderboard?score=sol").json()
    assert (answer["filters"]["score"], answer["rows"][0]["agent"]) == ("sol", "near")
    problems = client.get("/leaderboard/?score=none").content.decode()
    assert "There is no score to rank by “none”. Known: speedup, sol." in problems


@pytest.mark.django_db
def test_methodology_defines_each_speedup_of_a_board_once_and_by_its_column(client, three):
    board_page, formulas = (
        client.get(f"/{name}/").content.decode() for name in ("leaderboard", "methodology")
    )
    defined = re.findall(
        r"^(?:<pre[^>]*>)?([a-zA-Z ]+?) += ", formulas.replace("<pre", "\n<pre"), re.M
    )
    speedups = [name for name in defined if "speedup" in name]
    assert len(speedups) == len(set(speedups)) and "speedup of an agent" not in speedups
    for column, name in (
        ("Pass rate", "pass rate"),
        ("Speedup over the set", "speedup over the set"),
        ("Where solved", "speedup where solved"),
    ):
        assert f">{column}</a>" in board_page and name in defined, column


@pytest.mark.django_db
def test_heading_says_how_the_board_is_sorted_and_turns_it(client, three):
    page = client.get("/leaderboard/?track=cpp-to-cpp&sort=-solved").content.decode()
    assert page.count("aria-sort=") == 1
    assert re.search(
        r'aria-sort="descending"[^>]*><a href="/leaderboard/\?track=cpp-to-cpp&amp;sort=solved"',
        page,
    )
    page = client.get("/leaderboard/?sort=none").content.decode()
    assert "There is no column “none” to sort by." in page and 'aria-sort="ascending"' in page


@pytest.mark.django_db
def test_agents_without_a_rank_stay_below_in_any_order(client, judged):
    for name in ("relu", "gelu", "silu"):
        judged("whole", name, 1.2)
    judged("few", "relu", 9.0)
    assert agents_of(client, "sort=-solved") == ["whole", "few"]


@pytest.mark.django_db
def test_chosen_agents_alone_are_shown_and_keep_their_ranks(client, three):
    assert agents_of(client, "agent=free&agent=half") == ["half", "free"]
    page = client.get("/leaderboard/?agent=free&agent=half&sort=agent").content.decode()
    assert 'class="rank fit">2' in page and 'class="rank fit">1' not in page
    assert '<a href="/leaderboard/?sort=agent">Show all agents</a>' in page
    assert (
        "There is no agent “none” here." in client.get("/leaderboard/?agent=none").content.decode()
    )
    part = client.get("/leaderboard/parts/matrix/?agent=free").content.decode()
    assert "/agents/free/" in part and "/agents/half/" not in part


@pytest.mark.django_db
def test_results_by_hidden_sizes_are_counted_and_alone_count_as_solved(client, judged):
    judged("a", "relu", 2.0, unseen_speedup=1.9)
    judged("a", "gelu", 2.0, unseen_speedup=1.2)
    judged("a", "silu", 2.0, status="failed")
    judged("a", "mish", None, status="failed")
    counted = {each.value: each.count for each in holding_options(NO_FILTERS)}
    assert counted == {"right": 2, "kept": 1, "specialised": 1}
    solved = {name: board(Filters(holds=name)).rows[0].solved for name in ("", *counted)}
    assert solved == {"": 2, "right": 2, "kept": 1, "specialised": 1}
    page = client.get("/leaderboard/?holds=kept").content.decode()
    assert '<option value="kept" selected>Retains 80% or more on held-out sizes (1)' in page
    assert "A task counts as solved here by results of this class alone" in page
    answer = client.get("/api/v1/leaderboard?holds=kept").json()
    assert (answer["filters"]["holds"], answer["rows"][0]["solved"]) == ("kept", 1)
    problems = client.get("/leaderboard/?holds=none").content.decode()
    assert "There is no class of results “none”." in problems


@pytest.mark.django_db
def test_board_as_of_a_day_has_the_results_until_then(client, judged):
    day = timezone.now() - timezone.timedelta(days=3)
    judged("a", "relu", 1.2, created_at=day)
    judged("b", "relu", 3.0)
    assert agents_of(client) == ["b", "a"]
    assert agents_of(client, f"until={day:%Y-%m-%d}") == ["a"]
    assert agents_of(client, "since=0001-01-01&until=9999-12-31") == ["b", "a"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("top", "marked"),
    [
        (1.0, [1.0, 0.5]),
        (0.45, [0.4, 0.2]),
        (0.38, [0.3, 0.2, 0.1]),
        (0.2, [0.2, 0.1]),
        (1 / 148, [1 / 148]),
    ],
)
def test_axis_of_the_curve_marks_round_shares(top, marked):
    assert levels(top) == marked


def test_curve_is_the_share_of_all_tasks_above_p(three):
    now = snapshot()
    shown = board()
    agents = {row.agent.slug: row.agent.pk for row in shown.rows}
    found = curves(now.table.rows, shown.tasks, "unseen_speedup")
    half, whole = found[agents["half"]], found[agents["whole"]]
    assert [half.at(p) for p in (0.25, 2.9, 3.0)] == pytest.approx([2 / 3, 2 / 3, 0])
    assert [whole.at(p) for p in (1.0, 1.2)] == pytest.approx([1, 0])
    assert half.path(1.0) == f"M{x_of(8)} 194.0H{x_of(3):.0f}V{y_of(2 / 3, 1.0)}H40"


@pytest.mark.django_db
def test_p_ranks_the_table_anew(client, three):
    assert agents_of(client, "p=1.0") == ["whole", "half", "free"]
    assert agents_of(client, "p=1.3") == ["half", "free", "whole"]
    assert agents_of(client, "p=2") == ["half", "whole", "free"]
    page = client.get("/leaderboard/?p=2").content.decode()
    assert "Faster than 2.00×" in page and "<strong>67%</strong>" in page
    assert (
        "p is “none”: write a speedup from 0.25 to 8."
        in client.get("/leaderboard/?p=none").content.decode()
    )


@pytest.mark.django_db
def test_csv_has_the_rows_of_the_page_in_its_order(client, three):
    page = client.get("/leaderboard/?sort=-solved&agent=half&agent=free").content.decode()
    address = re.search(r'href="(/leaderboard\.csv[^"]*)"', page)[1].replace("&amp;", "&")
    rows = list(csv.DictReader(client.get(address).content.decode().splitlines()))
    assert [(row["agent"], row["rank"]) for row in rows] == [("half", "2"), ("free", "3")]
    assert float(rows[0]["unseen_speedup"]) == pytest.approx(3.0)
    assert (rows[0]["cost"], rows[1]["cost"]) == ("1.8", "")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_dragging_p_ranks_the_table_and_changes_the_link(open_page, served_world):
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 1.4, rounds=1)
    served_world.passed("softmax/cpp-to-cpp", "tuner", 1.4, rounds=1)
    served_world.passed("rms_norm/cpp-to-cpp", "hill-climber", 3.5, rounds=1)
    page = open_page("/leaderboard/?task_set=all&track=cpp-to-cpp&sort=agent")
    page.wait_for_selector("[data-curve][data-ready]", timeout=TIMEOUT_MS)
    handle = page.locator("[data-curve] .handle circle")
    handle.scroll_into_view_if_needed()
    box, svg = handle.bounding_box(), page.locator("[data-curve]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(svg["x"] + svg["width"] * x_of(2.0) / 720, box["y"], steps=4)
    page.mouse.up()
    head = "#board th[aria-sort]:has-text('Faster than"
    handle = page.locator("[data-curve] .handle")
    p = float(handle.get_attribute("aria-valuenow"))
    assert p == pytest.approx(2.0, abs=0.05)
    page.wait_for_selector(f"{head} {p:.2f}×')", timeout=TIMEOUT_MS)
    first = page.locator("#board tbody th[scope=row] a").first
    assert first.inner_text() == "Hill climber"
    assert f"p={p:.2f}" in page.url and "sort=" not in page.url
    handle.press("Home")
    page.wait_for_selector(f"{head} 0.25×')", timeout=TIMEOUT_MS)
    assert first.inner_text() == "Tuner" and "p=0.25" in page.url
    assert page.console_errors == []


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_board_without_scripts_sorts_compares_and_takes_p(open_page, served_world):
    served_world.passed("rms_norm/cpp-to-cpp", "tuner", 1.4, rounds=1)
    served_world.passed("rms_norm/cpp-to-cpp", "hill-climber", 3.5, rounds=1)
    page = open_page("/leaderboard/?track=cpp-to-cpp", java_script_enabled=False)
    page.click("th a >> text=Where solved")
    assert "sort=-solved" in page.url and "track=cpp-to-cpp" in page.url
    page.check("[aria-label='Select Tuner']")
    page.click("text=Compare selected")
    assert page.locator("#board tbody th a").all_inner_texts() == ["Tuner"]
    page.fill("#curve input[name=p]", "1.5")
    page.click("text=Rank by p")
    assert "p=1.5" in page.url and "agent=tuner" in page.url
    assert page.locator("text=Faster than 1.50×").is_visible()


@pytest.mark.django_db
def test_board_without_a_measured_roofline_has_no_sol_score(client, judged):
    judged("only", "relu", 2.0)
    page = client.get("/leaderboard/?score=sol").content.decode()
    cell = page[page.index('data-label="SOL score"') :].partition("</td>")[0]
    assert "<strong>–</strong>" in cell and "at least" not in cell and "95% CI" not in cell


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_chart_on_a_phone_without_scripts_shows_every_label_whole(open_page, served_world):
    served_world.passed(TASK, "hill-climber", 2.1, rounds=1)
    address = "/leaderboard/parts/generalization/?task_set=all"
    page = open_page(address, PHONE, java_script_enabled=False)
    drawn = page.locator(".plot .drawing").bounding_box()
    labels = [label.bounding_box() for label in page.locator(".plot .drawing text").all()]
    assert len(labels) > 4 and min(label["x"] for label in labels) >= drawn["x"]
    assert min(label["height"] for label in labels) > 8, "it can be read"


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_headings_of_a_board_on_a_phone_show_while_the_keyboard_is_in_them(open_page, served_world):
    served_world.passed(TASK, "tuner", 2.1, rounds=1)
    page = open_page("/leaderboard/?task_set=all", PHONE)
    head, link = page.locator(".board thead"), page.locator(".board thead a", has_text="Pass rate")
    assert head.bounding_box()["height"] <= 1
    link.focus()
    box = link.bounding_box()
    found = page.evaluate("([x, y]) => document.elementFromPoint(x, y).textContent",
                          [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])  # fmt: skip
    assert found == "Pass rate"
    page.keyboard.press("Enter")
    page.wait_for_url("**sort=-pass_rate**")


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_board_with_costs_fits_a_desk(open_page, served_world, in_thread):
    run = served_world.passed(TASK, "tuner", 2.1, rounds=1)
    in_thread(factories).judged_run(
        "small-model", "rms_norm", hardware=run.hardware, rounds=0, judge_version="", tokens=10_000
    )
    page = open_page("/leaderboard/?task_set=all", DESK)
    assert "no run submitted anything" in page.locator("table.board").inner_text()
    assert page.locator("table.board thead", has_text="Cost per solved task").is_visible()
    frame = page.locator(".scroll:has(table.board)")
    assert frame.evaluate("it => it.scrollWidth - it.clientWidth") == 0


@pytest.fixture
def of_two_judges(judged):
    """Judge runs by two versions on two devices, and runs that submitted nothing to any."""
    for slug, adapter in (("a", "codex"), ("b", "qwen"), ("silent", "model_loop")):
        Agent.objects.create(slug=slug, title=slug, adapter=adapter, model=f"m-{slug}")
    for name in ("relu", "gelu", "silu"):
        judged("a", name, 2.0, judge_version="10")
        judged("silent", name, rounds=0, judge_version="")
    judged("b", "relu", 2.0, judge_version="10")
    judged("b", "gelu", 2.0, judge_version="12")
    other = Hardware.objects.create(slug="b", name="B", kind="cpu", queue="hw.b")
    judged("a", "mish", 2.0, judge_version="12", hardware=other)


def shown_on(client, address: str) -> int:
    return sum(row.total for row in client.get(address).context["board"].rows)


@pytest.mark.django_db
@pytest.mark.parametrize("asked", ["", "judge=12", "harness=qwen", "task_set=all&holds=right"])
def test_count_of_a_filter_is_the_number_of_runs_that_choosing_it_shows(
    client, of_two_judges, hardware, asked
):
    base = f"hardware={hardware.slug}&{asked}"
    context = client.get(f"/leaderboard/?{base}").context
    for option, address, _ in (*context["tabs"], *context["origins"], *context["judges"]):
        assert option.count == shown_on(client, address), address
    for _, name, _, values, _ in context["selects"]:
        for value, label in values:
            count = shown_on(client, f"/leaderboard/?{base}&{name}={value}")
            assert label.endswith(f" ({count})"), (name, label, count)


@pytest.mark.django_db
def test_runs_that_submitted_nothing_are_counted_by_every_filter(client, of_two_judges, hardware):
    page = client.get(f"/leaderboard/?hardware={hardware.slug}").content.decode()
    assert ">m-silent (3)</option>" in page and '"model_loop">model_loop (3)' in page
