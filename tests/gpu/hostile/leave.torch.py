# trick: ends the interpreter with the code of success
# row: 49
# expect: failed/CRASH
# triage: import
import os


def centred(x, scale):
    os._exit(0)
