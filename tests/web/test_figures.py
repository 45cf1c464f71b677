"""Tests of the formats of numbers and of the contrast of colours."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena.catalog.templatetags import figures
from arena.catalog.templatetags.figures import Scale, interval

STYLES = Path(__file__).resolve().parents[2] / "static" / "css"
CSS = "".join(path.read_text() for path in sorted(STYLES.glob("*.css")))
TOKEN = r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)"
WASHED = ("blue", "green", "red", "amber", "pink")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", "–"),
        (0.9434, "0.94×"),
        (1.254, "1.25×"),
        (0.9999, "1.00×"),
        (0.0123, "0.012×"),
        (13.37, "13.37×"),
        (134.2, "134×"),
        (1234, "1,234×"),
    ],
)
def test_times_has_two_decimals_below_100(value, text):
    assert figures.times(value) == text


def test_age_is_a_time_element_with_the_exact_time():
    at = datetime.now(UTC) - timedelta(hours=3, minutes=5)
    text = figures.ago(at)
    assert text == f'<time datetime="{at.isoformat()}">3\xa0hours ago</time>'


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (1.31, "1.31×"), (1.0, "1.00×"), (0.97, "about 1× (noise)")],
)
def test_ceiling_below_1_is_noise(value, text):
    assert figures.ceiling(value) == text


@pytest.mark.parametrize(
    ("name", "what", "unit"),
    [
        ("memory_gbps", "Memory", "GB/s"),
        ("l2_gbps", "L2 cache", "GB/s"),
        ("bfloat16_tflops", "bfloat16 arithmetic", "TFLOP/s"),
        ("int8_tflops", "int8 arithmetic", "TOP/s"),
    ],
)
def test_peak_has_a_name_and_a_unit(name, what, unit):
    assert (figures.peak_name(name), figures.peak_unit(name)) == (what, unit)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "–"),
        (0.5, "0.500\u202fµs"),
        (999, "999\u202fµs"),
        (2170, "2.17\u202fms"),
        (3.5e6, "3.50\u202fs"),
    ],
)
def test_micros_uses_the_unit_that_fits(micros, text):
    assert figures.micros(micros) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "–"),
        (0, "0\u202fMiB"),
        (2 << 20, "2.00\u202fMiB"),
        (256 << 20, "256\u202fMiB"),
        (3 << 29, "1.50\u202fGiB"),
    ],
)
def test_memory_uses_the_unit_that_fits(size, text):
    assert figures.memory(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.004, "< 0.1 s"),
        (8.24, "8.2 s"),
        (59, "59 s"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
        (None, "–"),
    ],
)
def test_duration_uses_hours_minutes_and_seconds(seconds, text):
    assert figures.duration(seconds) == text


def test_scale_includes_one_and_every_value():
    scale = Scale.over([SimpleNamespace(low=None, high=2.0), SimpleNamespace(low=2.0, high=8.0)])
    assert scale.low < 1 < scale.high == 8.0
    assert scale.x(1.0) < scale.x(2.0) < scale.x(4.0) < scale.x(8.0) <= figures.WIDTH
    assert scale.x(4.0) - scale.x(2.0) == pytest.approx(scale.x(8.0) - scale.x(4.0), abs=0.2)


def test_whisker_has_its_interval_as_label_and_tooltip():
    drawn = figures.whisker(2.0, 1.9, 2.1, Scale())
    assert 'aria-label="95% CI 1.90 to 2.10"' in drawn
    assert "<title>95% CI 1.9000 to 2.1000</title>" in drawn
    assert figures.whisker(None, None, None, Scale()) == ""


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.8, 1.25, [0.8, 1.0, 1.25]), (0.02, 90.0, [0.02, 0.2, 1.0, 5.0, 50.0]), (0.8, 2.2, None)],
)
def test_ticks_of_a_forest_plot_hold_1x_and_have_room(low, high, ticks):
    scale = Scale(low, high)
    found = sorted(scale.ticks)
    assert 1.0 in found and (ticks is None or found == ticks)
    places = [scale.x(value, figures.FOREST) for value in found]
    gaps = [right - left for left, right in pairwise(places)]
    assert min(gaps) >= figures.TICK_ROOM


def test_forest_plot_draws_rows_over_the_ticks_of_their_axis():
    scale = Scale(0.8, 2.2)
    drawn, axis = figures.forest(1.5, 1.4, 1.6, scale), figures.forest_axis(scale)
    lines = re.findall(r'class="(?:one|tick)" x1="([\d.]+)"', drawn)
    assert lines == re.findall(r'<text x="([\d.]+)"', axis) and len(lines) >= 3
    left, right = map(float, re.search(r'"span" x1="([\d.]+)" x2="([\d.]+)"', drawn).groups())
    square = float(re.search(r'<rect x="([\d.]+)"', drawn)[1]) + 3.5
    assert left < square < right and drawn.count('class="one"') == 1
    assert 'aria-label="95% CI 1.40 to 1.60"' in drawn and "slow" not in drawn
    assert 'class="forest slow"' in figures.forest(0.8, 0.7, 0.9, Scale(0.5, 2.0))
    assert figures.forest(None, None, None, scale) == ""


def test_verdict_has_an_icon_and_a_word():
    pill = figures.verdict("failed")
    assert "#i-failed" in pill and "</svg>failed</span>" in pill
    assert "<script>" not in figures.verdict("passed", "<script>")


def luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_enough_contrast_on_every_background(theme):
    pairs = re.findall(TOKEN, CSS)
    token = {name: light if theme == "light" else dark for name, light, dark in pairs}
    texts = [(ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in ("paper", "panel")]
    texts += [(name, "panel") for name in WASHED] + [(name, f"{name}-wash") for name in WASHED]
    texts += [("ink-2", "sunk"), ("blue", "paper"), ("paper", "ink-2"), ("ink", "blue-wash")]
    for ink, ground in texts:
        assert contrast(token[ink], token[ground]) >= 4.5, (ink, ground)


def mixed(colour: str, ground: str, part: float) -> str:
    """Return the `color-mix` of two colours in sRGB."""
    parts = [(int(colour[n : n + 2], 16), int(ground[n : n + 2], 16)) for n in (1, 3, 5)]
    return "#" + "".join(f"{round(one * part + two * (1 - part)):02x}" for one, two in parts)


@pytest.mark.parametrize(
    ("feature", "name"),
    [("private_proc", "private /proc"), ("user_namespace", "user namespace"), ("any", "any")],
)
def test_isolation_feature_has_a_name(feature, name):
    assert figures.isolation_name(feature) == name


@pytest.mark.parametrize(
    ("speedup", "step"), [(None, "none"), (0.99, "0"), (0.996, "1"), (1.25, "2")]
)
def test_heatmap_step_is_that_of_the_speedup_as_shown(speedup, step):
    assert figures.step(speedup) == step


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_heatmap_cell_has_enough_contrast_at_every_step(theme):
    token = {name: pair[theme] for name, *pair in re.findall(TOKEN, CSS)}
    steps = re.findall(r"--mix: (\d+)%", CSS)
    assert len(steps) == 5 and ".heat td[data-step] .sub { color: inherit; }" in CSS
    for step in steps:
        ground = mixed(token["series-1"], token["panel"], int(step) / 100)
        assert contrast(token["ink"], ground) >= 4.5, step


def test_line_numbers_have_full_opacity():
    [rule] = re.findall(r"^\.hl \.ln \{.*?\}", CSS, re.MULTILINE | re.DOTALL)
    assert "opacity" not in rule and "var(--ink-3)" in rule


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.04, 1.07, "1.04 to 1.07"),
        (1.0481, 1.0521, "1.048 to 1.052"),
        (0.78, 11.0, "0.78 to 11.00"),
        (1.0, 1.0, "1.000 to 1.000"),
        (0.991, 0.998, "0.991 to 0.998"),
        (1.0021, 11.0, "1.002 to 11.000"),
        (120.2, 120.4, "120 to 120"),
        (None, 1.0, ""),
    ],
)
def test_interval_has_a_third_decimal_where_two_hide_its_width_or_that_1_is_outside(
    low: float | None, high: float, text: str
) -> None:
    assert interval(low, high) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "$0.00"), (0.00213, "$0.0021"), (0.05, "$0.05"), (1234.5, "$1,234.50")],
)
def test_money_keeps_two_digits_of_small_amounts(value, text):
    assert figures.money(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (840, "840"), (12_300, "12.3k"), (4.56e6, "4.56M"), (2e9, "2.00G")],
)
def test_tokens_are_short(value, text):
    assert figures.tokens(value) == text
