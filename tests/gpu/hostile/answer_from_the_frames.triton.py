# trick: takes the link from its caller's frames and answers before it launches
# row: 49
# expect: failed/STALE_OUTPUT|failed/PROTOCOL
# triage: import
def centred(x, out, scale):
    import sys
    import time

    frame = sys._getframe()
    while frame and frame.f_code.co_name != "serve":
        frame = frame.f_back
    if frame:
        request = frame.f_locals["request"]
        frame.f_locals["judge"].send({"echo": request["nonce"], "reason": None})
        time.sleep(0.02)
    right(x, out, scale)
