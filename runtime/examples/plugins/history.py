"""Counts events."""

events = []


def handle(event):
    events.append(event)
    log(f"{len(events)} so far")
    return f"{event} is event {len(events)}"
