"""Submissions for several modules in one model: requests, verdicts, and causes of a failure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation.__main__ import main
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import RequestError
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import ModuleTask, architectures
from evaluation.kinds.module.composition import causes, check_disjoint, parts_of
from evaluation.kinds.module.drops import Drop
from evaluation.sandboxed.model.phases import Extent, Regime
from evaluation.types import GateName, Reason, Report, Verdict

CANDIDATES = Path(__file__).parent / "candidates"
LLAMA = architectures()["llama"]
NORM, MLP, ATTENTION = LLAMA.tasks[:3]
OTHER = "is a module of dit, not of llama; there are: llama_rms_norm,"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["llama_rms_norm"], "takes two modules or more"),
        (["llama_rms_norm", "llama_rms_norm"], "named twice"),
        (["llama_rms_norm", "llama_none"], "no such production task"),
        (["llama_rms_norm", "dit_gelu"], OTHER),
    ],
)
def test_modules_that_make_no_composition_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parts_of(LLAMA, [(name, "") for name in names])


def test_each_part_has_its_own_file() -> None:
    parts = parts_of(LLAMA, [("llama_mlp", "one"), ("llama_rms_norm", "two")])
    assert [part.files for part in parts] == [{"llama_mlp.py": "one"}, {"llama_rms_norm.py": "two"}]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["llama_mlp"], "name a module and its file"),
        (["llama_mlp=none.py"], "none.py: No such file"),
        ([f"llama_mlp={__file__}", f"dit_gelu={__file__}"], OTHER),
    ],
)
def test_terminal_refuses_what_is_no_composition(
    files: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["production", "compose", "llama", *files]) == 2
    assert message in capsys.readouterr().err


def test_modules_that_contain_one_another_are_refused() -> None:
    places = {"norm": ["layers.0.norm"], "mlp": ["layers.0.mlp"], "norms": ["layers.0.norms"]}
    check_disjoint(places)
    for outer in ("layers.0", "layers.0.norm"):
        with pytest.raises(RequestError, match="norm and layer contain one another"):
            check_disjoint({**places, "layer": [outer]})


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ([{NORM}], ([NORM.name], None)),
        ([{NORM, MLP}], ([NORM.name, MLP.name], Drop.CLASH)),
        ([{NORM, MLP}, {MLP, ATTENTION}], ([MLP.name], Drop.CLASH)),
        ([{NORM, MLP, ATTENTION}], ([NORM.name, MLP.name, ATTENTION.name], Drop.CLASH)),
    ],
)
def test_parts_without_which_the_rest_works_cause_a_failure(
    broken: list[set[ModuleTask]], expected: tuple[list[str], Drop | None]
) -> None:
    def fails(some: Sequence[ModuleTask]) -> bool:
        return any(together <= set(some) for together in broken)

    assert causes([NORM, MLP, ATTENTION], fails) == expected


def test_two_that_work_alone_clash_without_another_try() -> None:
    tried: list[int] = []

    def fails(some: Sequence[ModuleTask]) -> bool:
        tried.append(len(some))
        return len(some) > 1

    assert causes([NORM, MLP], fails) == ([NORM.name, MLP.name], Drop.CLASH)
    assert tried == [1, 1]


def judged(cache: Path, model_server: ForkServer, *candidates: str) -> Report:
    sources = [(CANDIDATES / f"{name}.py").read_text() for name in candidates]
    parts = parts_of(LLAMA, zip(("llama_rms_norm", "llama_mlp"), sources, strict=True))
    measured = Extent((Regime.EAGER,))
    report = production.judge(LLAMA, parts, CPU, cache, measured, fork_server=model_server)
    assert report.verdict is not Verdict.BROKEN, report.gates[-1].private
    return report


@pytest.mark.slow
@pytest.mark.serial  # beside other work, two short blocks can look faster than a free module
def test_model_with_two_kernels_is_checked_and_timed(
    cache: Path, model_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evaluation.kinds.module import module_times, windows

    few = {"min_blocks": 2, "max_blocks": 2}
    monkeypatch.setitem(windows.PLANS, CPU, dataclasses.replace(windows.PLANS[CPU], **few))
    short = dataclasses.replace(module_times.MODULE_PLANS[CPU], **few)
    monkeypatch.setitem(module_times.MODULE_PLANS, CPU, short)
    report = judged(cache, model_server, "fused_norm", "silu_mlp")
    assert report.verdict is Verdict.PASSED, report.message
    assert (report.task, report.task_hash) == ("llama/composition", LLAMA.hash)
    _, loaded, correct, timed = report.gates
    assert loaded.detail == {"modules": 7, "reported_modules": 7}
    assert set(correct.detail["phases"]) == {"prefill", "decode"}
    assert set(timed.detail["modules"]) == {"llama_rms_norm", "llama_mlp"}
    assert timed.detail["isolated"] and timed.detail["predicted"] is None
    assert set(timed.detail["best"]) == {"prefill", "decode"}
    assert report.seen is not None and report.seen == report.unseen


@pytest.mark.slow
@pytest.mark.serial
def test_kernels_that_clash_are_named(cache: Path, model_server: ForkServer) -> None:
    """Operators of PyTorch have one name for each process.

    Each file calls its operator by name, and finds the other's. A call of one that another has
    replaced would be undefined: it ends with one error or another.
    """
    report = judged(cache, model_server, "operator_norm", "operator_mlp")
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.CALL_ERROR)
    failed = report.gates[-1]
    assert failed.gate is GateName.CORRECTNESS
    assert failed.detail == {"drop": "clash", "caused_by": ["llama_rms_norm", "llama_mlp"]}
    assert "none fails by itself; caused by: llama_rms_norm, llama_mlp" in report.message


def test_part_that_breaks_the_rules_is_named(cache: Path, model_server: ForkServer) -> None:
    report = judged(cache, model_server, "dropped_expert", "silu_mlp")
    assert report.verdict is Verdict.REJECTED
    assert report.gates[-1].detail == {"drop": "", "caused_by": ["llama_rms_norm"]}
    assert "caused by: llama_rms_norm" in report.message
