# Programs that write one database of SQLite at once. Arguments: the database, its kind of journal, or neither.
import os, sqlite3, subprocess, sys

COPY = os.environ.get("HYDROZOA_COPY", "0")
ROUNDS = 60


def write(path, journal):
    database = sqlite3.connect(path, timeout=120, isolation_level=None)
    # To change it is refused at once where another connection reads (sqlite.org/wal.html, "Activating And Configuring WAL Mode").
    assert database.execute("pragma journal_mode").fetchone() == (journal,)
    database.execute("pragma synchronous=off")
    for number in range(ROUNDS):
        database.execute("begin immediate")
        (count,) = database.execute("select n from counts").fetchone()
        database.execute("update counts set n = ?", (count + 1,))
        database.execute("insert into entries values (?, ?, ?)", (COPY, number, "x" * (37 * number % 900)))
        if number % 7 == 3:
            database.execute("delete from entries where who = ? and number < ?", (COPY, number - 20))
        database.execute("commit")
        if number % 10 == 0:
            # Another connection to the same file, whose end must not release the first one's locks.
            other = sqlite3.connect(path, timeout=120)
            assert other.execute("pragma quick_check").fetchall() == [("ok",)]
            other.close()
    database.close()


def own():
    """A program's databases in memory, and the limits that it sets, are its own."""
    first, second = [sqlite3.connect("file:work?mode=memory&cache=shared", uri=True) for _ in range(2)]
    first.execute("create table mine (who)")
    first.execute("insert into mine values (?)", (COPY,))
    first.commit()
    limit = 50_000_000 + int(COPY)
    first.execute(f"pragma soft_heap_limit={limit}")
    # All programs are here, before any goes on.
    open(os.path.join(sys.argv[1], COPY), "w").close()
    while COPY != "0" and len(os.listdir(sys.argv[1])) < 3:
        pass
    seen = second.execute("select who from mine").fetchall(), second.execute("pragma soft_heap_limit").fetchall()
    os.write(1, f"{seen == ([(COPY,)], [(limit,)])}\n".encode())


if len(sys.argv) == 2:
    own()
else:
    other = None
    if COPY == "1":
        environment = dict(os.environ, HYDROZOA_COPY="other")
        other = subprocess.Popen([sys.executable, __file__, *sys.argv[1:]], env=environment)
    write(*sys.argv[1:])
    if other is not None and other.wait() != 0:
        sys.exit(f"the other process: {other.returncode}")
