# Children of several programs of one process: each program waits for its own, in all ways that Python has.
import asyncio, multiprocessing, os, signal, subprocess, sys, threading, warnings

warnings.simplefilter("ignore")
COPY = int(os.environ.get("HYDROZOA_COPY", "0"))
STATUS = 11 + COPY


def child(status=STATUS):
    pid = os.fork()
    if pid == 0:
        os._exit(status)
    return pid


def code(status):
    return os.waitstatus_to_exitcode(status)


def by_wait():
    pid = child()
    return (pid, STATUS) == (lambda found, status: (found, code(status)))(*os.wait())


def by_group():
    pid = child()
    found, status = os.waitpid(0, 0)
    return (found, code(status)) == (pid, STATUS)


def by_wait3_and_wait4():
    pid = child()
    found, status, usage = os.wait3(0)
    other = child()
    found2, status2, usage2 = os.wait4(-1, 0)
    return (found, code(status), found2, code(status2)) == (pid, STATUS, other, STATUS) and usage2.ru_maxrss > 0


def by_kind():
    pid = child()
    seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    taken = os.waitid(os.P_PIDFD, os.pidfd_open(pid), os.WEXITED)
    return (seen.si_pid, seen.si_status, taken.si_pid, taken.si_status) == (pid, STATUS, pid, STATUS)


def none_left():
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True


def reaped_by_another_thread():
    """A failure stays one while others wait for any child."""
    shell = subprocess.Popen(["sh", "-c", f"exit {STATUS}"])
    return shell.wait() == STATUS


def made_by_shell():
    return code(os.system(f"exit {STATUS}")) == STATUS and os.popen(f"exit {STATUS}").close() == STATUS << 8


def spawned():
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"exit {STATUS}"], os.environ)
    other = os.spawnlp(os.P_NOWAIT, "sh", "sh", "-c", f"exit {STATUS}")
    found = dict(os.wait() for _ in range(2))
    return {pid: STATUS, other: STATUS} == {pid: code(status) for pid, status in found.items()}


def with_terminal():
    pid, terminal = os.forkpty()
    if pid == 0:
        os._exit(STATUS)
    found, status = os.wait()
    os.close(terminal)
    return (found, code(status)) == (pid, STATUS)


def in_processes():
    processes = [multiprocessing.get_context("fork").Process(target=os._exit, args=(STATUS,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes] == [STATUS] * 3


def by_alarm():
    """A signal handler ends a wait by an exception."""

    class Late(Exception):
        pass

    def late(number, frame):
        raise Late

    # Other programs' children inherit the pipe, so its end tells nothing.
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.read(reading, 1)
        os._exit(STATUS)
    signal.signal(signal.SIGUSR1, late)
    timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGUSR1))
    try:
        timer.start()
        os.wait()
        return False
    except Late:
        os.write(writing, b"x")
        status = code(os.wait()[1])
        os.close(writing), os.close(reading)
        return status == STATUS


def watched():
    """asyncio's watchers of children: two wait for any child by SIGCHLD, others by a thread or a descriptor."""
    names = ["SafeChildWatcher", "FastChildWatcher", "ThreadedChildWatcher", "PidfdChildWatcher", None]
    results = []
    for name in names:
        if name and not hasattr(asyncio, name):
            continue

        async def main():
            if name:
                watcher = getattr(asyncio, name)()
                if hasattr(watcher, "attach_loop"):
                    watcher.attach_loop(asyncio.get_running_loop())
                asyncio.set_child_watcher(watcher)
            shells = [await asyncio.create_subprocess_exec("sh", "-c", f"exit {STATUS}") for _ in range(3)]
            codes = await asyncio.gather(*(shell.wait() for shell in shells))
            if name:
                asyncio.set_child_watcher(None)
                watcher.close()
            return codes

        results.append(asyncio.run(main()) == [STATUS] * 3)
    return all(results)


def ignored():
    """A program's ignored signals are its own: odd copies ignore the ends of their children."""
    for _ in range(5):
        if COPY % 2:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            pids = [child() for _ in range(3)]
            try:
                os.wait()
                return "a status"
            except ChildProcessError:
                pass
            if any(os.path.exists(f"/proc/{pid}/fd/0") for pid in pids):
                return "a child"
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        elif not (by_wait() and reaped_by_another_thread()):
            return "no status"
    return True


def in_a_child():
    """A forked child has no children, and its own are its own."""
    reading, writing = os.pipe()
    first = os.fork()
    if first == 0:
        os.read(reading, 1)
        os._exit(0)
    second = os.fork()
    if second == 0:
        try:
            os._exit(0 if none_left() is True and by_wait() and by_kind() else 1)
        finally:
            os._exit(2)
    result = code(os.waitpid(second, 0)[1])
    os.write(writing, b"x")
    last = os.wait()[0]
    os.close(writing), os.close(reading)
    return (result, last) == (0, first)


TRIALS = [
    by_wait, by_group, by_wait3_and_wait4, by_kind, reaped_by_another_thread, made_by_shell, spawned, with_terminal,
    in_processes, by_alarm, watched, ignored, in_a_child,
]
wrong = []
for trial in TRIALS:
    for _ in range(4 if trial not in (watched, ignored) else 1):
        try:
            results = [trial(), none_left()]
        except Exception as error:
            results = [repr(error)]
        if results != [True, True]:
            wrong.append(f"{trial.__name__}: {results}")
os.write(1, f"wrong: {wrong}\n".encode())
