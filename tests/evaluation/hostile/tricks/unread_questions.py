# trick: looks at what it is told and leaves it unread, until there is no room for more
# row: 49
# expect: failed/PROTOCOL
# triage: import
import gc
import socket


class Peeking:
    def __init__(self, real):
        self.real = real
        real.setsockopt(socket.SOL_SOCKET, 42, 0)  # SO_PEEK_OFF: each look goes on where one ended

    def recvmsg(self, size, room):
        return self.real.recvmsg(size, room, socket.MSG_PEEK)

    def __getattr__(self, name):
        return getattr(self.real, name)


for thing in gc.get_objects():
    if type(thing).__name__ == "Channel" and thing.fileno() >= 0:
        thing.socket = Peeking(thing.socket)


def centred(x, scale):
    return (x - x.mean(-1, keepdim=True)) * scale
