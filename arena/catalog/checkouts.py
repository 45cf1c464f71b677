"""The checkout that writes the catalogue, and whether that of this machine fits it."""

from __future__ import annotations

import functools
import os
import secrets
import socket
import subprocess

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.models.functions import Now

from arena.catalog.models import CatalogSync
from arena.errors import Conflict
from evaluation import JUDGE_VERSION


def checkout_id() -> str:
    """Return the name of this data folder, made at its first use."""
    path = settings.ARENA_HOME / "checkout-id"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        settings.ARENA_HOME.mkdir(parents=True, exist_ok=True)
        path.write_text(secrets.token_hex(8) + "\n", encoding="ascii")
        return path.read_text(encoding="ascii").strip()


@functools.cache
def commit() -> str:
    """Return the commit of this checkout, or what ARENA_COMMIT says; empty where neither is there.

    An image has no repository, so its build sets the variable.
    """
    if found := os.environ.get("ARENA_COMMIT"):
        return found[:40]
    command = ("git", "-C", str(settings.BASE_DIR), "rev-parse", "HEAD")
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:  # there is no git
        return ""


@functools.cache
def migrations() -> int:
    """Return the number of migrations of this checkout."""
    found = MigrationLoader(None).disk_migrations
    return len(found or ())


def claim_catalog(force: bool = False) -> None:
    """Note that this checkout writes the catalogue now.

    Raises: Conflict where another one does, or a newer judge did, unless forced.
    """
    last, own = CatalogSync.objects.first(), checkout_id()
    if last and not force:
        if int(last.judge_version) > int(JUDGE_VERSION):
            raise Conflict(
                f"The catalogue is of judge version {last.judge_version}, and this checkout has"
                f" {JUDGE_VERSION}.",
                "Update this checkout; `python -m runners sync --force` goes back all the same.",
            )
        if last.checkout != own:
            raise Conflict(
                f"The catalogue is written by another checkout, on {last.machine}.",
                "Sync there; `python -m runners sync --force` lets this one write it from now on.",
            )
    values = {
        "checkout": own,
        "machine": socket.gethostname(),
        "judge_version": JUDGE_VERSION,
        "at": Now(),
    }
    CatalogSync.objects.update_or_create(pk=1, defaults=values)


def judge_problem() -> str:
    """Return that a judge is of another version than the catalogue; empty where it fits."""
    last = CatalogSync.objects.first()
    if last is None or last.judge_version == JUDGE_VERSION:
        return ""
    return (
        f"Its judge is version {JUDGE_VERSION}, and the catalogue is of version"
        f" {last.judge_version}: update the older checkout."
    )


def schema_problem() -> str:
    """Return how the tables differ from those that this checkout knows; empty where they fit."""
    try:
        executor = MigrationExecutor(connection)
        graph = executor.loader.graph
        missing = len(executor.migration_plan(graph.leaf_nodes()))
        squashed = (each.replaces for each in executor.loader.disk_migrations.values())
        unknown = set(executor.loader.applied_migrations) - set(graph.nodes).union(*squashed)
    except DatabaseError as error:
        return f"The database is unreachable: {type(error).__name__}."
    if missing:
        return f"The database lacks {missing} migrations: run `manage.py migrate`."
    ours = {name for name in unknown if name[0] in executor.loader.migrated_apps}
    return f"The database is newer by {len(ours)} migrations: update this checkout." if ours else ""
