# Programs that count in one file under record locks, of several kinds. The folder of the file is the first argument.
import fcntl, os, struct, subprocess, sys, time

path = os.path.join(sys.argv[1], "count")
COPY = os.environ.get("HYDROZOA_COPY", "0")
WHOLE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def wait(file):
    fcntl.lockf(file, fcntl.LOCK_EX)


def try_again(file):
    while True:
        try:
            return fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(0.0005)


def by_position(file):
    os.lockf(file.fileno(), os.F_LOCK, 0)


def by_bytes(file):
    fcntl.fcntl(file, fcntl.F_SETLKW, WHOLE)


ways = [wait, try_again, by_position, by_bytes]
other = None
if COPY == "1" and len(sys.argv) < 3:
    environment = {name: text for name, text in os.environ.items() if name != "HYDROZOA_COPY"}
    other = subprocess.Popen([sys.executable, __file__, sys.argv[1], "other"], env=environment)
for number in range(80):
    with open(path, "r+") as file:
        ways[number % 4](file)
        count = int(file.read() or 0)
        time.sleep(0.0002)
        file.seek(0)
        file.write(str(count + 1))
        file.flush()
        if number % 16 == 0:
            # A child has no lock, and the end of its descriptors is not the end of this program's.
            child = os.fork()
            if child == 0:
                os.close(file.fileno())
                os._exit(0)
            os.waitpid(child, 0)
        if number % 3 == 0:
            fcntl.lockf(file, fcntl.LOCK_UN)
if other is not None and other.wait() != 0:
    sys.exit(f"the other process: {other.returncode}")
