"""Tests of the link that signs an owner in once."""

from __future__ import annotations

import datetime
from io import StringIO

import pytest
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.management import call_command

from arena.accounts import sign_in_link
from arena.accounts.models import User

pytestmark = pytest.mark.django_db


def test_link_signs_the_owner_in_and_opens_the_start_page(client):
    page = client.get(sign_in_link.link(), follow=True)
    assert page.redirect_chain == [("/runs/start/", 302)] and page.status_code == 200
    owner = page.wsgi_request.user
    assert owner.username == sign_in_link.OWNER and owner.is_superuser
    assert not owner.has_usable_password()


def test_link_of_an_arena_with_an_administrator_is_for_that_one(client, django_user_model):
    admin = django_user_model.objects.create_superuser("root", password="root")
    assert client.get(sign_in_link.link(), follow=True).wsgi_request.user == admin
    assert User.objects.count() == 1


def test_link_works_once(client):
    link = sign_in_link.link()
    client.get(link)
    client.logout()
    again = client.get(link)
    assert again.status_code == 403 and "no longer valid" in again.content.decode()
    assert "new_sign_in_link --address http://testserver<" in again.content.decode()
    assert "_auth_user_id" not in client.session


def test_link_opened_again_by_its_user_leads_to_the_same_page(client):
    link = sign_in_link.link()
    client.get(link)
    assert client.get(link).url == "/runs/start/"


class Yesterday(PasswordResetTokenGenerator):
    """A generator whose clock is a day and a minute late."""

    key_salt = sign_in_link.tokens.key_salt

    def _now(self):
        return datetime.datetime.now() - datetime.timedelta(days=1, minutes=1)


def test_command_prints_a_link_that_signs_in(client):
    printed = StringIO()
    call_command("new_sign_in_link", address="http://arena.test", stdout=printed)
    link = printed.getvalue().strip()
    assert link.startswith("http://arena.test/sign-in/")
    assert client.get(link.removeprefix("http://arena.test")).url == "/runs/start/"


def test_link_of_yesterday_is_refused(client):
    path = sign_in_link.link()
    owner = User.objects.get(username=sign_in_link.OWNER)
    old = Yesterday().make_token(owner)
    page = client.get(f"/sign-in/{owner.pk}/{old}/")
    assert page.status_code == 403
    assert client.get(path).status_code == 302


@pytest.mark.parametrize("kind", ["another user", "inactive", "forged"])
def test_link_of_no_right_is_refused(client, django_user_model, kind):
    path = sign_in_link.link()
    if kind == "another user":
        other = django_user_model.objects.create_superuser("eve", password="eve")
        path = path.replace(f"/{User.objects.get(username='owner').pk}/", f"/{other.pk}/")
    elif kind == "inactive":
        User.objects.update(is_active=False)
    else:
        path = f"{path[:-3]}{'a' if path[-3] != 'a' else 'b'}{path[-2:]}"
    assert client.get(path).status_code == 403
