"""Tests of charts as files: SVG, PNG and CSV at the address of their page."""

from __future__ import annotations

import csv
import re
from xml.etree import ElementTree

import plotly.graph_objects
import pytest

from arena.accounts.attempts import count_attempt
from arena.chart_svg import chart_svg
from arena.charts import SERIES, figure, speedups, title
from arena.pages.charts.files import MAX_PICTURES, standalone
from tests.web.world import DEVICE

SVG = "{http://www.w3.org/2000/svg}"
TASK = "rms_norm/cpp-to-cpp"


def parsed(content: str | bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)  # noqa: S314  # our own answer


def texts(drawn: ElementTree.Element) -> list[str]:
    return ["".join(each.itertext()) for each in drawn.iter(f"{SVG}text")]


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def test_drawing_has_the_points_and_texts_of_its_figure():
    marker = {"color": SERIES[0], "size": 10, "symbol": ["circle", "diamond-open"]}
    points = [("slow", 1.0, 0.5, 2.0), ("<fast>", 4.0, None, None)]
    trace = speedups("on cases", points, "x", marker, "%{y}: %{x:.2f}×<extra></extra>")
    shown = figure([trace], x={**title("speedup"), "type": "log"}, y={}, one="x")
    plotly.graph_objects.Figure(shown)
    drawn = parsed(chart_svg(shown, "Speedups"))
    assert drawn.get("aria-label") == "Speedups"
    assert {"slow", "<fast>", "speedup", "1", "2"} <= set(texts(drawn))
    titles = [each.text for each in drawn.iter(f"{SVG}title")]
    assert titles == ["slow: 1.00×", "<fast>: 4.00×"]
    markers = [each for each in drawn.iter(f"{SVG}path") if each.get("transform")]
    assert [each.get("fill") for each in markers] == [SERIES[0], "none"]
    at = [float(re.search(r"\(([\d.]+)", each.get("transform"))[1]) for each in markers]
    bar = next(each for each in drawn.iter(f"{SVG}line") if each.get("stroke-width") == "1.5")
    low, high = float(bar.get("x1")), float(bar.get("x2"))
    assert at[0] - low == pytest.approx(high - at[0], abs=0.2), "a factor of two on both sides"
    assert at[1] - at[0] == pytest.approx(2 * (at[0] - low), abs=0.2)


def test_steps_and_gaps_of_a_line_are_those_of_its_figure():
    line = {"type": "scatter", "mode": "lines", "x": [1, 2, None, 3], "y": [1, 3, None, 2]}
    shown = figure([{**line, "line": {"shape": "hv", "color": SERIES[1], "width": 2}}], x={}, y={})
    path = parsed(chart_svg(shown)).find(f"{SVG}path").get("d")
    assert re.fullmatch(r"M[\d.]+ [\d.]+H[\d.]+V[\d.]+M[\d.]+ [\d.]+", path)


def test_lines_without_a_point_are_named_in_the_legend():
    lines = [
        {"name": name, "mode": "markers", "x": [], "y": [], "marker": {"symbol": [], "size": 8}}
        for name in ("public", "held-out")
    ]
    drawn = chart_svg(figure(lines, x=title("speedup"), y=title("agent")))
    assert "public" in drawn and "held-out" in drawn


def test_line_at_1x_is_inside_a_drawing_whose_points_are_all_faster():
    points = [("one", 1.2, 1.1, 1.3), ("another", 2.0, 1.9, 2.1)]
    trace = speedups("speedup", points, "x", {"color": SERIES[0]}, "%{y}")
    drawn = parsed(chart_svg(figure([trace], x=title("speedup"), y={"type": "category"}, one="x")))
    lines = drawn.findall(f"{SVG}line")
    (dotted,) = (line for line in lines if line.get("stroke-dasharray") == "2 4")
    left = min(float(line.get("x1")) for line in lines if line.get("y1") == line.get("y2"))
    assert float(dotted.get("x1")) > left


def test_drawing_alone_has_its_size_and_colours_of_the_light_theme():
    alone = standalone(chart_svg(figure([], x={}, y={})))
    assert 'width="720" height="320"' in alone and "var(--" not in alone
    assert alone.count("#fefefc") >= 1, "the ground of a panel"


