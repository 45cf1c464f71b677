"""Settings of the arena; values that differ between machines come from the environment.

With ARENA_HEADLESS=1 there is no web server and no queue server: Django, pydantic, dramatiq and
jsonschema are enough.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arena.home import make_private
from arena.static_digest import static_digest

HEADLESS = os.environ.get("ARENA_HEADLESS") == "1"
BASE_DIR = Path(__file__).resolve().parent.parent
ARENA_HOME = Path(os.environ.get("ARENA_HOME", BASE_DIR / ".arena")).resolve()
ARENA_HARNESSES = Path(os.environ.get("ARENA_HARNESSES", ARENA_HOME / "harnesses")).resolve()
ARENA_TASKS = Path(os.environ.get("ARENA_TASKS", BASE_DIR / "tasks")).resolve()
ARENA_IMPORTED = Path(os.environ.get("ARENA_IMPORTED", ARENA_HOME / "imported")).resolve()
JUDGE_USER = os.environ.get("ARENA_JUDGE_USER", "")  # of the machine, where root starts workers
COMPARED_TASK = os.environ.get("ARENA_COMPARED_TASK", "softmax/torch-to-torch")
ARENA_CHECKOUTS = os.environ.get("ARENA_CHECKOUTS", "")  # a folder that curators read
ADMISSIONS = BASE_DIR / "benchmarks" / "results"  # admission results, measured on our machines


@contextmanager
def _exit_without_home() -> Iterator[None]:
    """Exit where ARENA_HOME is a file, or belongs to another user, and say what to do."""
    try:
        yield
    except OSError as error:
        why = "it is a file" if ARENA_HOME.is_file() else error.strerror
        sys.exit(f"{ARENA_HOME} cannot be written to ({why}): set ARENA_HOME to another folder")


@_exit_without_home()
def _secret_key() -> str:
    """Return the key of this installation; the first process that needs it makes it."""
    path = ARENA_HOME / "secret_key"
    if not path.exists():
        make_private(ARENA_HOME)
        draft = ARENA_HOME / f".secret_key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was first: its key is the key
        finally:
            draft.unlink()
    return path.read_text().strip()


def _redis_url() -> str:
    """Return REDIS_URL, else the URL that the launcher wrote, else the usual port."""
    if url := os.environ.get("REDIS_URL"):
        return url
    try:
        return (ARENA_HOME / "redis.url").read_text().strip()
    except FileNotFoundError:
        return "redis://127.0.0.1:6379/0"


def _days(name: str) -> float | None:
    return float(os.environ[name]) if os.environ.get(name) else None


def _store(place: str) -> dict[str, Any]:
    """Return the store of texts: s3://BUCKET/PREFIX, or a folder, by default one in ARENA_HOME."""
    if place.startswith("s3://"):
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        options = {"bucket_name": bucket, "location": prefix, "querystring_auth": False}
        return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
    folder = Path(place).resolve() if place else ARENA_HOME / "store"
    backend = "django.core.files.storage.FileSystemStorage"
    return {"BACKEND": backend, "OPTIONS": {"location": folder}}


def _prefix() -> str:
    """Return the path below which the arena is served, such as /arena; empty for a whole host."""
    prefix = os.environ.get("ARENA_PREFIX", "").strip("/")
    if not re.fullmatch(r"(?:\w[\w.~-]*(?:/\w[\w.~-]*)*)?", prefix, re.ASCII):
        raise ValueError(f"ARENA_PREFIX is {prefix!r}: write a path, such as /arena.")
    return f"/{prefix}" if prefix else ""


if ARENA_HOME.exists():  # an earlier version left it open to other users
    with _exit_without_home():
        make_private(ARENA_HOME)

POOL = {"min_size": 1, "max_size": 32, "timeout": 10}
"""Connections that each process keeps to PostgreSQL, and the seconds to wait for one."""


