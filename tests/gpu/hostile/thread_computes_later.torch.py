# trick: returns an empty tensor, which a thread fills when the answer is given
# row: 2
# expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT|failed/FORBIDDEN
# triage: import
import threading
import time


def centred(x, scale):
    out = torch.empty_like(x)

    def later():
        time.sleep(0.002)
        out.copy_(right(x, scale))

    threading.Thread(target=later).start()
    return out
