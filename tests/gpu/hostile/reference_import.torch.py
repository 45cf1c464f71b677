# trick: has the reference answer
# row: 44
# expect: failed/CALL_ERROR
# triage: import
import runpy

reference = runpy.run_path("@TASKS@/centred/reference.py")["reference"]


def centred(x, scale):
    return reference(x, scale)
