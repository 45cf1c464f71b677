# trick: graphs that replay nothing
# row: 5
# expect: failed/STALE_OUTPUT in performance
# triage: patching
torch.cuda.CUDAGraph.replay = lambda self: None


def centred(x, out, scale):
    right(x, out, scale)
