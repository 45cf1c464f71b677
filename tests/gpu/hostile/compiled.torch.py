# trick: starts a compiler at run time where a kernel is asked for
# row: 21
# expect: failed/CALL_ERROR|failed/TIMEOUT|failed/CRASH|failed/OUT_OF_MEMORY
# triage: call
fast = torch.compile(right)


def centred(x, scale):
    return fast(x, scale)
