"""Runs the tests that Triton has for its Python backend (qa/L0_backend_python) against `hydrozoa serve`.

    python run.py HYDROZOA VENV SERVER BACKEND [GROUP...]

HYDROZOA is the command. VENV is a virtual environment for the models, with numpy, torch and requests. SERVER is a checkout of
triton-inference-server/server, of which `qa` is used, and BACKEND one of triton-inference-server/python_backend, of which
`examples` is used. The Python that runs this has pytest, tritonclient[all], torch, requests and ml_dtypes. Ports 8000 to 8002 are
used: the tests have them in their code.

Tests that need a GPU, a model of NVIDIA's, a process for each model, or what this server does not have, are listed with that
reason, and do not count. The exit status is 1 if another one fails.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

GPU, MODELS, STUB, ENSEMBLE, ITERATIVE, BACKENDS = (
    "needs a GPU",
    "needs a model of ONNX or libtorch, which NVIDIA's image has",
    "is about processes of models and their shared memory",
    "needs ensembles",
    "needs requests that are scheduled again",
    "needs a backend that is written in Python",
)

# Tests by their names, or models that are tests, which do not count.
LEFT_OUT = {
    "test_dlpack_tensor_error": GPU,
    "test_gpu_tensor_error": GPU,
    "test_decoupled_bls": GPU,
    "test_empty_gpu_output": GPU,
    "test_variable_gpu_output": GPU,
    "test_requested_output_decoupled": GPU,
    "bls": GPU,
    "bls_async": GPU,
    "bls_model_loading": MODELS,
    "test_ensemble_gpu": MODELS,
    "test_growth_error": STUB,
    "test_invalid_character_model_names": STUB,
    "test_model_not_ready": STUB,
    "test_infer": STUB,
    "test_restart": STUB,
    "test_ensemble": ENSEMBLE,
    "test_ensemble_io": ENSEMBLE,
    "test_model_reload": ENSEMBLE,
    "bls_request_rescheduling": ITERATIVE,
    "test_grpc_decoupled_bls": ITERATIVE,
    "test_wrong_return_type": ITERATIVE,
    "test_add_sub_models": BACKENDS,
    "test_python_model": BACKENDS,
    "test_pytorch_model": BACKENDS,
}

DECOUPLED = "model_transaction_policy { decoupled: True }\n"
QUEUED = "dynamic_batching { preferred_batch_size: [8], max_queue_delay_microseconds: %d }\n"
EIGHT = (r"(?m)^max_batch_size:.*", "max_batch_size: 8")
UINT8 = ("TYPE_FP32", "TYPE_UINT8")
LEAKS = "../test_infer_shm_leak.py"

READINESS = {
    "is_ready_fn_returns_true": ("true", 0.1),
    "is_ready_fn_returns_false": ("false", 0.1),
    "is_ready_fn_raises_error": ("exception", 0.1),
    "is_ready_fn_returns_non_boolean": ("non_boolean", 0.1),
    "is_ready_fn_timeout": ("true", 8),
    "is_ready_fn_coroutine_returns_true": ("coroutine", 0.1),
}


class Repository:
    """A folder of models, made of those of the checkouts as the tests' scripts make it."""

    def __init__(self, qa, examples, folder):
        self.qa, self.examples, self.folder = qa, examples, folder

    def add(self, name, source=None, code="model.py", config="config.pbtxt", edits=(), more="", beside=(), target="model.py"):
        source = source or self.qa / "python_models" / name
        (self.folder / name / "1").mkdir(parents=True)
        for file, place in [(code, target), *((file, file) for file in beside)]:
            shutil.copy(source / file, self.folder / name / "1" / place)
        text = (source / config).read_text()
        for pattern, replacement in [(r"(?m)^name:.*", f'name: "{name}"'), *edits]:
            text = re.sub(pattern, replacement, text)
        (self.folder / name / "config.pbtxt").write_text(f"{text}\n{more}")

    def all(self, names):
        for name in names.split():
            self.add(name)

    def like(self, name, other, **changes):
        self.add(name, self.qa / "python_models" / other, **changes)

    def copied(self, group):
        shutil.copytree(self.qa / "L0_backend_python" / group / "models", self.folder, dirs_exist_ok=True)

    def squares(self):
        self.add("square_int32", self.examples / "decoupled", "square_model.py", "square_config.pbtxt")


