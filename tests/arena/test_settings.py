from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

PRINT = """
import json
from arena import settings
database = settings.DATABASES["default"]
print(json.dumps({
    "key": settings.SECRET_KEY, "redis": settings.REDIS_URL, "debug": settings.DEBUG,
    "engine": database["ENGINE"], "name": database["NAME"], "hosts": settings.ALLOWED_HOSTS,
    "secure": [settings.SESSION_COOKIE_SECURE, settings.CSRF_COOKIE_SECURE],
    "header": getattr(settings, "SECURE_PROXY_SSL_HEADER", None),
}))
"""
OURS = (
    "ARENA_HOME", "SECRET_KEY", "REDIS_URL", "DATABASE_URL", "DEBUG", "ALLOWED_HOSTS",
    "CSRF_TRUSTED_ORIGINS", "SECURE_PROXY_SSL_HEADER", "ARENA_SHARED_COUNTERS",
)  # fmt: skip


def begin(repository: Path, code: str = PRINT, **changes: object) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    environment = {**inherited, **{name: str(value) for name, value in changes.items()}}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(
        command, cwd=repository, env=environment, stdout=subprocess.PIPE, text=True
    )


def settings_of(process: subprocess.Popen[str]) -> dict:
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(out)


def test_secret_key_concurrent_processes_agree(repository, tmp_path):
    home = tmp_path / "home"
    processes = [begin(repository, ARENA_HOME=home) for _ in range(4)]
    keys = {settings_of(process)["key"] for process in processes}
    assert keys == {(home / "secret_key").read_text()} and len(keys.pop()) > 50
    assert stat.S_IMODE((home / "secret_key").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir()] == ["secret_key"]


def test_settings_without_environment_are_safe_and_local(repository, tmp_path):
    found = settings_of(begin(repository, ARENA_HOME=tmp_path))
    assert found["debug"] is False
    assert found["hosts"] == ["localhost", "127.0.0.1", "[::1]"]
    assert found["name"] == str(tmp_path / "arena.sqlite3")


@pytest.mark.parametrize(
    ("hosts", "origins", "header", "secure"),
    [
        ("", "", "", False),
        ("", "https://a.example", "X-Forwarded-Proto", False),
        ("a.example", "", "", False),
        ("a.example", "http://a.example", "", False),
        ("a.example", "https://a.example,http://b.example", "X-Forwarded-Proto", False),
        ("a.example", "https://a.example", "", True),
        ("a.example", "", "X-Forwarded-Proto", True),
    ],
)
def test_cookies_are_secure_behind_tls(repository, tmp_path, hosts, origins, header, secure):
    named = {
        "ALLOWED_HOSTS": hosts,
        "CSRF_TRUSTED_ORIGINS": origins,
        "SECURE_PROXY_SSL_HEADER": header,
    }
    changes = {name: value for name, value in named.items() if value}
    found = settings_of(begin(repository, ARENA_HOME=tmp_path, **changes))
    assert found["secure"] == [secure, secure]
    assert found["header"] == (["HTTP_X_FORWARDED_PROTO", "https"] if header else None)


def test_redis_url_environment_precedes_launcher_file(repository, tmp_path):
    (tmp_path / "redis.url").write_text("redis://127.0.0.1:7777/0\n")
    assert settings_of(begin(repository, ARENA_HOME=tmp_path))["redis"].endswith(":7777/0")
    named = begin(repository, ARENA_HOME=tmp_path, REDIS_URL="redis://elsewhere/1")
    assert settings_of(named)["redis"] == "redis://elsewhere/1"


def test_database_url_selects_postgresql(repository, tmp_path):
    url = "postgres://me:pw@db.example/arena"
    found = settings_of(begin(repository, ARENA_HOME=tmp_path, DATABASE_URL=url))
    assert (found["engine"], found["name"]) == ("django.db.backends.postgresql", "arena")


def test_command_without_database_prints_one_line(repository: Path, tmp_path: Path):
    inherited = {name: value for name, value in os.environ.items() if name not in OURS}
    command = ("run", "--agent", "tuner", "--task", "rms_norm/cpp-to-cpp")
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=repository,
        env={**inherited, "ARENA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "no arena has run here yet; begin with `make arena`" in done.stderr


COUNT = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "arena.settings"
django.setup()
from django.core.cache import cache
cache.add("attempts of a test", 0, None)
print(cache.incr("attempts of a test"))
"""


def test_shared_counters_of_several_web_servers_count_the_attempts_of_all(
    repository, tmp_path, valkey
):
    shared = {"ARENA_HOME": tmp_path, "REDIS_URL": valkey, "ARENA_SHARED_COUNTERS": 1}
    assert [settings_of(begin(repository, COUNT, **shared)) for _ in range(2)] == [1, 2]
    alone = {**shared, "ARENA_SHARED_COUNTERS": 0}
    assert [settings_of(begin(repository, COUNT, **alone)) for _ in range(2)] == [1, 1]
