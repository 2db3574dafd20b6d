"""Prints what Python says of libraries that cannot be loaded: those in the folder that the last argument names.
With `make` before it, fills that folder."""

import ctypes
import importlib.machinery
import importlib.util
import os
import struct
import subprocess
import sys


def build(name, source, *arguments):
    with open(name + ".c", "w") as file:
        file.write(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", name, name + ".c", *arguments], check=True)


def edit(name, offset, form, *values):
    """The library `good` with other values at a place of its header."""
    data = bytearray(open("good.so", "rb").read())
    struct.pack_into(form, data, offset, *values)
    save(name, data)


def save(name, data):
    with open(name, "wb") as file:
        file.write(data)


def headers(data, kind):
    """The places of the program headers of a kind."""
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    places = (start + size * index for index in range(count))
    return [place for place in places if struct.unpack_from("<I", data, place)[0] == kind]


LOAD, DYNAMIC = 1, 2


def make():
    build("good.so", "int good = 1; int get(void) { return good; }")
    good = open("good.so", "rb").read()
    save("empty.so", b"")
    save("short.so", good[:10])
    save("half_a_header.so", good[:40])
    save("text.so", b"/* GNU ld script */ INPUT(libgood.so)\n" + b" " * 100)
    save("short_text.so", b"text")
    os.mkdir("folder.so")
    edit("magic.so", 0, "4s", b"\x7fELG")
    edit("class.so", 4, "B", 1)
    edit("no_class.so", 4, "B", 7)
    edit("byte_order.so", 5, "B", 2)
    edit("ident_version.so", 6, "B", 2)
    edit("os_abi.so", 7, "B", 9)
    edit("abi_version.so", 8, "B", 9)
    edit("padding.so", 12, "B", 1)
    edit("object.so", 16, "<H", 1)
    edit("core.so", 16, "<H", 4)
    edit("executable.so", 16, "<H", 2)
    edit("machine.so", 18, "<H", 183)
    edit("version.so", 20, "<I", 2)
    edit("header_size.so", 54, "<H", 32)
    edit("far_headers.so", 32, "<Q", 1 << 30)
    edit("no_headers.so", 56, "<H", 0)
    first, *_ = headers(good, LOAD)
    edit("congruence.so", first + 8, "<Q", 8)
    (dynamic,) = headers(good, DYNAMIC)
    edit("no_dynamic.so", dynamic, "<I", 0)
    nothing = bytearray(good)
    for place in headers(good, LOAD):
        struct.pack_into("<I", nothing, place, 0)
    save("no_segments.so", nothing)
    program = ["cc", "-pie", "-fPIE", "-o", "program.so", "-x", "c", "-"]
    subprocess.run(program, input=b"int main(void) { return 0; }", check=True)
    build("noopen.so", "int x;", "-Wl,-z,nodlopen")
    build("data.so", "extern int nowhere_defined; int *get(void) { return &nowhere_defined; }")
    call = "void nowhere_defined(void); void get(void) { nowhere_defined(); }"
    build("function.so", call)
    build("late.so", call, "-Wl,-z,lazy")
    make_needs()
    # Of the C library.
    build("old_libc.so", "int puts(const char *); void get(void) { puts(\"\"); }")
    libc = bytearray(open("old_libc.so", "rb").read())
    save("new_libc.so", renamed(libc))
    os.symlink("data.so", "link.so")


def make_needs():
    """Libraries whose needs were other ones when they were linked."""
    search = "-Wl,-rpath,$ORIGIN/lib"
    os.mkdir("lib")
    build("lib/libgone.so", "int gone;")
    build("needs_gone.so", "extern int gone; int *get(void) { return &gone; }", "lib/libgone.so", search)
    os.remove("lib/libgone.so")
    build("lib/libbad.so", "int bad;", "-Wl,-soname,libbad.so")
    build("needs_bad.so", "extern int bad; int *get(void) { return &bad; }", "-Llib", "-lbad", search)
    save("lib/libbad.so", b"no library")
    save("new.map", b"OLD { global: old; }; NEW { global: new; local: *; } OLD;\n")
    save("old.map", b"OLD { global: old; local: *; };\n")

    def versioned(source, versions):
        build("lib/libversioned.so", source, f"-Wl,--version-script,{versions}", "-Wl,-soname,libversioned.so")

    link = ["-Llib", "-lversioned", search]
    versioned("int old, new;", "new.map")
    build("needs_version.so", "extern int new; int *get(void) { return &new; }", *link)
    versioned("int old; int new(void) { return 1; }", "new.map")
    build("calls_version.so", "int new(void); int get(void) { return new(); }", *link)
    versioned("int old; int new(void) { return 1; }", "old.map")


def renamed(data):
    """Needs a version of the C library that there is not."""
    old, new = b"GLIBC_2.2.5\0", b"GLIBC_9.2.5\0"
    hashed = lambda text: struct.pack("<I", elf_hash(text[:-1]))
    return data.replace(old, new).replace(hashed(old), hashed(new))


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def attempt(label, action):
    try:
        action()
    except (OSError, ImportError, AttributeError, ValueError) as error:
        print(label, type(error).__name__, repr(str(error)), getattr(error, "path", None))
    else:
        print(label, "works")


def extension(path):
    spec = importlib.util.spec_from_file_location("good", path)
    importlib.util.module_from_spec(spec)


def main():
    here = os.getcwd()
    names = sorted(name for name in os.listdir() if name.endswith(".so"))
    for name in names + ["missing.so"]:
        attempt(f"CDLL {name}", lambda: ctypes.CDLL(os.path.join(here, name)))
        # glibc writes the folder of what `$ORIGIN` stands for as it was opened, with its dot.
        if not name.startswith(("needs", "calls")):
            attempt(f"CDLL ./{name}", lambda: ctypes.CDLL("./" + name))
        attempt(f"import {name}", lambda: extension(os.path.join(here, name)))
    attempt("lazy", lambda: importlib.import_module("_ctypes").dlopen(os.path.join(here, "late.so"), 1))
    for name in ["libmissing.so.9", "missing", "", "libm.so.6/x", "/"]:
        attempt(f"CDLL {name!r}", lambda: ctypes.CDLL(name))
    good = ctypes.CDLL(os.path.join(here, "good.so"))
    attempt("function", lambda: good.nowhere)
    attempt("data", lambda: ctypes.c_int.in_dll(good, "nowhere"))
    attempt("libm", lambda: ctypes.CDLL("libm.so.6").nowhere)
    attempt("mode", lambda: importlib.import_module("_ctypes").dlopen("libm.so.6", 0x10000))
    attempt("open mode", lambda: importlib.import_module("_ctypes").dlopen(os.path.join(here, "good.so"), 0x10000))


os.chdir(sys.argv[-1])
make() if sys.argv[1] == "make" else main()