LOST = {
    "options": "-c idle_in_transaction_session_timeout=30s -c tcp_keepalives_idle=10"
    " -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Times after which either side of a connection takes the other for lost.

A machine whose link is cut in a transaction would else keep its locks for hours, and each reaper
that wants the row would wait with it.
"""


def _database() -> dict[str, Any]:
    """Return the database of DATABASE_URL, else a file in ARENA_HOME, as for a headless arena."""
    config: dict[str, Any] = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(ARENA_HOME / "arena.sqlite3"),
    }
    if not HEADLESS and (url := os.environ.get("DATABASE_URL")):
        import dj_database_url

        config = dict(dj_database_url.parse(url, conn_health_checks=True))
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # IMMEDIATE locks at BEGIN, so a transaction that reads, then writes can never deadlock.
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    if config["ENGINE"] == "django.db.backends.postgresql":
        # A new connection costs PostgreSQL a process that has yet to read its catalog.
        config["OPTIONS"] = {**config.get("OPTIONS", {}), **LOST, "pool": POOL}
    return config


SECRET_KEY = os.environ.get("SECRET_KEY") or _secret_key()
DEBUG = os.environ.get("DEBUG", "0") == "1"
LOCAL = "ALLOWED_HOSTS" not in os.environ  # only this machine can reach the pages
PREFIX = _prefix()
ALLOWED_HOSTS = os.environ.get("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("CSRF_TRUSTED_ORIGINS", "").split(",") if o]
DATABASES = {"default": _database()}
REDIS_URL = _redis_url()

EXECUTOR = "runners.local.execute"
"""Runs an experiment in this process, without workers."""

HEADLESS_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "arena.audit",
    "arena.accounts",
    "arena.catalog",
    "arena.runs",
]

WEB_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "ninja",
    "arena.audit",
    "arena.accounts",
    "arena.catalog",
    "arena.runs",
    "arena.notes",
    "arena.published",
    "arena.leaderboard",
    "arena.contests",
    "arena.curation",
]

INSTALLED_APPS = HEADLESS_APPS if HEADLESS else WEB_APPS
if "runserver" in sys.argv and not HEADLESS:  # the others would import a web server and never serve
    INSTALLED_APPS = ["daphne", *INSTALLED_APPS]

WEB_MIDDLEWARE = [
    *(["arena.telemetry.Requests"] if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ else []),
    "arena.logs.Requests",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.gzip.GZipMiddleware",  # which pads what it packs against BREACH
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "arena.middleware.security_headers",
    "arena.api.root.api_errors",
    "arena.api.root.api_heads",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "arena.middleware.private_pages",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "arena.middleware.page_of_method",
    "arena.middleware.storable_text",  # its page shows who is logged in
]
MIDDLEWARE: list[str] = [] if HEADLESS else WEB_MIDDLEWARE  # Django's checks import each of them

ASGI_APPLICATION = "arena.asgi.application"

if not HEADLESS:  # else Django's checks would load every page
    ROOT_URLCONF = "arena.urls"
    TEMPLATES = [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [BASE_DIR / "templates"],
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                    "arena.accounts.context.accounts",
                    "arena.curation.review_count.curation",
                ],
            },
        }
    ]

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["arena.accounts.backends.SlowedBackend"]
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # one may be a secret
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
PASSWORD_RESET_TIMEOUT = 86_400  # of a sign-in link
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]

SHARED_COUNTERS = os.environ.get("ARENA_SHARED_COUNTERS") == "1"
"""True where several web servers share the counters of logins and requests, in the queue server."""
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},  # invented names must not evict counters
    }
}
if SHARED_COUNTERS:
    CACHES["default"] = {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "arena",
    }

ARENA_RETENTION_DAYS = _days("ARENA_RETENTION_DAYS")
"""Age of runs whose traces `manage.py archive` moves out of the database; None for no run."""
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "texts": _store(os.environ.get("ARENA_STORE", "")),
}

STATIC = BASE_DIR / "static"
STATIC_URL = f"{PREFIX}/static/" if HEADLESS else f"{PREFIX}/static/{static_digest(STATIC)}/"
STATICFILES_DIRS = [STATIC]
WHITENOISE_USE_FINDERS = True  # served from the source folders: nothing to collect before a start
WHITENOISE_AUTOREFRESH = DEBUG
if not DEBUG:
    WHITENOISE_IMMUTABLE_FILE_TEST = rf"^{re.escape(STATIC_URL)}"  # the address has their digest

ARENA_NEWS_URL = os.environ.get("ARENA_NEWS_URL", "")  # takes a POST with JSON
ARENA_ALERT_URL = os.environ.get("ARENA_ALERT_URL", "")  # takes a POST with JSON
SIGNUP_OPEN = os.environ.get("ARENA_SIGNUP", "open") != "closed"
DATA_UPLOAD_MAX_NUMBER_FILES = 500  # a folder of a task, uploaded file by file
MAX_ACTIVE_RUNS = int(os.environ.get("MAX_ACTIVE_RUNS", "20"))  # of one user
MAX_PENDING_SUBMISSIONS = int(os.environ.get("MAX_PENDING_SUBMISSIONS", "64"))  # of one user
MAX_DAILY_RUNS = int(os.environ.get("MAX_DAILY_RUNS", "200"))  # of one user, and so are these
MAX_DAILY_SUBMISSIONS = int(os.environ.get("MAX_DAILY_SUBMISSIONS", "5000"))
MAX_DAILY_FINALS = int(os.environ.get("MAX_DAILY_FINALS", "20"))
MAX_DAILY_TRACE_MIB = int(os.environ.get("MAX_DAILY_TRACE_MIB", "1024"))  # of runs elsewhere
FINAL_STEP_SECONDS = float(os.environ.get("FINAL_STEP_SECONDS", "0" if HEADLESS else "30"))

PROXY_HEADER = os.environ.get("SECURE_PROXY_SSL_HEADER", "")  # such as X-Forwarded-Proto
if PROXY_HEADER:
    SECURE_PROXY_SSL_HEADER = (f"HTTP_{PROXY_HEADER.upper().replace('-', '_')}", "https")
CLIENT_ADDRESS_HEADER = os.environ.get("CLIENT_ADDRESS_HEADER", "")  # such as X-Forwarded-For
TLS_ONLY = bool(PROXY_HEADER or CSRF_TRUSTED_ORIGINS) and all(
    origin.startswith("https://") for origin in CSRF_TRUSTED_ORIGINS
)
"""Behind a proxy with TLS. Without either setting, no form works there."""
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS_ONLY and not LOCAL
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = f"{PREFIX}/"  # not sent to what else this host serves

USE_I18N = False  # every text is English; a page would else ask for the language at each number
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LOG_FORMAT = os.environ.get("ARENA_LOG_FORMAT", "text")  # or json
LOG_LEVEL = os.environ.get("LOG_LEVEL", "INFO")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"format": LOG_LINE},
        "json": {"()": "arena.logs.Json"},
        "one_line_text": {"()": "arena.logs.OneLine", "fmt": LOG_LINE},
        "one_line_json": {"()": "arena.logs.OneLineJson"},
    },
    "handlers": {
        "console": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT},
        "one_line": {"class": "logging.StreamHandler", "formatter": f"one_line_{LOG_FORMAT}"},
    },
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        **{name: {"level": LOG_LEVEL} for name in ("arena", "runners", "evaluation", "daphne")},
        # What is refused is one line, without a traceback of ours.
        "django.security": {"handlers": ["one_line"], "propagate": False},
        "django.request": {"level": "ERROR"},  # the web server logs each request with its status
    },
}
