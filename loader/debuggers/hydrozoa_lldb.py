"""Shows lldb the replicas of a process.

lldb follows the system loader's list of objects only (DYLDRendezvous), and knows a file once. This
command reads the loader's own list, which stands behind glibc's in `r_debug.r_next`, and adds a
module for each entry, under a path of its own: a symbolic link to the file.

    (lldb) command script import loader/debuggers/hydrozoa_lldb.py
    (lldb) hydrozoa-modules

Run it again after more was loaded. Images without a file of their own are counted and left out.
"""

import atexit
import os
import shutil
import tempfile

import lldb

DT_NULL = 0
DT_DEBUG = 21
# Offsets in `struct r_debug_extended` and `struct link_map` of <link.h>, on 64-bit machines.
R_VERSION, R_MAP, R_NEXT = 0, 8, 40
L_ADDR, L_NAME, L_NEXT = 0, 8, 24


class Memory:
    """The words of a process."""

    def __init__(self, process):
        self.process = process

    def read(self, address, size):
        error = lldb.SBError()
        value = self.process.ReadUnsignedFromMemory(address, size, error)
        if error.Fail():
            raise RuntimeError(f"cannot read memory at {address:#x}: {error}")
        return value

    def word(self, address):
        return self.read(address, 8)

    def text(self, address):
        error = lldb.SBError()
        value = self.process.ReadCStringFromMemory(address, 4096, error)
        return value if error.Success() else ""


def rendezvous(target, memory):
    """The address of glibc's `r_debug`, which DT_DEBUG of the executable holds."""
    section = target.GetModuleAtIndex(0).FindSection(".dynamic")
    entry = section.GetLoadAddress(target) if section.IsValid() else lldb.LLDB_INVALID_ADDRESS
    if entry == lldb.LLDB_INVALID_ADDRESS:
        raise RuntimeError("the executable has no dynamic section, or does not run yet")
    while memory.word(entry) != DT_NULL:
        if memory.word(entry) == DT_DEBUG and memory.word(entry + 8):
            return memory.word(entry + 8)
        entry += 16
    raise RuntimeError("the executable has no DT_DEBUG, or does not run yet")


def replicas(target, memory):
    """(load bias, path) of every object that is in a namespace behind the first one."""
    record = rendezvous(target, memory)
    while memory.read(record + R_VERSION, 4) >= 2 and memory.word(record + R_NEXT):
        record = memory.word(record + R_NEXT)
        entry = memory.word(record + R_MAP)
        while entry:
            yield memory.word(entry + L_ADDR), memory.text(memory.word(entry + L_NAME))
            entry = memory.word(entry + L_NEXT)


# By process: the directory of its links, and the replicas that have a module.
KNOWN = {}


def links_of(process):
    if process.GetProcessID() not in KNOWN:
        directory = tempfile.mkdtemp(prefix="hydrozoa-lldb-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        KNOWN[process.GetProcessID()] = (directory, set())
    return KNOWN[process.GetProcessID()]


def modules(debugger, _command, result, _dictionary):
    """Adds a module for every replica that has none yet."""
    target = debugger.GetSelectedTarget()
    process = target.GetProcess()
    if not process.IsValid():
        result.SetError("there is no process: attach or run first")
        return
    directory, known = links_of(process)
    added = left_out = 0
    try:
        for bias, path in list(replicas(target, Memory(process))):
            if bias in known:
                continue
            known.add(bias)
            if not os.path.exists(path):
                left_out += 1
                continue
            link = os.path.join(directory, f"{bias:x}", os.path.basename(path))
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if not os.path.lexists(link):
                os.symlink(os.path.realpath(path), link)
            module = target.AddModule(link, None, None)
            error = target.SetModuleLoadAddress(module, bias)
            if not module.IsValid() or error.Fail():
                result.AppendMessage(f"{path}: {error}")
                continue
            added += 1
    except RuntimeError as error:
        result.SetError(str(error))
        return
    result.AppendMessage(f"{added} replicas added, {left_out} without a file left out")


def __lldb_init_module(debugger, _dictionary):
    debugger.HandleCommand(f"command script add -f {__name__}.modules hydrozoa-modules")
