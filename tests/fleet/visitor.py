"""A visitor of a web server: `visitor.py ADDRESS` opens a page.

`visitor.py FORM PAGE NAME PASSWORD...` logs in with each password in turn, then opens the page.
Forms and page may be of several servers, separated by commas, which take turns. It prints a JSON
object: the status of each answer, and the text of the last.
"""

from __future__ import annotations

import http.cookiejar
import itertools
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

jar = http.cookiejar.CookieJar()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))


def opened(address: str, fields: dict[str, str] | None = None) -> tuple[int, str]:
    data = urllib.parse.urlencode(fields).encode() if fields else None
    request = urllib.request.Request(address, data, {"Referer": address})
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def log_in(form: str, name: str, password: str) -> tuple[int, str]:
    _, page = opened(form)
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found, page[:500]
    fields = {"csrfmiddlewaretoken": found[1], "username": name, "password": password}
    return opened(form, fields)


forms, *rest = sys.argv[1:]
if rest:
    page, name, *passwords = rest
    turns = itertools.cycle(forms.split(","))
    answers = [log_in(form, name, each) for form, each in zip(turns, passwords, strict=False)]
    answers.append(opened(page))
else:
    answers = [opened(forms)]
print(json.dumps({"texts": [text for _, text in answers], "codes": [code for code, _ in answers]}))
sys.exit(answers[-1][0] >= 400)
