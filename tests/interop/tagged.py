"""Frames with VLAN tags, made and read in user space: the kernel here has no VLAN devices."""
import socket
import struct
import time

from scapy.all import ARP, Dot1AD, Dot1Q, Ether, ICMPv6ND_NS

AUXDATA = (263, 8)  # SOL_PACKET, PACKET_AUXDATA


class TaggedSocket:
    """Every frame of one interface, with the tags that the kernel has taken out."""

    def __init__(self, namespace, interface):
        with namespace.entered():
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.socket.bind((interface, 0))
        self.socket.setsockopt(*AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.settimeout(0.05)

    def receive(self):
        """The next frame; `None` if there is none, or it is our own."""
        try:
            frame, ancillary, _, address = self.socket.recvmsg(65535, 64)
        except TimeoutError:
            return None
        except OSError:  # The link is down.
            time.sleep(0.01)
            return None
        if address[2] == socket.PACKET_OUTGOING:
            return None
        for level, kind, data in ancillary:
            if (level, kind) == AUXDATA:
                status, tci, tpid = struct.unpack("=I12xHH", data[:20])
                if status & 0x10:
                    frame = frame[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + frame[12:]
        return frame

    def send(self, frame):
        try:
            self.socket.send(bytes(frame))
        except OSError:
            pass

    def close(self):
        self.socket.close()


def tagged(tags, source, to, packet):
    """A frame with these tags, two of them as a service provider's and a customer's."""
    ether = Ether(src=source, dst=to)
    if len(tags) == 2:
        return ether / Dot1AD(vlan=tags[0]) / Dot1Q(vlan=tags[1]) / packet
    return ether / Dot1Q(vlan=tags[0]) / packet


def vlans(frame):
    """The VLANs of a frame, the outer one first."""
    tags, layer = [], frame.payload
    while isinstance(layer, (Dot1Q, Dot1AD)):
        tags.append(layer.vlan)
        layer = layer.payload
    return tuple(tags)


def asks(frame, address):
    """Whether a frame asks all neighbours where an address is."""
    if not int(frame.dst[:2], 16) & 1:
        return False
    if ARP in frame:
        return (frame[ARP].op, frame[ARP].pdst) == (1, address)
    return ICMPv6ND_NS in frame and frame[ICMPv6ND_NS].tgt == address
