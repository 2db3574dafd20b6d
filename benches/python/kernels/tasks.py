"""Tasks of a small operating system, for `objects`."""


class Packet:
    def __init__(self, target, kind, data):
        self.target = target
        self.kind = kind
        self.data = data
        self.hops = 0


class Task:
    def __init__(self, number, priority):
        self.number = number
        self.priority = priority
        self.queue = []
        self.handled = 0
        self.is_held = False

    def put(self, packet):
        packet.hops += 1
        self.queue.append(packet)

    @property
    def is_ready(self):
        return not self.is_held and bool(self.queue)

    def run(self, tasks):
        packet = self.queue.pop()
        self.handled += 1
        self.handle(packet, tasks)

    def handle(self, packet, tasks):
        raise NotImplementedError


class Worker(Task):
    def handle(self, packet, tasks):
        packet.target = (packet.target * 5 + self.number + self.handled) % len(tasks)
        tasks[packet.target].put(packet)


class Device(Task):
    def __init__(self, number, priority, delay):
        super().__init__(number, priority)
        self.delay = delay
        self.waited = 0

    def handle(self, packet, tasks):
        self.waited += self.delay
        if packet.kind == 0:
            packet.kind = 1
        packet.target = (self.number + 1) % len(tasks)
        tasks[packet.target].put(packet)
