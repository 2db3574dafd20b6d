"""Runs Triton's example programs for Python against `hydrozoa serve`, with models that do what the programs expect.

    python run.py HYDROZOA VENV EXAMPLES

HYDROZOA is the command, VENV a virtual environment with numpy for its models, and EXAMPLES the folder `src/python/examples` of
Triton's clients. The Python that runs this has tritonclient[all] and numpy. Programs that need a GPU are left out by name.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

NEED_A_GPU = ["simple_grpc_cudashm_client.py", "simple_http_cudashm_client.py"]

# They count the models, and do not agree on their number.
CONTROL = {"simple_grpc_model_control.py": 8, "simple_http_model_control.py": 7}

# These have an option for models that see the correlation id.
WITH_IDS = [
    "simple_grpc_sequence_sync_infer_client.py",
    "simple_grpc_sequence_stream_infer_client.py",
    "simple_http_sequence_sync_infer_client.py",
]

EXPLICIT = [
    "grpc_explicit_int_content_client.py",
    "grpc_explicit_int8_content_client.py",
    "grpc_explicit_byte_content_client.py",
    "reuse_infer_objects_client.py",
]

SUMS = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for place in "01":
            config.add_input({"name": "INPUT" + place, "data_type": "TYPE_KIND", "dims": [16]})
            config.add_output({"name": "OUTPUT" + place, "data_type": "TYPE_KIND", "dims": [16]})
        if not config.as_dict().get("max_batch_size"):
            config.set_max_batch_size(8)
        return config

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        one, other = (pb_utils.get_input_tensor_by_name(request, "INPUT" + place).as_numpy() for place in "01")
        results = {"OUTPUT0": one + other, "OUTPUT1": one - other}
        wanted = request.requested_output_names()
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, results[name]) for name in results if name in wanted])
"""

TEXTS = SUMS.replace(
    "as_numpy() for", "as_numpy().astype(np.int32) for"
).replace("one + other", "texts(one + other)").replace("one - other", "texts(one - other)") + """

def texts(numbers):
    return np.array([str(number).encode() for number in numbers.flat], np.object_).reshape(numbers.shape)
"""

IDENTITY = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())]
            )
            for request in requests
        ]
"""

# Adds 1 to the first value of a sequence.
SEQUENCE = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", self.answer(request))]) for request in requests]

    def answer(self, request):
        of = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        return of("INPUT") + of("START")
"""

# Adds the correlation id to the last value, too.
WITH_ID = SEQUENCE.replace('of("START")', 'of("START") + of("END") * of("ID").astype(np.int32)')

# Sums up the values.
WITH_TEXT_ID = SEQUENCE.replace(
    'return of("INPUT") + of("START")',
    """key = of("ID").flat[0].decode()
        if of("START").flat[0]:
            self.sums[key] = 0
        self.sums[key] += int(of("INPUT").flat[0])
        return np.array([[self.sums[key] + int(of("END").flat[0]) * int(key)]], np.int32)""",
).replace("    def execute", "    sums = {}\n\n    def execute")

