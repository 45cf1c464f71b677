# trick: takes the link from its caller's frames and answers before the work is done
# row: 49
# expect: failed/STALE_OUTPUT|failed/PROTOCOL
# triage: import
import sys
import time


def centred(x, scale):
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "serve":
        frame = frame.f_back
    request = frame.f_locals["request"]
    frame.f_locals["judge"].send({"echo": request["nonce"], "reason": None})
    time.sleep(0.02)
    return (x - x.mean(-1, keepdim=True)) * scale
