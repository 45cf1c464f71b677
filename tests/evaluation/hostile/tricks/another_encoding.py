# coding: raw_unicode_escape
# trick: a comment to whoever reads UTF-8 is code to whoever imports the file \u000aimport os
# row: 49
# expect: failed/CRASH
# triage: encoding
def centred(x, scale):
    # \u000a    os._exit(7)
    return (x - x.mean(-1, keepdim=True)) * scale
