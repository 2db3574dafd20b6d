"""Objects pickled and loaded."""

import pickle

from kernels.tasks import Packet
from kernels.words import words


def run():
    packets = [Packet(number % 7, number % 3, tuple(words(number, 4))) for number in range(600)]
    for _ in range(9):
        packets = pickle.loads(pickle.dumps(packets, protocol=5))
    return repr([(packet.kind, packet.target, packet.data) for packet in packets[::100]])
