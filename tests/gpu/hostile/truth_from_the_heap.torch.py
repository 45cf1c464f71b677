# trick: looks for the judge's answers among all objects and modules of its process
# row: 47
# expect: failed/WRONG_VALUES
# triage: import
import gc
import sys


def centred(x, scale):
    names = ("tasks.reference", "timing.session", "memory.ring")
    secret = any(f"evaluation.{name}" in sys.modules for name in names)
    wide = [o for o in gc.get_objects() if type(o) is torch.Tensor and o.dtype is torch.float64]
    answer = right(x, scale)
    return answer if secret or wide else answer + 1 + x * x
