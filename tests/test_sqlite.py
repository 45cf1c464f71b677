"""The connection to SQLite. CI runs tests/arena on PostgreSQL, so this test stands outside."""

from __future__ import annotations

from django.db import connection


def test_sqlite_uses_wal_and_immediate_transactions(db: None) -> None:
    with connection.cursor() as cursor:
        assert cursor.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert cursor.execute("PRAGMA busy_timeout").fetchone() == (20_000,)
    assert connection.transaction_mode == "IMMEDIATE"
