"""The database that tests copy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from django.db.migrations.loader import MigrationLoader

from tests import databases


def test_database_that_tests_copy_has_every_migration(tmp_path: Path) -> None:
    (tmp_path / "arena.sqlite3").write_bytes(databases.migrated())
    with closing(sqlite3.connect(tmp_path / "arena.sqlite3")) as copy:
        done = set(copy.execute("SELECT app, name FROM django_migrations"))
        (runs,) = copy.execute("SELECT COUNT(*) FROM runs_run")
    known = MigrationLoader(None).disk_migrations
    assert done == set(known).union(*(each.replaces for each in known.values()))
    assert runs == (0,)
