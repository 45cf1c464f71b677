"""Tests of published verdicts on several modules of an architecture, and of the counts of tabs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arena.catalog.models import Hardware
from arena.published.models import PublishedVerdict
from tests.arena.production import performance, production_run, production_task
from tests.arena.published import composition_line, load_verdicts, verdict_line

pytestmark = pytest.mark.django_db
LLAMA, NORM, MLP = "/production/llama/", "llama_rms_norm", "llama_mlp"
NOTE = "Published, measured:"


def text_of(client: Any, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return " ".join(answer.content.decode().split())


@pytest.fixture
def modules() -> None:
    for name in (NORM, MLP):
        production_task(name)


@pytest.fixture
def single() -> dict[str, Any]:
    return verdict_line(f"{NORM}/production", 1.2)


@pytest.mark.usefixtures("modules")
def test_published_composition_is_beside_the_modules_with_its_figures(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    load_verdicts(tmp_path, [single, composition_line(1.4, NORM, MLP, noisy=True)])
    found = PublishedVerdict.objects.get(together=True)
    page = text_of(client, LLAMA)
    note = page.partition(NOTE)[2].partition("</p>")[0]
    for part in (
        f'href="{found.get_absolute_url()}">2 modules together</a>', "1.40×", "noisy", "judge 6",
        "1.38 to 1.42", "ceiling 1.31×", "RMS norm 3.00×, MLP 3.00×.", "NVIDIA H200",
        "2 in place of 8",
    ):  # fmt: skip
        assert part in note, part
    table = page.partition('aria-label="Table: published verdicts"')[2]
    assert table.index("2 modules together") < table.index("1.20×"), "the fastest comes first"


@pytest.mark.usefixtures("modules")
def test_page_of_a_published_composition_has_its_modules_and_verdicts_on_each(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    load_verdicts(tmp_path, [single, composition_line(1.4, NORM, MLP)])
    found = PublishedVerdict.objects.get(together=True)
    page = text_of(client, found.get_absolute_url())
    for part in (
        "Llama 3.1: 2 modules together", f'href="{LLAMA}">llama</a>',
        '<dt>RMS norm</dt><dd class="mono">3.00×</dd>', "95% CI 1.38 to 1.42",
        "The modules alone are 2.00× as fast", "Phases and regimes", "1.31×", "It is no run",
    ):  # fmt: skip
        assert part in page, part
    assert "There is no prediction" not in page, "a ceiling was measured"
    alone = PublishedVerdict.objects.get(together=False).get_absolute_url()
    assert f'href="{alone}"' in page.partition("modules of this architecture</h2>")[2]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("speedup", "best"), [(1.4, "several modules together"), (1.1, "RMS norm")]
)
def test_faster_of_a_composition_and_a_module_is_the_best_of_its_architecture(
    client: Any, tmp_path: Path, single: dict[str, Any], speedup: float, best: str
) -> None:
    load_verdicts(tmp_path, [single, composition_line(speedup, NORM, MLP)])
    page = text_of(client, "/production/")
    row = page.partition(f'href="{LLAMA}">')[2].partition("</tr>")[0]
    assert f"<span>{best}</span>" in row
    assert f">{max(speedup, 1.2):.2f}×</a>" in row and '#published">2</a>' in row
    assert "published verdicts on 1 module." in page


@pytest.mark.usefixtures("modules")
def test_failed_published_composition_shows_its_reason_and_is_never_the_best(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    failed = composition_line(1.4, verdict="failed", reason="WRONG_VALUES", message="Too far off.")
    failed |= {"speedup": None, "low": None, "high": None, "detail": {"drop": "clash"}}
    load_verdicts(tmp_path, [single, failed])
    page = text_of(client, LLAMA)
    note = page.partition("<strong>Published:</strong>")[2].partition("</p>")[0]
    assert "Several modules together" in note and "wrong values" in note and NOTE not in page
    assert "several modules together" not in text_of(client, "/production/")
    found = PublishedVerdict.objects.get(together=True)
    assert "Too far off." in text_of(client, found.get_absolute_url())


@pytest.mark.usefixtures("modules")
def test_architecture_without_a_composition_has_no_note_of_one(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    load_verdicts(tmp_path, [single])
    page = text_of(client, LLAMA)
    assert "1.20×" in page and NOTE not in page and "modules together" not in page


def test_composition_of_an_architecture_without_tasks_is_on_no_list(
    client: Any, tmp_path: Path
) -> None:
    load_verdicts(tmp_path, [composition_line(1.4, NORM, MLP)])
    assert "1.40×" not in text_of(client, "/production/") + text_of(client, LLAMA)
    found = PublishedVerdict.objects.get()
    assert "2 modules together" in text_of(client, found.get_absolute_url())


@pytest.mark.usefixtures("modules")
def test_file_with_a_composition_replaces_an_earlier_one_without_it(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    load_verdicts(tmp_path, [single])
    address = PublishedVerdict.objects.get().get_absolute_url()
    assert load_verdicts(tmp_path, [single, composition_line(1.4, NORM, MLP)]).rows == 2
    assert f'href="{address}"' in text_of(client, LLAMA), "the link stays"


@pytest.mark.usefixtures("modules")
def test_tabs_of_devices_count_submissions_and_published_verdicts(
    client: Any, tmp_path: Path, single: dict[str, Any]
) -> None:
    Hardware.objects.create(slug="h200", name="NVIDIA H200", kind="gpu", queue="hw.h200")
    production_run("tuner", NORM, performance(4.0, 1.2))
    other = verdict_line("unknown_module/production", 1.2)
    load_verdicts(tmp_path, [single, composition_line(1.4, NORM, MLP), other])
    for address in ("/production/", LLAMA):
        tabs = text_of(client, address).partition('aria-label="Devices"')[2].partition("</nav>")[0]
        counts = [each.partition("<")[0] for each in tabs.split('on this device">')[1:]]
        assert counts == ["2", "1"], "the H200 has two that the page shows, the CPU a run"
        assert tabs.index("NVIDIA H200") < tabs.index('aria-current="true"'), (
            "a run decides the first device"
        )
