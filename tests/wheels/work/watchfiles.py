"""a folder that is watched while files change"""

import tempfile
import threading
import time
from pathlib import Path

from watchfiles import Change, watch


def work(tell):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        stop = threading.Event()
        seen = set()

        def change():
            for i in range(200):
                (folder / f"file{i % 5}").write_text(str(i))
                time.sleep(0.02)
                if len(seen) == 5:
                    break
            stop.set()

        writer = threading.Thread(target=change)
        writer.start()
        for changes in watch(folder, stop_event=stop, debounce=50, step=10):
            seen.update(Path(path).name for kind, path in changes if kind in (Change.added, Change.modified))
        writer.join()
        tell("seen", sorted(seen))
    try:
        next(watch(folder / "missing"))
    except FileNotFoundError as error:
        tell("error", type(error).__name__)