@pytest.fixture
def judged(world):
    world.passed(TASK, "scripted", 1.3, rounds=1)
    world.passed(TASK, "tuner", 2.1, rounds=2)
    world.passed("softmax/cpp-to-cpp", "tuner", 1.6, rounds=1)
    return world


PAGES = {
    "/leaderboard/?task_set=all": ("forest", "curve"),
    "/leaderboard/parts/matrix/?task_set=all": ("matrix",),
    "/leaderboard/parts/generalization/?task_set=all": ("generalization",),
    f"/tasks/{TASK}/": (f"roofline-{DEVICE['slug']}", "records"),
    "/analysis/": ("fast-p",),
}


@pytest.mark.django_db
@pytest.mark.parametrize("page", PAGES)
def test_every_chart_of_a_page_is_there_as_svg_png_and_csv(client, judged, page):
    content = client.get(page).content.decode()
    links = [
        link.replace("&amp;", "&") for link in re.findall(r'href="([^"]+chart=[^"]+)"', content)
    ]
    forms = ("svg", "png", "csv")
    names = [re.search(r"chart=([^&]+)", link)[1] for link in links]
    assert set(names) >= {f"{name}.{form}" for name in PAGES[page] for form in forms}
    for name, link in zip(names, links, strict=True):
        response = client.get(link)
        assert response.status_code == 200, link
        if name.endswith("svg"):
            assert response.headers["Content-Type"] == "image/svg+xml"
            assert "style-src 'unsafe-inline'" in response.headers["Content-Security-Policy"]
            assert parsed(response.content).tag == f"{SVG}svg"
            assert b"var(--series" not in response.content
        elif name.endswith("png"):
            assert size_of(response.content)[0] == 1440
        else:
            rows = list(csv.DictReader(response.content.decode().splitlines()))
            assert len(rows) >= 2 and len(rows[0]) >= 4, link


@pytest.mark.django_db
def test_chart_of_a_board_has_the_rows_of_its_address(client, judged):
    rows = client.get("/leaderboard/?task_set=all&agent=tuner&chart=forest.csv").content.decode()
    assert "Tuner" in rows and "Scripted" not in rows
    drawn = client.get("/leaderboard/?task_set=all&sort=agent&chart=forest.svg").content
    named = [text for text in texts(parsed(drawn)) if "Tuner" in text or "Scripted" in text]
    assert [name.split()[-1] for name in named] == ["Tuner", "Scripted"], "from below"
    curve = client.get("/leaderboard/?task_set=all&p=1.5&chart=curve.csv").content.decode()
    steps = list(csv.DictReader(curve.splitlines()))
    assert {step["agent"] for step in steps} == {"tuner", "scripted"}


@pytest.mark.django_db
@pytest.mark.parametrize("chart", ["none.svg", "forest.pdf", "forest", "forest.svg.png", "\0.svg"])
def test_unknown_chart_of_a_page_is_not_found(client, judged, chart):
    assert client.get("/leaderboard/", {"chart": chart}).status_code in (400, 404)


@pytest.mark.django_db
def test_visitors_of_one_address_have_a_limit_on_pictures_and_users_have_none(
    client, judged, alice, one_period
):
    chart, from_one = {"task_set": "all", "chart": "forest.svg"}, {"REMOTE_ADDR": "192.0.2.7"}
    for _ in range(MAX_PICTURES):
        count_attempt("picture", "192.0.2.7", MAX_PICTURES)
    refused = client.get("/leaderboard/", chart, **from_one)
    assert refused.status_code == 429 and 0 < int(refused.headers["Retry-After"]) <= 300
    assert "Too many pictures. Try again in" in refused.content.decode()
    table = chart | {"chart": "forest.csv"}
    assert client.get("/leaderboard/", table, **from_one).status_code == 200
    assert client.get("/leaderboard/", {"task_set": "all"}, **from_one).status_code == 200
    assert client.get("/leaderboard/", chart).status_code == 200, "of another address"
    client.force_login(alice)
    assert client.get("/leaderboard/", chart, **from_one).status_code == 200


@pytest.mark.django_db
def test_charts_stand_on_the_page_without_a_script(client, judged):
    page = client.get("/leaderboard/parts/generalization/?task_set=all").content.decode()
    plot = page[page.index('<div class="plot"') :]
    drawn = plot[plot.index("<svg") : plot.index("</svg>") + len("</svg>")]
    assert "Tuner" in texts(parsed(drawn)) and 'class="drawing"' in drawn
