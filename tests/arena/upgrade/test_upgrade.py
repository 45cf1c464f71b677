"""An upgrade with work in flight: this checkout migrates the database, and takes up the work.

The database is a dump that an earlier release wrote, see `dump.py`, so that no clone needs its
history. Its workers are gone; those of this checkout are real, with a stand-in for the judge.
"""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.db import connection
from psycopg.rows import dict_row

from tests.runners.house import QUICK_WORKER, ROLES, ROOT, House

pytestmark = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="the dump is of PostgreSQL: make test-postgres"
)
DUMP = Path(__file__).with_name("in_flight.sql.xz")
STATES = ("queued", "building", "built", "measuring")
LATER = """
DO $$ DECLARE c record; passed interval; BEGIN
  SELECT now() - interval '60 seconds' - max(at) INTO passed FROM public.runs_event;
  FOR c IN SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' AND data_type = 'timestamp with time zone' LOOP
    EXECUTE format('UPDATE public.%I SET %2$I = %2$I + %3$L::interval',
                   c.table_name, c.column_name, passed);
  END LOOP;
END $$
"""
"""Moves all times, so that the last event is a minute old: as long as an upgrade takes."""
CLAIM = "import django; django.setup(); from arena.catalog.checkouts import claim_catalog as claim"


class Upgraded(House):
    """A house on a database of its own in PostgreSQL."""

    def __init__(self, home: Path, database: dict[str, Any], name: str) -> None:
        super().__init__(home)
        self.connected = {"host": database["HOST"], "user": database["USER"], "dbname": name}
        place = quote(database["HOST"], safe="")
        self.env["DATABASE_URL"] = f"postgres://{database['USER']}@{place}/{name}"

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with psycopg.connect(**self.connected, row_factory=dict_row) as database:
            return database.execute(query, values).fetchall()

    def load(self, dump: Path) -> None:
        with psycopg.connect(**self.connected) as database:
            database.execute(lzma.decompress(dump.read_bytes()))
            database.execute(LATER)

    def upgrade(self) -> None:
        """Migrate the database, and let this checkout write the catalogue."""
        for words in (
            ("manage.py", "migrate", "--verbosity", "0"),
            ("-c", f"{CLAIM}; claim(True)"),
        ):
            subprocess.run([sys.executable, *words], cwd=ROOT, env=self.env, check=True)


@pytest.fixture
def house(db: None, tmp_path: Path) -> Iterator[Upgraded]:
    """Give a house whose database an earlier release wrote, without any process."""
    database = connection.settings_dict
    name = f"{database['NAME']}_upgrade"
    server = {"host": database["HOST"], "user": database["USER"], "dbname": database["NAME"]}
    with psycopg.connect(**server, autocommit=True) as administration:
        administration.execute(f'CREATE DATABASE "{name}"')
        house = Upgraded(tmp_path, database, name)
        try:
            house.load(DUMP)
            yield house
        finally:
            house.close()
            administration.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def expected() -> dict[str, list[str]]:
    """Return the ends of runs by label: an agent that was at work breaks off, and begins anew."""
    ends = {"queued": ["passed"], "at work": ["broken", "passed"], "ended": ["passed"]}
    for state in STATES:
        ends[f"round {state}"] = ["broken", "passed"]
        ends[f"final {state}"] = ends[f"kernel {state}"] = ["passed"]
    return ends | {"external": ["running"], "cancelled": ["cancelled"]}


def statuses(house: Upgraded) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in house.rows("SELECT label, status FROM runs_run ORDER BY created_at"):
        found.setdefault(row["label"], []).append(row["status"])
    return found


def events(house: Upgraded) -> dict[tuple[str, int], Any]:
    found = house.rows("SELECT run_id, seq, event_id, rev, kind, body FROM runs_event")
    return {(row.pop("run_id"), row.pop("seq")): row for row in found}


def waiting(house: Upgraded) -> list[dict[str, Any]]:
    return house.rows("SELECT id FROM runs_evaluation WHERE status NOT IN ('done', 'broken')")


@pytest.mark.timeout(120)
def test_upgrade_with_work_in_flight_loses_nothing_and_does_nothing_twice(house: Upgraded) -> None:
    before = events(house)
    house.upgrade()
    house.start_valkey()
    for role, words in ROLES.items():
        house.launch(role, [sys.executable, str(QUICK_WORKER), "worker", *words])
    house.wait_until(lambda: statuses(house) == expected() and not waiting(house), 25)
    after = events(house)
    assert {key: after[key] for key in before} == before
    last = dict(Counter(run for run, _ in after))
    for run in house.rows("SELECT id, last_seq FROM runs_run"):
        assert run["last_seq"] == last[run["id"]] == max(s for r, s in after if r == run["id"])
    ends = Counter(
        run
        for (run, _), event in after.items()
        if event["kind"] == "status" and event["body"]["state"] in ("passed", "broken", "cancelled")
    )
    ended = house.rows("SELECT id FROM runs_run WHERE label <> 'external'")
    assert ends == {run["id"]: 1 for run in ended}
    verdicts = Counter(
        event["event_id"]
        for event in after.values()
        if event["kind"] == "span_end" and event["body"]["span_kind"] == "evaluation"
    )
    judged = house.rows("SELECT id FROM runs_evaluation WHERE status = 'done'")
    assert verdicts == {f"evaluation-{each['id']}/end": 1 for each in judged}
    (external,) = house.rows(
        "SELECT e.verdict FROM runs_evaluation e JOIN runs_submission s ON s.id = e.submission_id"
        " JOIN runs_run r ON r.id = s.run_id WHERE r.label = 'external'"
    )
    assert external["verdict"] == "passed", json.dumps(external)
