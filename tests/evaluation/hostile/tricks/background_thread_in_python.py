# trick: returns memory that a thread fills later
# row: 2
# expect: failed/WRONG_VALUES|failed/NON_FINITE|failed/STALE_OUTPUT
# triage: import
import threading
import time

import torch


def centred(x, scale):
    out = torch.full_like(x, 0.5)

    def later():
        time.sleep(0.005)
        out.copy_((x - x.mean(-1, keepdim=True)) * scale)

    threading.Thread(target=later, daemon=True).start()
    return out
