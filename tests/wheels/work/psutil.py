"""this process, its threads and files, the machine's processors, a missing process"""

import os
import threading

import psutil


def work(tell):
    process = psutil.Process()
    tell("pid", process.pid == os.getpid())
    tell("executable", bool(process.exe()))
    thread_ids = {thread.id for thread in process.threads()}
    tell("thread", threading.get_native_id() in thread_ids)
    with open(os.devnull) as file:
        tell("descriptors", process.num_fds() > file.fileno())
    tell("memory", process.memory_info().rss > 1 << 20)
    tell("mappings", any("psutil" in mapping.path for mapping in process.memory_maps()))
    tell("processors", psutil.cpu_count() == os.cpu_count())
    tell("disk", psutil.disk_usage("/").total > 0)
    tell("interfaces", "lo" in psutil.net_if_addrs())
    try:
        psutil.Process(2**22 + 1)
    except psutil.NoSuchProcess as error:
        tell("error", str(error))
