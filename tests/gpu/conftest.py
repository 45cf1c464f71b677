"""Judging on a GPU in a hurry: one zygote for all, one cache, few and short windows. Where there is
no GPU, what needs one is left out. Where there are four, `PYTEST_ADDOPTS="-n 4"` has workers
share the tests, each with a GPU and cores of its own.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from evaluation import device_kind, pipeline
from evaluation.building import nvcc
from evaluation.devices.vendors import cpu
from evaluation.languages import languages, triton
from evaluation.process.fork_server import ForkServer
from evaluation.sandbox.features import isolation_features
from evaluation.timing import estimates
from tests.gpu.results import Results
from tests.gpu.submissions import Submission, build_all

WORKER, WORKERS = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, help="a file for what each test came to")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--results", None)
    if path and device_kind.gpu_vendor() != "nvidia":
        raise pytest.UsageError("--results is for a machine with an NVIDIA GPU; leave it out here")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(path.absolute()))
    if WORKERS > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(WORKER)
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // WORKERS
        if share > 1:
            os.sched_setaffinity(0, cores[WORKER * share : (WORKER + 1) * share])


def pytest_report_header() -> str:
    return f"the walls of this machine: {isolation_features()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    absent = [
        item
        for item in items
        if here in item.path.parents
        and item.get_closest_marker("gpu")
        and device_kind.gpu_vendor() != "nvidia"
    ]
    if absent:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]


@pytest.fixture(scope="session")
def cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where everything that is to be judged has been built, side by side. Workers share it, and
    begin to build at different places.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if WORKERS > 1 else folder) / "cache"
    folder.mkdir(exist_ok=True)
    chosen = {
        value.path: value
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.get_closest_marker("gpu")
        for value in (getattr(item, "callspec", None) and item.callspec.params.values()) or ()
        if isinstance(value, Submission)
    }
    begin = WORKER * len(chosen) // WORKERS
    ordered = [*chosen.values()]
    build_all([*ordered[begin:], *ordered[:begin]], folder)
    return folder


@pytest.fixture
def compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What sources are compiled by. Where no GPU says for which, one architecture will do."""
    if device_kind.gpu_vendor() != "nvidia":
        monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_100a")
        monkeypatch.setattr(nvcc, "CROSS_ARCHITECTURES", ())
        monkeypatch.setattr(triton, "TRIED", {})
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Contestants are forked from it afresh, and importing torch and compilers is paid for once."""
    with ForkServer() as shared:
        for language in languages():
            shared.prepare(language)
        yield shared


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer) -> None:
    """Few windows, where it matters that launches are timed, not how narrowly, but about as many
    glances as a final verdict has; the processor, on which nothing is judged here, is not measured.
    """
    monkeypatch.setattr(pipeline, "ForkServer", lambda: nullcontext(fork_server))
    monkeypatch.setattr(cpu, "devices", lambda cache, again=False: ())
    plan = dataclasses.replace(
        estimates.GPU_QUICK_PLAN,
        least_blocks=3,
        most_blocks=3,
        looked_at_between=0.9,
        looked_at_after=6,
    )
    monkeypatch.setattr(estimates, "GPU_FINAL_PLAN", plan)
    monkeypatch.setattr(estimates, "GPU_QUICK_PLAN", plan)


@pytest.fixture
def walls_alone(in_a_hurry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No static reading rejects anything, so that whatever a trick tries it gets to try."""
    monkeypatch.setenv("ARENA_TEST_SECRET", "not for contestants")
    for language in languages().values():
        monkeypatch.setattr(type(language), "check", lambda self, files, task: None)
