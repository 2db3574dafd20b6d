"""Attributes, methods and properties of objects: a scheduler, after the benchmark Richards."""

from kernels.tasks import Device, Packet, Task, Worker

STEPS = 40_000


class Scheduler:
    def __init__(self, tasks: list[Task]):
        self.tasks = tasks
        self.at = 0
        self.skipped = 0

    def next(self):
        while True:
            self.at = (self.at + 1) % len(self.tasks)
            task = self.tasks[self.at]
            if task.is_ready:
                return task
            self.skipped += 1


def run():
    tasks = [Device(number, 7, number) if number % 3 == 0 else Worker(number, number) for number in range(7)]
    for number in range(12):
        tasks[number % 7].put(Packet(number % 7, number % 2, number))
    scheduler = Scheduler(tasks)
    for _ in range(STEPS):
        scheduler.next().run(tasks)
    return repr((scheduler.skipped, [(task.handled, len(task.queue)) for task in tasks]))