REPEAT = """
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            of = lambda name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            sender = request.get_response_sender()
            for value, delay in zip(of("IN"), of("DELAY")):
                time.sleep(int(delay) / 1e6)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", value.reshape(1))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def tensors(field, *described):
    return "".join(
        f'{field} {{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] }}\n' for name, kind, dims in described
    )


def sequence(kind=None):
    control = lambda name, signal, more: f'control_input {{ name: "{name}" control {{ kind: CONTROL_SEQUENCE_{signal} {more} }} }}'
    controls = [control("START", "START", "int32_false_true: [ 0, 1 ]"), control("END", "END", "int32_false_true: [ 0, 1 ]")]
    if kind:
        controls.append(control("ID", "CORRID", f"data_type: TYPE_{kind}"))
    strategy = "oldest { max_candidate_sequences: 8 }" if kind else "direct { }"
    head = "max_batch_size: 8\n" + tensors("input", ("INPUT", "INT32", 1)) + tensors("output", ("OUTPUT", "INT32", 1))
    return f"{head}sequence_batching {{ max_sequence_idle_microseconds: 5000000 {strategy} {' '.join(controls)} }}"


NAMED = tensors("input", ("INPUT0", "STRING", -1)) + tensors("output", ("OUTPUT0", "STRING", -1))
REPEATED = tensors("input", ("IN", "INT32", -1), ("DELAY", "UINT32", -1), ("WAIT", "UINT32", 1)) + tensors("output", ("OUT", "INT32", 1))

MODELS = {
    "simple": ("", SUMS.replace("KIND", "INT32")),
    "simple_int8": ("", SUMS.replace("KIND", "INT8")),
    "simple_string": ("", TEXTS.replace("KIND", "STRING")),
    "simple_identity": ("max_batch_size: 8\n" + NAMED, IDENTITY),
    "simple_sequence": (sequence(), SEQUENCE),
    "simple_dyna_sequence": (sequence("UINT64"), WITH_ID),
    "simple_string_dyna_sequence": (sequence("STRING"), WITH_TEXT_ID),
    "repeat_int32": (REPEATED + "model_transaction_policy { decoupled: true }", REPEAT),
}


class Server:
    def __init__(self, command, venv, folder, names):
        for name in names:
            config, code = MODELS[name]
            version = folder / name / "1"
            version.mkdir(parents=True)
            (folder / name / "config.pbtxt").write_text(config)
            (version / "model.py").write_text(code)
        options = ["--model-control-mode=explicit", "--load-model=*", "--allow-client-shm=true", "--allow-client-files=true", "--allow-metrics=false"]
        for protocol in ["http", "grpc"]:
            options += [f"--{protocol}-address=127.0.0.1", f"--{protocol}-port=0"]
        start = [command, "serve", str(folder), "--venv", venv, *options]
        self.process = subprocess.Popen(start, stderr=subprocess.PIPE, text=True)
        self.addresses = {}
        for line in self.process.stderr:
            found = re.search(r"(HTTP|gRPC) at (\S+)", line)
            if found:
                self.addresses[found[1].lower()] = found[2]
            if "the server is ready" in line:
                return
            print(line, end="")
        raise SystemExit("the server has not started")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def run(server, examples, name, *options):
    protocol = "http" if "http" in name or name.startswith("reuse") and not options else "grpc"
    program = [sys.executable, str(examples / name), "-u", server.addresses[protocol], *options]
    try:
        done = subprocess.run(program, capture_output=True, text=True, timeout=300)
        ended, printed = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        ended, printed = "no end", str(late)
    print(f"{ended}  {name} {' '.join(options)}", flush=True)
    if ended != 0:
        print("    " + "\n    ".join(printed.splitlines()[-15:]))
    return ended == 0


def main():
    command, venv, examples = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    names = sorted(path.name for path in examples.glob("simple_*.py"))
    assert names, f"{examples} has no programs"
    usual = [name for name in names if name not in NEED_A_GPU and name not in CONTROL]
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        with Server(command, venv, pathlib.Path(folder), MODELS) as server:
            outcomes += [run(server, examples, name) for name in usual + EXPLICIT]
            outcomes += [run(server, examples, name, "-d") for name in WITH_IDS]
            outcomes.append(run(server, examples, "reuse_infer_objects_client.py", "-i", "grpc"))
    for name, count in CONTROL.items():
        with tempfile.TemporaryDirectory() as folder:
            without = [model for model in MODELS if count == len(MODELS) or model != "simple_int8"]
            with Server(command, venv, pathlib.Path(folder), without) as server:
                outcomes.append(run(server, examples, name))
    print(f"{sum(outcomes)} of {len(outcomes)} have ended well; left out for want of a GPU: {', '.join(NEED_A_GPU)}")
    sys.exit(0 if all(outcomes) else 1)


main()
