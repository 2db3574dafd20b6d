"""lines and branches of a program, measured by the tracer in C"""

import tempfile
import threading
from pathlib import Path

import coverage
from coverage.tracer import CTracer

PROGRAM = """
def choose(n):
    if n % 3 == 0:
        return "three"
    elif n % 5 == 0:
        return "five"
    for i in range(n):
        if i > 4:
            break
    else:
        return "short"
    return [i for i in range(n)]
results = [choose(n) for n in range(RANGE)]
"""


def work(tell):
    tell("compiled", CTracer.__module__)
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "program.py"
        program.write_text(PROGRAM)
        measured = coverage.Coverage(data_file=None, branch=True, include=[str(program)], config_file=False)
        measured.start()
        space = {"RANGE": 4}
        code = compile(PROGRAM, str(program), "exec")
        thread = threading.Thread(target=exec, args=(code, space))
        thread.start()
        thread.join()
        measured.stop()
        data = measured.get_data()
        files = sorted(data.measured_files())
        tell("files", [Path(file).name for file in files])
        tell("lines", sorted(data.lines(files[0])))
        tell("arcs", sorted(map(list, data.arcs(files[0]))))
        tell("missing", measured.analysis2(str(program))[3])
