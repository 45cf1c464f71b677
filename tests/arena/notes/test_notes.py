"""Tests of readers' notes: who writes, sees and removes them, and where those of staff show."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser

from arena.errors import Conflict, Invalid, NotFound
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.matrix import matrix
from arena.leaderboard.ranking.results import snapshot
from arena.notes import services
from arena.notes.models import MAX_QUOTE, Note
from arena.notes.services import MAX_NOTES_A_RUN
from tests.arena.factories import finished

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(start):
    return finished(start())


def test_note_keeps_its_event_quote_and_author(run, alice):
    note = services.mark(run, alice, "leak", seq=2, quote=" the hidden sizes ", text="See this.")
    assert (note.seq, note.quote, note.text) == (2, "the hidden sizes", "See this.")
    assert note.get_absolute_url() == f"/runs/{run.pk}/?at=2#e2"
    assert services.mark(run, alice, "clean").get_absolute_url() == f"/runs/{run.pk}/"


@pytest.mark.parametrize(
    ("mark", "more", "field"),
    [
        ("superb", {}, "mark"),
        ("bug", {"seq": 99_999}, "seq"),
        ("bug", {"quote": "q" * (MAX_QUOTE + 1)}, "quote"),
    ],
)
def test_bad_note_is_refused_with_its_field(run, alice, mark, more, field):
    with pytest.raises(Invalid) as refused:
        services.mark(run, alice, mark, **more)
    assert list(refused.value.fields) == [field] and not Note.objects.exists()


def test_author_has_a_limited_number_of_notes_on_a_run(run, alice, bob):
    notes = [Note(run=run, mark="bug", author=alice) for _ in range(MAX_NOTES_A_RUN)]
    Note.objects.bulk_create(notes)
    with pytest.raises(Conflict):
        services.mark(run, alice, "bug")
    assert services.mark(run, bob, "bug")


def test_reader_sees_notes_of_staff_and_their_own(client, run, alice, bob, charlie):
    services.mark(run, bob, "interesting", text="of staff")
    services.mark(run, alice, "bug", text="of alice")
    for reader, seen in ((None, {"of staff"}), (alice, {"of staff", "of alice"}),
                         (charlie, {"of staff"}), (bob, {"of staff", "of alice"})):  # fmt: skip
        client.logout()
        if reader:
            client.force_login(reader)
        for address in (f"/runs/{run.pk}/", f"/runs/{run.pk}/notes/"):
            page = client.get(address).content.decode()
            assert {text for text in ("of staff", "of alice") if text in page} == seen


def test_note_stays_public_or_private_as_the_rights_of_its_author_change(run, alice, bob):
    public, private = services.mark(run, bob, "leak"), services.mark(run, alice, "bug")
    type(bob).objects.filter(pk=bob.pk).update(is_staff=False)
    type(alice).objects.filter(pk=alice.pk).update(is_staff=True)
    assert [*Note.objects.of_staff()] == [public]
    assert [*Note.objects.visible_to(AnonymousUser())] == [public]
    alice.refresh_from_db()
    assert [*Note.objects.visible_to(alice)] == [public, private]


def test_api_shows_the_notes_of_staff_alone(client, run, alice, bob):
    services.mark(run, alice, "bug")
    services.mark(run, bob, "reward_hack", seq=1, quote="it times itself")
    client.force_login(alice)
    [note] = client.get(f"/api/v1/runs/{run.pk}").json()["notes"]
    assert (note["mark"], note["seq"], note["author"]) == ("reward_hack", 1, "bob")


def test_cell_of_the_board_has_the_marks_of_staff(client, run, alice, bob):
    services.mark(run, alice, "bug")
    for mark in ("interesting", "leak", "leak"):
        services.mark(run, bob, mark)
    shown = board()
    [line] = matrix(snapshot(), shown, [row.agent for row in shown.rows])
    assert [cell.marks for cell in line.cells if cell] == [("leak", "interesting")]
    page = client.get("/leaderboard/parts/matrix/").content.decode()
    assert "noted: leak, interesting" in page


def test_note_is_removed_by_its_author_and_by_staff(run, alice, bob, charlie):
    first, second = (services.mark(run, alice, "bug") for _ in range(2))
    with pytest.raises(NotFound):
        services.remove(run, first.pk, charlie)
    services.remove(run, first.pk, alice)
    services.remove(run, second.pk, bob)
    assert not Note.objects.exists()


def test_form_on_the_page_of_an_event_marks_it(client, run, alice):
    client.force_login(alice)
    page = client.get(f"/runs/{run.pk}/events/2/").content.decode()
    assert 'name="seq" value="2"' in page
    form = {"mark": "interesting", "seq": "2", "quote": "<b>", "text": "x"}
    response = client.post(f"/runs/{run.pk}/notes/", form, follow=True)
    shown = response.content.decode()
    assert "The note is saved." in shown and "&lt;b&gt;" in shown
    assert f'href="/runs/{run.pk}/?at=2#e2">event 2</a>' in shown
    form["seq"] = "many"
    assert client.post(f"/runs/{run.pk}/notes/", form).status_code == 422
    note = run.notes.get()
    client.post(f"/runs/{run.pk}/notes/{note.pk}/remove/")
    assert not run.notes.exists()
