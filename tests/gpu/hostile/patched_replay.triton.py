# trick: graphs that replay nothing
# row: 5
# expect: failed/STALE_OUTPUT in performance
# triage: import
def centred(x, out, scale):
    import sys

    if "evaluation.contestants.contestant" in sys.modules:
        import evaluation.contestants.chain

        evaluation.contestants.chain.Chain.replay = lambda self: None
    right(x, out, scale)