def types(models):
    models.all("identity_fp32 identity_bf16 delayed_model optional non_contiguous string string_fixed dlpack_identity")
    models.all("pytorch_fp32_fp32")
    models.add("init_args", edits=[("TRITON_DIR_PATH", str(models.qa.parent))])
    models.like("identity_uint8", "identity_fp32", edits=[UINT8, EIGHT], more=QUEUED % 12_000_000)
    models.like("identity_uint8_nobatch", "identity_fp32", edits=[UINT8, (r"(?m)^max_batch_size:.*", "")])
    models.like("identity_uint32", "identity_fp32", edits=[("TYPE_FP32", "TYPE_UINT32")])
    models.like("identity_bool", "identity_fp32", edits=[("TYPE_FP32", "TYPE_BOOL")])
    models.like("default_model_name", "identity_fp32", more='default_model_filename: "mymodel.py"', target="mymodel.py")


def calls(models):
    models.all("bls_memory bls_memory_async add_sub execute_error identity_fp32 identity_fp32_timeout")
    models.squares()


def decoupled(models):
    models.copied("decoupled")
    models.all("identity_fp32 response_sender_until_cancelled dlpack_add_sub")
    models.add("execute_cancel", more=DECOUPLED)
    models.squares()


def lifecycle(models):
    models.all("error_code execute_cancel decoupled_grpc_error execute_return_error")
    models.add("execute_error", edits=[EIGHT], more=QUEUED % 12_000_000)
    models.add("execute_grpc_error", edits=[EIGHT], more=QUEUED % 1_200_000)
    models.add("wrong_model", edits=[("TYPE_FP32", "TYPE_UINT32")])


def readiness(models):
    models.all("identity_fp32")
    folder = models.qa / "L0_backend_python/model_readiness/test_models"
    for name, (value, seconds) in READINESS.items():
        given = {"READINESS_FN_RETURN_VALUE": value, "READINESS_FN_DELAY_SECS": seconds}
        more = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{one}" }} }}\n' for key, one in given.items())
        models.like(name, "identity_fp32", more=more)
        code = "readiness_coroutine_model.py" if value == "coroutine" else "readiness_model.py"
        shutil.copy(folder / code, models.folder / name / "1/model.py")
    name = "is_ready_fn_returns_true_decoupled"
    models.add(name, folder / name)


def senders(models):
    for kind in ["", "_async"]:
        for batching in ["", "_batching"]:
            for policy in ["", "_decoupled"]:
                more = (DECOUPLED if policy else "") + (QUEUED % 500_000).replace("preferred_batch_size: [8], ", "") * bool(batching)
                models.like(f"response_sender{policy}{kind}{batching}", "response_sender", code=f"model{kind}.py", more=more,
                            beside=["model_common.py"])  # fmt: skip


def of(names):
    return lambda models: models.all(names)


# The models, the folder of the tests, options of the server, and tests: a file, a test in it or all, and variables, which the
# server gets, too.
GROUPS = {
    "types": (types, ".", ["--allow-client-shm=true"], [("python_test.py", None, {})]),
    **{kind: (calls, "bls", [], [(LEAKS, None, {"MODEL_NAME": name, "BLS_KIND": kind})
              for name in ["bls_memory", "bls_memory_async"]]) for kind in ["non_decoupled", "decoupled"]},
    "call_parameters": (of("bls_parameters"), "bls", [], [("bls_parameters_test.py", None, {})]),
    "responses": (decoupled, "decoupled", [], [("decoupled_test.py", None, {})]),
    "lifecycle": (lifecycle, "lifecycle", [], [("lifecycle_test.py", None, {})]),
    "control": (of("identity_fp32"), "model_control", ["--model-control-mode=explicit", "--allow-client-files=true"], [("model_control_test.py", None, {})]),
    "readiness": (readiness, "model_readiness", [], [("test_model_readiness.py", None, {})]),
    "parameters": (of("response_parameters response_parameters_decoupled response_parameters_bls"), "parameters", [],
                   [("response_parameters_test.py", None, {})]),
    "senders": (senders, "response_sender", [], [("response_sender_test.py", None, {})]),
    "final": (of("response_sender_complete_final"), "response_sender", [], [("response_sender_complete_final_test.py", None, {})]),
    "coroutines": (of("async_execute_decouple async_execute_decouple_bls"), "async_execute", [], [("concurrency_test.py", None, {})]),
    "outputs": (of("add_sub"), "io", [], [("io_test.py", "IOTest::test_requested_output_default", {})]),
    "crash": (lambda models: models.add("llm", models.qa / "L0_backend_python/io/requested_output_model"), "io", [],
              [("io_test.py", "IOTest::test_requested_output_decoupled_prior_crash", {})]),
    "logging": (of("identity_fp32_logging"), "logging", [], [("logging_test.py", None, {})]),
    "arguments": (lambda models: models.copied("argument_validation"), "argument_validation", [],
                  [(LEAKS, None, {"MODEL_NAME": "argument_validation"})]),
    "metrics": (of("custom_metrics"), "custom_metrics", [], [(LEAKS, None, {"MODEL_NAME": "custom_metrics"})]),
}  # fmt: skip


