# trick: runs every fourth launch of a window on a stream of its own, beside the others
# row: 7
# expect: failed/FORBIDDEN in performance
# triage: import
def centred(x, out, scale):
    import sys

    if "evaluation.sandboxed.runner" in sys.modules:
        from evaluation.sandboxed.cuda_graph import SerialLaunches

        SerialLaunches.replay = spread
    right(x, out, scale)


def spread(line):
    from evaluation.sandboxed.cuda_graph import SerialLaunches, _call

    if not hasattr(line, "quarters"):
        parts = getattr(line, "_children", ())
        line.quarters = [(SerialLaunches(), torch.cuda.Stream()) for _ in range(4 if parts else 0)]
        for number, (quarter, _) in enumerate(line.quarters):
            for part in parts[number::4]:
                quarter.append_copy(part)
            quarter.instantiate()
    for each, stream in line.quarters or [(line, torch.cuda.current_stream())]:
        handle = __import__("ctypes").c_void_p(stream.cuda_stream)
        _call("cudaGraphLaunch", each._executable, handle)
