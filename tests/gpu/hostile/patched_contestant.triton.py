# trick: patches the loop it runs in: every request to run is answered, none is carried out
# row: 45
# expect: failed/STALE_OUTPUT
# triage: import
def centred(x, out, scale):
    import sys

    contestant = sys.modules.get("evaluation.sandboxed.runner")
    if contestant:
        contestant.KernelRunner.do_run = lambda self, request, descriptors: None
    right(x, out, scale)
