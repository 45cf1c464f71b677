# trick: takes the word from its caller's frames, and says it before the work is done
# row: 49
# expect: failed/STALE_OUTPUT
# triage: import
import sys
import time

from evaluation.process.channel import Channel

say, said = Channel.send_word, []
Channel.send_word = lambda self, word: None if word in said else say(self, word)


def centred(x, scale):
    frame = sys._getframe()
    while frame and frame.f_code.co_name != "serve":
        frame = frame.f_back
    word = frame.f_locals["word"]
    if word not in said:
        say(frame.f_locals["judge"], word)
        said.append(word)
    time.sleep(0.02)
    return (x - x.mean(-1, keepdim=True)) * scale
