# trick: starts a compiler at run time, beside an extension, with which no right to that goes
# row: 21
# expect: failed/CALL_ERROR|failed/TIMEOUT|failed/CRASH|failed/OUT_OF_MEMORY
# triage: unsupported
from torch.utils.cpp_extension import load_inline  # noqa: F401 - to name it is to bring one

fast = torch.compile(right)


def centred(x, scale):
    return fast(x, scale)
