"""Fixtures for tests on a GPU: one fork server, one cache, few and short windows.

Without a GPU the tests that need one are deselected. With four, `PYTEST_ADDOPTS="-n 4"` gives each
worker a GPU and cores of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from evaluation import device_kind
from evaluation.bench.devices.vendors import cpu
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.task_host import processes_of
from evaluation.bench.timing import plan as plans
from evaluation.code.building import nvcc
from evaluation.code.languages import languages, triton
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.sandbox.features import isolation_features
from evaluation.tasks import task_code
from tests import kept_builds
from tests.gpu.results import Results
from tests.gpu.submissions import Submission, build_all

WORKER, WORKERS = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", type=Path, help="file for the outcome of each test")


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
    return f"isolation features of this machine: {isolation_features()}"


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
    """Cache folder in which every chosen submission is built, in parallel.

    Workers share it, and start to build at different submissions.
    """
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if WORKERS > 1 else folder) / "cache"
    folder.mkdir(exist_ok=True)
    if device_kind.gpu_vendor() != "nvidia":
        with contextlib.suppress(FileExistsError):  # another worker was first
            kept_builds.link(folder)
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
    """Compilers of sources, for one architecture where there is no GPU."""
    if device_kind.gpu_vendor() != "nvidia":
        monkeypatch.setenv("ARENA_CUDA_ARCH", "sm_100a")
        monkeypatch.setattr(nvcc, "CROSS_ARCHITECTURES", ())
        monkeypatch.setattr(triton, "TRIED", {})
    if not nvcc.compiler():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("nvcc is not installed")


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Fork server of all tests, which imports torch and the compilers once, and runs task code."""
    with ForkServer() as shared, task_code.hosted(processes_of(lambda: shared)):
        for language in languages():
            shared.prepare(language)
        yield shared


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer) -> None:
    monkeypatch.setattr(kernel_judge, "ForkServer", lambda: nullcontext(fork_server))
    hurry(monkeypatch)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few windows; no CPU device."""
    monkeypatch.setattr(cpu, "devices", lambda cache, again=False: ())
    plan = dataclasses.replace(plans.GPU_QUICK_PLAN, min_blocks=3, max_blocks=3)
    monkeypatch.setattr(plans, "GPU_FINAL_PLAN", plan)
    monkeypatch.setattr(plans, "GPU_QUICK_PLAN", plan)


@pytest.fixture
def without_static_analysis(in_a_hurry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No static analysis, so that every trick runs."""
    monkeypatch.setenv("ARENA_TEST_SECRET", "not for candidates")
    for language in languages().values():
        monkeypatch.setattr(type(language), "check", lambda self, files, task: None)
