"""Sign-up, roles, and the account page with its tokens and limits."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import connection
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.accounts import sign_in_link
from arena.accounts.forms import MAX_SIGN_UPS, MAX_TOKENS, SignUpForm
from arena.accounts.models import ApiToken, User
from arena.catalog.models import Agent
from arena.contests.entries import enter
from arena.contests.models import Contest
from arena.curation import drafts
from arena.curation.models import Draft
from arena.errors import Forbidden
from arena.runs import services
from arena.runs.models import Event, Run
from tests.arena.factories import LEASE, finished

pytestmark = pytest.mark.django_db
GOOD = {"username": "dora", "password1": "explorer-42", "password2": "explorer-42"}


@pytest.fixture(autouse=True)
def no_attempts():
    cache.clear()
    yield
    cache.clear()


def test_sign_up_creates_a_plain_account_and_signs_in(client):
    assert "Sign up" in client.get("/login/").content.decode()
    response = client.post("/signup/", GOOD, follow=True)
    assert response.redirect_chain == [("/account/", 302)]
    user = User.objects.get(username="dora")
    assert not (user.is_staff or user.is_superuser or user.is_reviewer or user.may_use_models)
    assert response.context["user"] == user


def test_sign_up_keeps_the_signs_of_a_name_on_one_line(client):
    assert '<span class="nowrap">@ . + - _</span>' in client.get("/signup/").content.decode()


@pytest.mark.parametrize(
    ("target", "opened"), [("/submit/", "/submit/"), ("//evil.example", "/account/")]
)
def test_sign_up_continues_on_this_site_only(client, target, opened):
    assert client.post("/signup/", GOOD | {"next": target}).url == opened


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"password1": "short1", "password2": "short1"}, "too short"),
        ({"password1": "password", "password2": "password"}, "too common"),
        ({"password1": "82736451", "password2": "82736451"}, "entirely numeric"),
        ({"password2": "explorer-43"}, "match"),
        ({"username": "ALICE"}, "already exists"),
        ({"username": "Owner"}, "reserved"),
        ({"username": "a b"}, "valid username"),
        ({"username": "x" * 41}, "at most 40"),
        ({"username": "\x00"}, "Null characters"),
        ({"username": "\u0430lice"}, "letters from a to z"),  # a Cyrillic a
        ({"username": "\u03b1lice"}, "letters from a to z"),  # a Greek alpha
        ({"username": "\u0430\u0441\u0435"}, "letters from a to z"),  # all Cyrillic, reads as ace
        ({"username": "al\u0131ce"}, "letters from a to z"),  # an i without its dot
        ({"username": "\uff41\uff4c\uff49\uff43\uff45"}, "already exists"),  # full width
        ({"username": "\U0001d41alice"}, "already exists"),  # a mathematical a
        ({"username": "a\u0301lice"}, "letters from a to z"),
        ({"username": "\u00e1lice"}, "letters from a to z"),
        ({"username": "al\u200bice"}, "letters from a to z"),
        ({"username": "a1ice"}, "looks like"),
        ({"username": "aIice"}, "looks like"),
        ({"username": "AL1CE"}, "looks like"),
        ({"username": "Adm1n"}, "reserved"),
        ({"username": "adrnin"}, "reserved"),
        ({"username": "r00t"}, "reserved"),
        ({"username": "admin."}, "reserved"),
        ({"username": "Kernel-Arena"}, "reserved"),
        ({"username": "kernel_arena"}, "reserved"),
        ({"username": "kernel.arena"}, "reserved"),
        ({"username": "0fficial"}, "reserved"),
        ({"username": "@alice"}, "looks like"),
        ({"username": "alice."}, "looks like"),
        ({"username": "al.ice"}, "looks like"),  # its agents would have the slugs of hers
        ({"username": "closed-2"}, "reserved"),  # else the second user could close no account
        ({"username": "@"}, "a letter or a digit"),
    ],
)
def test_sign_up_refuses_and_says_why(client, alice, changes, message):
    page = client.post("/signup/", GOOD | changes)
    assert page.status_code == 422 and message in page.content.decode()
    assert User.objects.count() == 1


@pytest.mark.parametrize("theirs", ["d\u00f3ra", "d0ra", "DORA", "\uff44ora"])
def test_sign_up_refuses_a_name_like_one_that_an_operator_gave(client, theirs):
    User.objects.create_user(theirs)
    assert client.post("/signup/", GOOD).status_code == 422
    assert User.objects.count() == 1


@pytest.mark.parametrize("name", ["dora2", "d.ora", "Dora-x", "x@example.org", "bob+1", "_dora_"])
def test_sign_up_takes_other_plain_names(client, alice, bob, name):
    assert client.post("/signup/", GOOD | {"username": name}).status_code == 302


@pytest.mark.parametrize("other", ["dora", "d0ra"])
def test_sign_ups_at_once_do_not_share_a_name(alice, other):
    given = [GOOD, GOOD | {"username": other}]
    first, second = (SignUpForm(HttpRequest(), each) for each in given)
    assert first.is_valid() and second.is_valid()
    assert first.create() and second.create() is None
    assert "username" in second.errors and User.objects.count() == 2


def test_sign_up_after_too_many_attempts_gives_the_wait(client, one_period):
    for _ in range(MAX_SIGN_UPS):
        client.post("/signup/", GOOD | {"password2": "another"})
    page = client.post("/signup/", GOOD)
    assert page.status_code == 422 and "Too many attempts" in page.content.decode()
    assert client.post("/signup/", GOOD, REMOTE_ADDR="192.0.2.9").status_code == 302


def test_sign_up_that_is_closed_creates_no_account(client, settings):
    settings.SIGNUP_OPEN = False
    page = client.post("/signup/", GOOD)
    assert page.status_code == 403 and "closed" in page.content.decode()
    assert not User.objects.exists()
    assert "/signup/" not in client.get("/login/").content.decode()


def test_member_of_a_role_has_its_rights(alice, charlie):
    reviewers, staff = (Group.objects.get(name=name) for name in ("Reviewers", "Staff"))
    alice.groups.add(reviewers)
    staff.user_set.add(charlie)
    alice, charlie = (User.objects.get(pk=user.pk) for user in (alice, charlie))
    assert alice.is_reviewer and not alice.is_staff
    assert charlie.is_reviewer and charlie.is_staff and charlie.may_use_models
    assert charlie.has_perm("runs.change_run") and charlie.has_perm("catalog.change_task")
    assert not charlie.has_perm("accounts.change_user")
    for leave in (lambda: staff.user_set.clear(), lambda: charlie.groups.remove(staff)):
        charlie.groups.add(staff)
        leave()
        assert not User.objects.get(pk=charlie.pk).is_staff


def test_user_starts_agents_with_a_model_by_permission_only(client, alice, start):
    Agent.objects.create(slug="coder", title="Coder", adapter="tuner", model="opus", provider="p")
    with pytest.raises(Forbidden, match="spends the keys"):
        start(owner=alice, agent_slug="coder")
    client.force_login(alice)
    assert "Not permitted" in client.get("/runs/start/").content.decode()
    alice.groups.add(Group.objects.get(name="Staff"))
    start(owner=User.objects.get(pk=alice.pk), agent_slug="coder")


def test_account_token_is_shown_once_and_works_until_revoked(client, alice):
    client.force_login(alice)
    form = {"name": "laptop", "scopes": ["read", "submit"], "days": "30"}
    page = client.post("/account/", form).content.decode()
    secret = re.search(r"data-secret[^>]*>(arena_[\w-]+)<", page)[1]
    token = ApiToken.objects.find(secret)
    assert token is not None and (token.user, token.scopes) == (alice, ["read", "submit"])
    assert timedelta(days=29) < token.expires_at - timezone.now() < timedelta(days=31)
    page = client.get("/account/").content.decode()
    assert secret not in page and token.prefix in page and "laptop" in page
    bearer = {"authorization": f"Bearer {secret}"}
    client.logout()
    assert client.get("/api/v1/runs", headers=bearer).status_code == 200
    client.force_login(alice)
    assert "never" not in client.get("/account/").content.decode().partition("Last used")[2][:900]
    client.post(f"/account/tokens/{token.pk}/revoke/")
    assert client.get("/api/v1/runs", headers=bearer).status_code == 401


def test_token_that_expired_is_refused(client, alice):
    past = timezone.now() - timedelta(seconds=1)
    token, secret = ApiToken.issue(alice, "old", ["read"], past)
    refused = client.get("/api/v1/runs", headers={"authorization": f"Bearer {secret}"})
    assert refused.status_code == 401 and "/account/" in refused.json()["error"]["hint"]
    assert token.state == "expired"


def test_token_of_another_user_is_not_revoked(client, alice, charlie):
    token, secret = ApiToken.issue(alice, "t", ["read"])
    client.force_login(charlie)
    page = client.post(f"/account/tokens/{token.pk}/revoke/", follow=True)
    assert "no such token" in page.content.decode()
    assert ApiToken.objects.find(secret) is not None


@pytest.mark.parametrize(
    "changes", [{"name": ""}, {"scopes": ["root"]}, {"scopes": []}, {"days": "9999"}]
)
def test_account_token_form_refuses_bad_values(client, alice, changes):
    client.force_login(alice)
    form = {"name": "laptop", "scopes": ["read"], "days": "30"} | changes
    assert client.post("/account/", form).status_code == 422
    assert not ApiToken.objects.exists()


def test_account_has_a_limit_on_live_tokens(client, alice):
    for _ in range(MAX_TOKENS):
        ApiToken.issue(alice, "t", ["read"])
    client.force_login(alice)
    page = client.post("/account/", {"name": "t", "scopes": ["read"], "days": "7"})
    assert page.status_code == 422 and "Revoke one first" in page.content.decode()


def test_account_shows_the_place_in_the_queue_and_the_limits(client, alice, start, settings):
    settings.MAX_DAILY_RUNS = 7
    start(owner=alice, label="mine")
    start(owner=alice)
    client.force_login(alice)
    page = client.get("/account/").content.decode()
    assert page.count("no agent worker is online") == 2
    assert re.search(r"last 24 hours</dt><dd>2<small>of 7</small>", page)


def test_account_of_anonymous_asks_to_log_in(client):
    for path in ("/account/", "/account/password/", "/submit/"):
        assert client.get(path).url == f"/login/?next={path}"


def test_password_change_needs_the_old_one(client, alice):
    client.force_login(alice)
    form = {"new_password1": "explorer-42", "new_password2": "explorer-42"}
    client.post("/account/password/", form | {"old_password": "wrong"})
    assert User.objects.get().check_password("wonderland")
    changed = client.post("/account/password/", form | {"old_password": "wonderland"})
    assert changed.status_code == 302
    assert User.objects.get().check_password("explorer-42")


@pytest.fixture
def read_as():
    """Return the status of a request with a token."""

    def read(secret: str) -> int:
        headers = {"authorization": f"Bearer {secret}"}
        return Client().get("/api/v1/runs", headers=headers).status_code

    return read


NEW_PASSWORD = {
    "old_password": "wonderland", "new_password1": "explorer-42", "new_password2": "explorer-42"
}  # fmt: skip


def test_password_change_revokes_the_tokens_by_default(client, alice, bob, read_as):
    secrets = [ApiToken.issue(user, "one", ["read"])[1] for user in (alice, alice, bob)]
    client.force_login(alice)
    page = client.get("/account/password/").content.decode()
    (box,) = re.findall(r'<input type="checkbox"[^>]*>', page)
    assert 'name="revoke_tokens"' in box and " checked" in box
    client.post("/account/password/", NEW_PASSWORD | {"old_password": "no", "revoke_tokens": "on"})
    assert [read_as(secret) for secret in secrets] == [200, 200, 200]
    client.post("/account/password/", NEW_PASSWORD | {"revoke_tokens": "on"})
    assert [read_as(secret) for secret in secrets] == [401, 401, 200]


def test_password_change_can_keep_the_tokens(client, alice, read_as):
    _, secret = ApiToken.issue(alice, "one", ["read"])
    client.force_login(alice)
    assert client.post("/account/password/", NEW_PASSWORD).status_code == 302
    assert read_as(secret) == 200


def test_password_of_who_has_none_is_set_without_the_old_one(client):
    page = client.get(sign_in_link.link(), follow=True).content.decode()
    assert "You have no password" in page
    assert "Set a password" in client.get("/account/").content.decode()
    first = {"new_password1": "explorer-42", "new_password2": "explorer-42"}
    page = client.post("/account/password/", first, follow=True).content.decode()
    assert "Your password is set" in page and "Change password" in page
    assert User.objects.get().check_password("explorer-42")


def test_account_that_is_closed_keeps_its_public_run_without_a_name(client, alice, start, read_as):
    shown, queued = finished(start(owner=alice)), start(owner=alice)
    _, secret = ApiToken.issue(alice, "one", ["read"])
    client.force_login(alice)
    refused = client.post("/account/close/", {"confirmation": "guess"})
    assert refused.status_code == 422 and "not your password" in refused.content.decode()
    page = client.post("/account/close/", {"confirmation": "wonderland"}, follow=True)
    assert "Your account is closed" in page.content.decode()
    assert read_as(secret) == 401 and not client.login(username="alice", password="wonderland")
    assert not User.objects.filter(username="alice").exists()
    queued.refresh_from_db()
    assert queued.status == "cancelled"
    assert client.get(f"/runs/{shown.pk}/").status_code == 200


def test_name_of_a_closed_account_is_not_given_again(client, alice, task, hardware):
    run = services.start_external_run(
        owner=alice, task_slug="relu/cpp-to-cpp", name="Climber", visibility="public"
    )
    client.force_login(alice)
    client.post("/account/close/", {"confirmation": "wonderland"})
    for name in ("alice", "A1ice"):
        page = client.post("/signup/", GOOD | {"username": name})
        assert page.status_code == 422 and "looks like that of another" in page.content.decode()
    agent = Run.objects.get(pk=run.pk).agent
    assert agent.title == "Climber (alice)", "which another alice could have given hers"
    assert client.post("/signup/", GOOD).status_code == 302


def test_account_is_not_deleted_in_the_admin(client, alice, admin_user):
    client.force_login(admin_user)
    address = reverse("admin:accounts_user_delete", args=[alice.pk])
    assert client.post(address, {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=alice.pk).exists()


def test_account_that_is_closed_is_named_neither_in_a_cancelled_run_nor_in_a_contest(
    client, alice, start, task, hardware
):
    now = timezone.now()
    contest = Contest.objects.create(
        slug="relu-cup", title="ReLU cup", task=task, hardware=hardware,
        starts_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1),
    )  # fmt: skip
    enter(contest, alice, finished(start(owner=alice)).pk, "")
    queued, working = start(owner=alice), start(owner=alice)
    assert services.claim_run(working.pk, LEASE)
    client.force_login(alice)
    client.post("/account/close/", {"confirmation": "wonderland"})
    assert Run.objects.get(pk=queued.pk).reason == "Cancelled by its owner."
    asked = Event.objects.get(run=working, kind="interrupt")
    assert asked.body["by"] == "its owner"
    assert contest.entries.get().team == f"closed-{alice.pk}"


def test_account_with_a_run_that_ends_meanwhile_is_closed_all_the_same(client, alice, start):
    run = start(owner=alice)
    assert services.claim_run(run.pk, LEASE)
    ends = iter([lambda: services.finish_run(run.pk, LEASE, "broken", "It crashed.", "arena")])

    def end_first(execute, sql, *given):
        if sql.startswith('UPDATE "runs_run"'):  # the first is the one that cancels
            for end in ends:
                assert end()
        return execute(sql, *given)

    client.force_login(alice)
    with connection.execute_wrapper(end_first):
        page = client.post("/account/close/", {"confirmation": "wonderland"}, follow=True)
    assert "Your account is closed" in page.content.decode()
    assert Run.objects.get(pk=run.pk).status == "broken"


def test_last_administrator_cannot_close_the_account(client, admin_user):
    client.force_login(admin_user)
    page = client.post("/account/close/", {"confirmation": "password"})
    assert page.status_code == 422 and "only administrator" in page.content.decode()


def test_menu_of_a_reviewer_leads_to_curation_and_counts_what_waits(client, alice, bob, charlie):
    alice.groups.add(Group.objects.get(name="Reviewers"))
    client.force_login(alice)
    page = client.get("/").content.decode()
    assert 'href="/curate/"' in page and "to review" not in page
    draft = drafts.create_from_form(bob, "vector_sum", "Vector sum")
    Draft.objects.filter(pk=draft.pk).update(state="review")
    assert re.search(r"1\s+to review", client.get("/").content.decode())
    client.force_login(bob)  # who wrote it
    assert "to review" not in client.get("/").content.decode()
    client.force_login(charlie)
    assert "/curate/" not in client.get("/").content.decode()


def test_password_that_an_administrator_sets_revokes_the_tokens(client, alice, admin_user, read_as):
    _, secret = ApiToken.issue(alice, "one", ["read"])
    client.force_login(admin_user)
    form = {"password1": "explorer-42", "password2": "explorer-42", "usable_password": "true"}
    page = client.post(f"/admin/accounts/user/{alice.pk}/password/", form)
    assert page.status_code == 302 and read_as(secret) == 401


def test_password_page_of_the_admin_is_that_of_the_account(client, admin_user):
    client.force_login(admin_user)
    assert client.get("/admin/password_change/").url == "/account/password/"


def test_token_made_in_the_admin_is_in_no_cookie(client, alice, admin_user):
    client.force_login(admin_user)
    form = {"user": alice.pk, "name": "laptop", "scopes": ["read"]}
    made = client.post("/admin/accounts/apitoken/add/", form)
    assert made.status_code == 302 and ApiToken.objects.count() == 1
    page = client.get(made.url)
    (secret,) = re.findall(r"arena_[\w-]{20,}", page.content.decode())
    assert ApiToken.objects.find(secret) is not None
    for cookies in (made.cookies, page.cookies, client.cookies):
        assert "messages" not in cookies and secret not in cookies.output()
    assert secret not in client.get(made.url).content.decode()


def test_run_broken_by_the_arena_is_refunded(client, alice, start):
    run = start(owner=alice)
    assert services.claim_run(run.pk, LEASE)
    services.finish_run(run.pk, LEASE, "broken", "The worker was killed.", "arena")
    assert Run.objects.get().fault == "arena"
    client.force_login(alice)
    assert "1 refunded" in client.get("/account/").content.decode()
