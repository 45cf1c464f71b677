# trick: unlinks the launches of a window from one another, and each waits a little before it works
# row: 7
# expect: failed/FORBIDDEN in performance
# triage: import
def centred(x, out, scale):
    import ctypes
    import sys

    if "evaluation.sandboxed.runner" in sys.modules:
        from evaluation.sandboxed.cuda_graph import SerialLaunches

        SerialLaunches._dependencies = lambda self: (None, ctypes.c_size_t(0))
        torch.cuda._sleep(20_000)
    right(x, out, scale)
