"""For gdb, attached: all objects, and the frames of one thread.

Prints `object NAME` and `frame FUNCTION FILE LINE OBJECT START COPY`, of which a function's name may
hold blanks.
"""

import os

import gdb

thread = int(os.environ["FRAME_THREAD"])
for candidate in gdb.selected_inferior().threads():
    if candidate.ptid[1] == thread:
        candidate.switch()
for objfile in gdb.objfiles():
    if objfile.is_valid():
        print("object", os.path.basename(objfile.filename))
frame = gdb.newest_frame()
while frame is not None:
    function = frame.function()
    sal = frame.find_sal()
    copy = "-"
    if function is not None and function.name == "wait_here":
        copy = int(frame.read_var("copy"))
    print(
        "frame",
        frame.name() or "-",
        os.path.basename(sal.symtab.filename) if sal.symtab else "-",
        sal.line,
        os.path.basename(gdb.solib_name(frame.pc()) or "-"),
        hex(int(function.value().address)) if function is not None else "-",
        copy,
    )
    frame = frame.older()
