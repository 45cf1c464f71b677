"""Files of a submission that no gate takes."""

from __future__ import annotations

import pytest

from evaluation.errors import SubmissionError
from evaluation.judge.request import check_files
from evaluation.types import Reason


@pytest.mark.parametrize("character", ["\0", "\ufffd", chr(0xD800)])
def test_text_that_no_utf_8_file_holds_is_refused(character: str) -> None:
    with pytest.raises(SubmissionError, match=r"a\.cpp is not UTF-8 text") as caught:
        check_files({"a.cpp": f"// {character}"}, "a.cpp")
    assert caught.value.reason is Reason.BAD_SOURCE
