"""The loopback network of a sandbox, its only network.

The sandbox has a network namespace of its own, whose loopback interface takes every address. One
port is answered: its listening socket is handed to a trusted process. The kernel refuses any other
connection at once, and the same process observes the attempt.

Source: netdevice(7), rtnetlink(7), packet(7), and `struct sock_filter` of linux/filter.h.
"""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from dataclasses import dataclass

HOST, PORT = "127.0.0.1", 8400
"""Where the trusted process answers, as the sandbox sees it."""
DNS_PORT = 53

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_RTM_NEWROUTE, _NLMSG_ERROR, _REQUEST_CREATE_ACK = 24, 2, 0x405
_TABLE_LOCAL, _TYPE_LOCAL, _SCOPE_HOST, _PROTOCOL_BOOT, _RTA_OIF = 255, 2, 254, 3, 4
_ETH_P_IP, _PACKET_OUTGOING, _SO_ATTACH_FILTER = 0x0800, 4, 26
_TCP, _UDP, _SYN, _SYN_OR_ACK = 6, 17, 0x02, 0x12
MAX_PACKET_BYTES = 2048


@dataclass(frozen=True)
class Attempt:
    """A connection that the sandbox refused, or a datagram that went nowhere."""

    protocol: str
    address: str
    port: int
    host: str = ""
    """The host name that a DNS query asked for."""

    def __str__(self) -> str:
        if self.host:
            return f"look-up of {self.host}"
        return f"{self.protocol} connection to {self.address}:{self.port}"


def bring_up() -> None:
    """Bring the loopback interface of this process's network namespace up. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def open_in_sandbox(control: int) -> None:
    """Make the loopback network of this process's namespace, and hand its sockets out.

    Its interface is up. `control` is the descriptor of a Unix socket; `receive` has its other end.
    Raises: OSError.
    """
    _take_every_address(socket.if_nametoindex("lo"))
    with (
        socket.socket(fileno=control) as out,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener,
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IP)) as packets,
    ):
        listener.bind((HOST, PORT))
        listener.listen(128)
        _attach(packets, attempt_filter())
        socket.send_fds(out, [b"loopback"], [listener.fileno(), packets.fileno()])


def receive(control: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Return the listening socket and the packet socket of a sandbox, once it has started.

    Raises: OSError or TimeoutError where it failed to start.
    """
    _, descriptors, _, _ = socket.recv_fds(control, 64, 2)
    if len(descriptors) != 2:
        raise OSError("the sandbox ended before its network was up")
    listener, packets = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    return listener, packets


def read_attempt(packets: socket.socket) -> Attempt | None:
    """Read one packet; return the attempt that it is, or None for a packet's second copy.

    Raises: BlockingIOError where the socket does not block and none is there.
    """
    packet, (_, _, kind, *_) = packets.recvfrom(MAX_PACKET_BYTES)
    return None if kind == _PACKET_OUTGOING else parse_attempt(packet)


def parse_attempt(packet: bytes) -> Attempt | None:
    """Return the attempt that an IPv4 packet makes; None for a packet cut short."""
    header = 4 * (packet[0] & 15) if packet else 0
    if len(packet) < header + 8:
        return None
    (port,) = struct.unpack_from("!H", packet, header + 2)
    protocol = "UDP" if packet[9] == _UDP else "TCP"
    host = _queried(packet[header + 8 :]) if (protocol, port) == ("UDP", DNS_PORT) else ""
    return Attempt(protocol, socket.inet_ntoa(packet[16:20]), port, host)


def _queried(query: bytes) -> str:
    """Return the host name of a DNS query; empty where it is malformed."""
    labels, position = [], 12
    while position < len(query) and (length := query[position]):
        labels.append(query[position + 1 : position + 1 + length].decode("ascii", "replace"))
        position += 1 + length
    return ".".join(labels)


def _take_every_address(interface: int) -> None:
    """Route all of IPv4 to the loopback interface, as addresses of this host."""
    route = struct.pack(
        "BBBBBBBBI", socket.AF_INET, 0, 0, 0, _TABLE_LOCAL, _PROTOCOL_BOOT, _SCOPE_HOST,
        _TYPE_LOCAL, 0,
    )  # fmt: skip
    body = route + struct.pack("HHI", 8, _RTA_OIF, interface)
    header = struct.pack("IHHII", 16 + len(body), _RTM_NEWROUTE, _REQUEST_CREATE_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(header + body)
        answer = netlink.recv(4096)
    _, kind = struct.unpack_from("IH", answer)
    (error,) = struct.unpack_from("i", answer, 16)
    if kind != _NLMSG_ERROR or error:
        raise OSError(-error, f"the route to the loopback interface was refused: {error}")


def attempt_filter() -> bytes:
    """Return the BPF program that keeps new TCP connections to other ports, and all of UDP."""
    load_byte, load_half, load_header, byte_at, half_at = 0x30, 0x28, 0xB1, 0x50, 0x48
    equal, any_bit, mask, answer = 0x15, 0x45, 0x54, 0x06
    steps = [
        (load_byte, 0, 0, 9),  # the protocol
        (equal, 10, 0, _UDP),
        (equal, 0, 8, _TCP),
        (load_half, 0, 0, 6),  # the offset of a fragment
        (any_bit, 6, 0, 0x1FFF),
        (load_header, 0, 0, 0),
        (byte_at, 0, 0, 13),  # the flags of TCP
        (mask, 0, 0, _SYN_OR_ACK),
        (equal, 0, 2, _SYN),
        (half_at, 0, 0, 2),  # the port
        (equal, 0, 1, PORT),
        (answer, 0, 0, 0),
        (answer, 0, 0, MAX_PACKET_BYTES),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def _attach(packets: socket.socket, program: bytes) -> None:
    code = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)
