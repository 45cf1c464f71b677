"""The published verdicts are those of the committed results."""

from __future__ import annotations

import json

from arena.runs.transfer.results import lines_of
from benchmarks import verdict_lines
from benchmarks.production import CHOSEN
from evaluation.kinds.module.architectures import TRACK, architectures
from evaluation.kinds.module.composition import COMPOSITION
from tests.test_published import PUBLISHED


def test_published_verdicts_are_those_of_the_committed_results() -> None:
    written = [json.loads(line) for line in lines_of(PUBLISHED / verdict_lines.OUTPUT.name)]
    assert written == json.loads(json.dumps(verdict_lines.every_line()))
    modules = [line for line in written[1:] if line["task"].endswith("/production")]
    assert len(modules) == 69 and len(written) == 123


def test_each_composition_of_the_results_is_a_line_of_its_architecture() -> None:
    production = verdict_lines.read("production-gpu.json")
    lines = {line["task"]: line for line in verdict_lines.modules(production)}
    judged = {slug.partition("/") for slug in production["verdicts"]}
    together = {task for task, line in lines.items() if line.get("together")}
    assert together == {f"{name}/{TRACK}" for name, _, by in judged if by == COMPOSITION}
    rwkv = lines[f"rwkv/{TRACK}"]
    assert rwkv["noisy"] and rwkv["speedup"] > 20 and rwkv["judge_version"] == "12"
    assert rwkv["setting"] == "fewer layers: num_hidden_layers 2 in place of 8"
    assert set(rwkv["detail"]["modules"]) == {
        "rwkv_layer_norm", "rwkv_self_attention", "rwkv_feed_forward",
    }  # fmt: skip


def test_no_architecture_has_the_name_of_a_module() -> None:
    every = architectures()
    modules = {task.name for each in every.values() for task in each.tasks}
    assert not modules & every.keys()


def test_each_model_with_fewer_layers_states_them() -> None:
    lines = verdict_lines.modules(verdict_lines.read("production-gpu.json"))
    settings = {line["task"].partition("/")[0]: line["setting"] for line in lines}
    assert settings["llama_rms_norm"] == "fewer layers: num_hidden_layers 2 in place of 8"
    for chosen in CHOSEN.values():
        shown = {settings[name] for name in chosen.kernels if name in settings}
        assert len(shown) <= 1 and all(each.startswith("fewer layers: ") for each in shown)


def test_fewer_layers_of_a_part_of_a_model_are_named_with_the_part() -> None:
    shown = verdict_lines.setting(architectures()["pi0"])
    assert "dit_config.num_hidden_layers 2 in place of 6" in shown
