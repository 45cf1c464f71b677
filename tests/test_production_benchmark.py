"""The benchmark of production tasks: its submissions, and the committed results in the document."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import production
from benchmarks.shared import variation
from benchmarks.verdict_lines import flat
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.module.architectures import FAMILIES, architectures
from evaluation.sandboxed.model.live_model import PREPARE
from evaluation.types import GateName, GateResult, Reason, Verdict

ROOT = Path(__file__).resolve().parent.parent
RESULTS = json.loads((ROOT / "benchmarks/results/production-gpu.json").read_text())
DOCUMENT = (ROOT / "benchmarks/results/production.md").read_text()


CANDIDATES = {
    "triton": "in Triton",
    "compile": "`torch.compile`",
    "composition": "several modules",
}
NOT_CAPTURED = {"decode": ("lfm2_", "gemma3_", "xlstm"), "forward": ("diffusion_gemma_",)}
"""Beginnings of the tasks whose phase is not captured: no replay can repeat it, or it copies a
tensor of the host."""


@pytest.mark.parametrize("slug", RESULTS["verdicts"])
def test_document_has_the_committed_figures(slug: str) -> None:
    verdict = RESULTS["verdicts"][slug]
    task, _, candidate = slug.partition("/")
    row = f"| `{task}` | {CANDIDATES[candidate]} | "
    if verdict["verdict"] == "passed":
        deployed = verdict["deployed"]
        row += (
            f"{verdict['isolated']:.2f}x "
            f"| {deployed['speedup']:.2f}x [{deployed['low']:.2f}, {deployed['high']:.2f}] "
            f"| {verdict['seconds']['total']:.0f} |"
        )
    else:
        row += f"`{verdict['reason']}` |"
    assert row in DOCUMENT


def test_both_sides_of_committed_verdicts_were_captured_but_for_named_phases() -> None:
    for slug, verdict in RESULTS["verdicts"].items():
        for phase, best in verdict["best"].items():
            assert {best["candidate"], best["baseline"]} <= {"graph", "compile"}
            captured = verdict["engaged"][phase]["graph"]["captured"].values()
            assert set(captured) == {not slug.startswith(NOT_CAPTURED.get(phase, ()))}


def test_committed_results_have_three_passed_modules_of_fifteen_chosen_architectures() -> None:
    passed = {slug.partition("/")[0] for slug, v in RESULTS["verdicts"].items()
              if v["verdict"] == "passed"}  # fmt: skip
    judged = [each for each in production.CHOSEN.values() if passed >= each.kernels.keys()]
    assert sum(len(each.kernels) == 3 for each in judged) >= 15


def test_committed_deployed_speedups_vary_by_less_than_one_percent() -> None:
    assert len(RESULTS["repeats"]) >= 2
    for verdicts in RESULTS["repeats"].values():
        speedups = [each["deployed"]["speedup"] for each in verdicts]
        assert len(speedups) >= 10 and variation(speedups) < 0.01


def test_merged_results_have_the_later_verdict_and_the_source_of_each() -> None:
    def part(at: str, source: str, **verdicts: str) -> dict[str, Any]:
        found = {slug: {"at": when} for slug, when in verdicts.items()}
        rounds = {"repeated": [{"at": at}]}
        more = {"device": {"name": "H200"}, "torch": "2", "judge": {"source": source}}
        return {"at": at, source: 1, "verdicts": found, "repeats": rounds, "compiled": {}, **more}

    found = production.merged([part("2", "new", a="2", b="2"), part("1", "old", a="1", c="1")])
    sources = {slug: each["source"] for slug, each in found["verdicts"].items()}
    assert sources == {"a": "new", "b": "new", "c": "old"}
    assert [each["source"] for each in found["repeats"]["repeated"]] == ["old", "new"]
    assert found["at"] == "2" and found["old"] == found["new"] == 1


def test_submissions_come_in_the_order_of_the_patterns_and_once() -> None:
    every = production.submissions(CPU)
    found = [each.slug for each in production.matching(every, ["llama_mlp/*", "dit_*", "llama_*"])]
    names = [slug.partition("/")[0].partition("_")[0] for slug in found]
    assert found[0].startswith("llama_mlp/") and len(found) == len(set(found))
    assert list(dict.fromkeys(names)) == ["llama", "dit"] and names[-1] == "llama"


@pytest.mark.parametrize("name", production.CHOSEN)
def test_depth_of_a_model_is_cut_and_its_width_is_not(name: str) -> None:
    architecture = architectures()[name]
    cut = production.shallow(architecture, GPU)
    before, after = (dict(flat(each.sizes[GPU].settings)) for each in (architecture, cut))
    depth = dict(flat(production.CHOSEN[name].depth))
    assert {key for key in after if before.get(key) != after[key]} == depth.keys()
    for key in depth.keys() & before.keys():
        assert sum_of(after[key]) < sum_of(before[key])
    assert cut.hash != architecture.hash  # compiled code of another depth is not reused
    assert production.shallow(architecture, CPU) is architecture


def sum_of(depth: Any) -> int:
    """Return the layers that a setting stands for: a number, numbers of stages, or names."""
    if isinstance(depth, int):
        return depth
    return sum(1 if isinstance(each, str) else each for each in depth)


def test_chosen_architectures_are_of_all_families_and_their_modules_have_submissions() -> None:
    slugs = {each.slug: each for each in production.submissions(GPU)}
    three = [name for name, each in production.CHOSEN.items() if len(each.kernels) == 3]
    assert len(three) >= len(production.CHOSEN) - 1
    assert {architectures()[name].family for name in production.CHOSEN} == set(FAMILIES)
    for name, chosen in production.CHOSEN.items():
        assert any(chosen.kernels.values())
        for task, kernel in chosen.kernels.items():
            assert slugs[f"{task}/{'triton' if kernel else 'compile'}"].architecture.name == name
    assert slugs.keys() >= set(production.REPEATED)
    assert not any("triton" in each.slug for each in production.submissions(CPU))


def test_composition_leaves_out_modules_inside_others_and_needs_two() -> None:
    slugs = {each.slug: each for each in production.submissions(GPU)}
    names = {slug: [part.task.name for part in each.parts] for slug, each in slugs.items()}
    assert names["dit/composition"] == ["dit_layer_norm", "dit_gelu"], "one norm has another inside"
    assert names["rwkv/composition"] == list(production.CHOSEN["rwkv"].kernels)
    assert "point_attention/composition" not in names
    first = slugs["rwkv_self_attention/triton"].parts[0]
    assert first in slugs["rwkv/composition"].parts


def test_one_submission_of_each_module_comes_first_and_then_the_repeated_ones() -> None:
    chosen = production.submissions(GPU)
    found = [(each.slug, number) for each, number in production.order(chosen, 2)]
    modules = len({each.slug.partition("/")[0] for each in chosen})
    first, again = found[:modules], found[modules:][: 2 * len(production.REPEATED)]
    assert len({slug.partition("/")[0] for slug, _ in first}) == modules
    assert again == [(slug, number) for number in (1, 2) for slug in production.REPEATED]
    assert sorted(slug for slug, number in found if not number) == sorted(e.slug for e in chosen)


def test_models_are_compiled_side_by_side_on_cores_of_their_own(tmp_path: Path) -> None:
    """The child is a program that prints its cores, or fails."""
    child = tmp_path / "child.py"
    child.write_text(
        "import json, os, sys, time\n"
        "time.sleep(0.3)\n"
        "name = sys.argv[sys.argv.index('--compile-only') + 1]\n"
        "if name == 'dit': sys.exit('no such model')\n"
        "print(json.dumps({'cores': sorted(os.sched_getaffinity(0))}))\n"
        "print('a warning')\n"
    )
    chosen = [architectures()[name] for name in ("dit", "llama", "clip_text")]
    found = production.compile_libraries([*chosen, *chosen], tmp_path, str(child), each_cores=1)
    assert "no such model" in found.pop("dit")["error"]
    cores = sorted(os.sched_getaffinity(0))
    assert found.keys() == {"llama", "clip_text"}
    assert all(len(each["cores"]) == 1 and each["cores"][0] in cores for each in found.values())
    if len(cores) >= 3:
        assert found["llama"]["cores"] != found["clip_text"]["cores"]


def test_model_that_compiles_for_too_long_is_killed_and_its_output_kept(tmp_path: Path) -> None:
    child = tmp_path / "child.py"
    child.write_text("import time\nprint('decode: first launch', flush=True)\ntime.sleep(600)\n")
    llama = [architectures()["llama"]]
    for limit in (2, 16, 128):  # the first in which Python starts
        found = production.compile_libraries(llama, tmp_path, str(child), max_seconds=limit)
        if "decode" in found["llama"]["error"]:
            break
    assert found["llama"]["error"] == f"killed after {limit} s; decode: first launch\n"


def test_error_of_a_judge_is_kept_and_printed_in_full() -> None:
    trace = "Traceback\n" + "line\n" * 1000
    gate = GateResult(
        GateName.PERFORMANCE, Verdict.BROKEN, Reason.JUDGE_ERROR, "the judge failed",
        private={"error": "Broken: why", "trace": trace},
    )  # fmt: skip
    report: Any = SimpleNamespace(
        gates=(gate,), verdict=gate.verdict, reason=gate.reason, message=gate.message, seconds={},
    )  # fmt: skip
    result = {**production.figures(report), "wall": 1.0}
    assert json.loads(json.dumps(result))["error"]["trace"] == trace
    assert trace in production.summary(result)


COMPILED = [each for each in production.submissions(CPU) if each.slug.endswith("/compile")]


@pytest.mark.parametrize("slug", [each.slug for each in COMPILED])
def test_compiled_submission_imports_torch_and_compiles_the_forward_of_the_class(slug: str) -> None:
    (part,) = next(each.parts for each in COMPILED if each.slug == slug)
    (source,) = part.files.values()
    tree = ast.parse(source)
    imports = [node for node in tree.body if isinstance(node, ast.Import)]
    assert [alias.name for node in imports for alias in node.names].count("torch") == 1
    (new,) = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelNew"]
    methods = {n.name: n for n in new.body if isinstance(n, ast.FunctionDef)}
    assert {"forward", PREPARE} <= methods.keys()
    assert "self.forward = torch.compile(self.forward" in ast.unparse(methods[PREPARE])
