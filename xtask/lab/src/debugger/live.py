"""For gdb, which starts the program: a breakpoint that stops one replica, steps and variables.

Prints `met COPY` for each replica, `stopped COPY VISITS THEN` for each stop at the breakpoint.
"""

import os

import gdb

copies = int(os.environ["FRAME_COPIES"])
chosen = int(os.environ["FRAME_COPY"])
lines = open(os.environ["FRAME_SOURCE"]).read().splitlines()
line_of = {word: number for number, text in enumerate(lines, 1) for word in ("meets", "visits")
           if text.endswith(f"/* {word} */")}

gdb.execute("set breakpoint pending on")
# Pending until the first replica is there; a location more with each further one.
meeting = gdb.Breakpoint(f"frame.c:{line_of['meets']}")
gdb.execute("run")
addresses = {}
while True:
    frame = gdb.selected_frame()
    copy = int(frame.read_var("copy"))
    addresses[copy] = frame.pc()
    print("met", copy)
    if len(addresses) == copies:
        break
    gdb.execute("continue")
meeting.delete()

# One location in each replica, of which the others are switched off: by hand, `disable 2.1`.
visiting = gdb.Breakpoint(f"frame.c:{line_of['visits']}")
nearest = min(visiting.locations, key=lambda location: abs(location.address - addresses[chosen]))
assert len(visiting.locations) == copies, visiting.locations
for location in visiting.locations:
    location.enabled = location.address == nearest.address
for _ in range(5):
    gdb.execute("continue")
    frame = gdb.selected_frame()
    copy, before = int(frame.read_var("copy")), int(gdb.parse_and_eval("visits"))
    gdb.execute("next")
    print("stopped", copy, before, int(gdb.parse_and_eval("visits")))
gdb.execute("kill")