def is_ready(server):
    for _ in range(1200):
        if server.poll() is not None:
            return False
        try:
            urllib.request.urlopen("http://localhost:8000/v2/health/ready", timeout=1)
            return True
        except OSError:
            time.sleep(0.1)
    return False


def run(test, folder, variables):
    """The tests that have passed, and those that have not, with what pytest said."""
    file, one, more = test
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=short"]
    command.append(f"{file}::{one}" if one else file)
    done = subprocess.run(command, cwd=folder, env={**variables, **more}, capture_output=True, text=True, timeout=600)
    found = re.findall(r"(?m)^\S+::(\S+) (PASSED|FAILED|ERROR)", done.stdout)
    # A test whose parts have failed is said to have passed.
    parts = set(re.findall(r"(?m)^SUBFAILED.* \S+::(\S+)", done.stdout))
    found = [(name, how == "PASSED" and name not in parts) for name, how in found]
    label = " ".join(more.values())
    passed = [f"{name} {label}".rstrip() for name, is_good in found if is_good]
    counts = [name for name, is_good in found if not is_good and name.rpartition("::")[2] not in LEFT_OUT]
    failed = [f"{name} {label}".rstrip() for name in counts]
    if not found:
        failed.append(f"{file} {label}".rstrip())
    return passed, failed, done.stdout + done.stderr


def serve(group, hydrozoa, venv, checkout, examples):
    """Runs a group's tests against a server of its own."""
    models, folder, options, tests = GROUPS[group]
    folder = checkout / "qa/L0_backend_python" / folder
    repository = checkout / "qa/L0_backend_python/models"
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir()
    models(Repository(checkout / "qa", examples, repository))
    log = folder / f"{folder.name}_server.log"
    variables = {**os.environ, "SERVER_LOG": str(log), "TRITON_DIR": str(checkout), "OMP_NUM_THREADS": "1"}
    variables["PYTHONPATH"] = str(checkout / "monitor")
    for _, _, more in tests:
        # Models read some of them.
        variables.update(more)
    command = [hydrozoa, "serve", str(repository), "--venv", venv, *options]
    passed, failed = [], []
    with open(log, "w") as output, subprocess.Popen(command, stdout=output, stderr=output, env=variables) as server:
        try:
            if not is_ready(server):
                return [], [f"{group}: the server is not ready:\n{log.read_text()}"]
            for test in tests:
                good, bad, words = run(test, folder, variables)
                passed += good
                failed += bad
                if bad:
                    print(words, log.read_text(), sep="\n")
        finally:
            server.send_signal(signal.SIGTERM)
    return passed, failed


def main():
    hydrozoa, venv, checkout, backend, *groups = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        # The tests write beside themselves.
        qa = pathlib.Path(scratch) / "qa"
        for part in ["L0_backend_python", "python_models", "common"]:
            shutil.copytree(pathlib.Path(checkout) / "qa" / part, qa / part)
        # The tests look for shared memory regions of model processes; this server creates none.
        (qa.parent / "monitor").mkdir()
        (qa.parent / "monitor/triton_shm_monitor.py").write_text(
            "class SharedMemoryManager:\n    def __init__(self, name): pass\n    def free_memory(self): return 0\n"
        )
        passed, failed = [], []
        for group in groups or GROUPS:
            good, bad = serve(group, hydrozoa, venv, qa.parent, pathlib.Path(backend) / "examples")
            print(f"{group}: {len(good)} passed, {len(bad)} failed", *bad, sep="\n  ", flush=True)
            passed += good
            failed += bad
    print(f"{len(passed)} passed, {len(failed)} failed; these do not count:")
    for name, reason in LEFT_OUT.items():
        print(f"  {name} {reason}")
    sys.exit(1 if failed else 0)


main()
