# trick: says that the judge is at fault
# row: 49
# expect: failed/JUDGE_ERROR|failed/CALL_ERROR
# triage: unsupported
from evaluation.errors import SubmissionError
from evaluation.types import Reason


def centred(x, scale):
    raise SubmissionError(Reason.JUDGE_ERROR, "the judge failed, not the submission")
