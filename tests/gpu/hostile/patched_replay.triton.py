# trick: graphs that replay nothing
# row: 5
# expect: failed/STALE_OUTPUT in performance
# triage: import
def centred(x, out, scale):
    import sys

    if "evaluation.sandboxed.runner" in sys.modules:
        import evaluation.sandboxed.cuda_graph

        evaluation.sandboxed.cuda_graph.SerialGraph.replay = lambda self: None
    right(x, out, scale)
