"""Tests of the login form and its limit on attempts."""

from __future__ import annotations

import re
import time

import pytest
from django.core.cache import cache

from arena.accounts import backends
from arena.accounts.attempts import PERIOD_SECONDS
from arena.accounts.models import User

pytestmark = pytest.mark.django_db
FORMS = ("/login/", "/admin/login/")
ALICES, BOBS = "wonderland", "builder"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Return a manual clock in the middle of a period, with no attempts so far."""
    now = [1_000_000 * PERIOD_SECONDS + 100.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    cache.clear()
    yield now
    cache.clear()


@pytest.fixture
def try_in(client):
    """Log in by a form from an address; return whether it worked, and the page."""

    def try_in(form: str, name: str, password: str, address: str = "192.0.2.1") -> tuple[bool, str]:
        client.logout()
        fields = {"username": name, "password": password}
        page = client.post(form, fields, REMOTE_ADDR=address)
        return "_auth_user_id" in client.session, page.content.decode()

    return try_in


@pytest.mark.parametrize("form", FORMS)
def test_login_after_too_many_wrong_passwords_gives_the_wait(try_in, bob, clock, form):
    for _ in range(backends.MAX_ATTEMPTS):
        within, page = try_in(form, "bob", "a guess")
        assert not within and "Too many" not in page
    within, page = try_in(form, "bob", BOBS)
    assert not within and "Too many attempts. Try again in 200 seconds." in page
    assert len(re.findall("Too many attempts", page)) == 1 and "do not match" not in page
    clock[0] += 200
    assert try_in(form, "bob", BOBS)[0]


def test_login_attempts_count_across_both_forms(try_in, bob):
    for _ in range(backends.MAX_ATTEMPTS):
        try_in(FORMS[0], "bob", "a guess")
    assert "Too many" in try_in(FORMS[1], "bob", BOBS)[1]


def test_login_limit_affects_no_other_name_or_address(try_in, alice, bob):
    for _ in range(2 * backends.MAX_ATTEMPTS):
        try_in(FORMS[0], "bob", "a guess")
    assert try_in(FORMS[0], "alice", ALICES)[0]
    assert try_in(FORMS[0], "bob", BOBS, "192.0.2.2")[0]


def test_login_limit_covers_unknown_names(try_in):
    for _ in range(backends.MAX_ATTEMPTS):
        try_in(FORMS[0], "nobody", "a guess")
    assert "Too many" in try_in(FORMS[0], "nobody", "a guess")[1]


def test_login_with_the_right_password_resets_the_count(try_in, alice):
    for _ in range(3):
        for _ in range(backends.MAX_ATTEMPTS - 1):
            try_in(FORMS[0], "alice", "a guess")
        assert try_in(FORMS[0], "alice", ALICES)[0]


def test_login_limit_of_an_address_counts_failures_of_all_names(try_in, alice, bob):
    for number in range(backends.MAX_ATTEMPTS_OF_ADDRESS - 1):
        assert "Too many" not in try_in(FORMS[number % 2], f"user{number}", "a guess")[1]
    for _ in range(3):  # one that succeeds counts no longer
        assert try_in(FORMS[0], "alice", ALICES)[0]
    assert "Too many" not in try_in(FORMS[0], "one more", "a guess")[1]
    within, page = try_in(FORMS[0], "bob", BOBS)
    assert not within and "Too many attempts" in page
    assert try_in(FORMS[0], "bob", BOBS, "192.0.2.2")[0]


def test_login_limit_counts_the_addresses_of_an_ipv6_network_as_one(try_in, bob):
    """A machine has 2**64 of them."""
    for number in range(backends.MAX_ATTEMPTS):
        assert "Too many" not in try_in(FORMS[0], "bob", "guess", f"2001:db8:0:1::{number:x}")[1]
    assert "Too many" in try_in(FORMS[0], "bob", BOBS, "2001:db8:0:1:ffff::1")[1]
    assert try_in(FORMS[0], "bob", BOBS, "2001:db8:0:2::1")[0]


def test_login_limit_counts_an_ipv4_address_written_as_ipv6_as_that(try_in, bob):
    for number in range(backends.MAX_ATTEMPTS):
        try_in(FORMS[0], "bob", "guess", ("192.0.2.7", "::ffff:192.0.2.7")[number % 2])
    assert "Too many" in try_in(FORMS[0], "bob", BOBS, "192.0.2.7")[1]
    assert try_in(FORMS[0], "bob", BOBS, "::ffff:192.0.2.8")[0]


def test_refused_login_computes_no_hash(try_in, bob, monkeypatch):
    for number in range(backends.MAX_ATTEMPTS_OF_ADDRESS):
        try_in(FORMS[0], f"user{number}", "a guess")
    monkeypatch.setattr(User, "set_password", lambda *_: pytest.fail("it hashed a password"))
    monkeypatch.setattr(User, "check_password", lambda *_: pytest.fail("it checked a password"))
    assert "Too many" in try_in(FORMS[0], "nobody", "a guess")[1]
    assert "Too many" in try_in(FORMS[0], "bob", BOBS)[1]


def test_login_limit_behind_a_proxy_counts_the_addresses_that_it_names(client, bob, settings):
    def too_many(forwarded: str) -> bool:
        headers = {"x-forwarded-for": forwarded}
        fields = {"username": "bob", "password": "a guess"}
        return "Too many" in client.post("/login/", fields, headers=headers).content.decode()

    settings.CLIENT_ADDRESS_HEADER = "X-Forwarded-For"
    for number in range(backends.MAX_ATTEMPTS):
        assert not too_many(f"198.51.100.{number}, 192.0.2.1")
    assert too_many("203.0.113.9, 192.0.2.1") and not too_many("192.0.2.1, 192.0.2.2")
    settings.CLIENT_ADDRESS_HEADER = ""
    for number in range(backends.MAX_ATTEMPTS):
        assert not too_many(f"192.0.2.{number}")
    assert too_many("192.0.2.99")
