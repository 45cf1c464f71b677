"""One checkout writes the catalogue; tables and judges of other versions are told."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from arena.catalog import checkouts
from arena.catalog.models import CatalogSync
from arena.errors import Conflict
from evaluation import JUDGE_VERSION

pytestmark = pytest.mark.django_db

NEWER = str(int(JUDGE_VERSION) + 1)


def test_claim_catalog_of_another_checkout_is_refused_until_forced(settings, tmp_path):
    settings.ARENA_HOME = tmp_path / "a"
    checkouts.claim_catalog()
    checkouts.claim_catalog()
    settings.ARENA_HOME = tmp_path / "b"
    with pytest.raises(Conflict, match="another checkout, on"):
        checkouts.claim_catalog()
    checkouts.claim_catalog(force=True)
    assert CatalogSync.objects.get().checkout == checkouts.checkout_id()


def test_claim_catalog_with_an_older_judge_is_refused(settings, tmp_path):
    settings.ARENA_HOME = tmp_path
    checkouts.claim_catalog()
    CatalogSync.objects.update(judge_version=NEWER)
    with pytest.raises(Conflict, match=f"judge version {NEWER}, and this checkout has"):
        checkouts.claim_catalog()
    CatalogSync.objects.update(judge_version=str(int(JUDGE_VERSION) - 1))
    checkouts.claim_catalog()
    assert CatalogSync.objects.get().judge_version == JUDGE_VERSION


def test_schema_problem_names_what_is_missing_or_too_new():
    assert checkouts.schema_problem() == ""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("runs", "9999_of_tomorrow")
    assert "newer by 1 migrations: update this checkout" in checkouts.schema_problem()
    recorder.record_unapplied("runs", "9999_of_tomorrow")
    recorder.record_unapplied("audit", "0001_initial")
    assert "lacks 1 migrations: run `manage.py migrate`" in checkouts.schema_problem()
