"""Uses tritonclient as programs do, at the server of the first argument. It needs the models of tritonclient.rs."""

import json
import os
import sys

import numpy as np
import tritonclient.http as http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

TYPES = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}


def raises(words, status, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except InferenceServerException as error:
        assert words in error.message(), error.message()
        assert str(status) in (error.status() or ""), error.status()
    else:
        raise AssertionError(f"no error: {words}")


def given(name, kind, array, binary=True):
    tensor = http.InferInput(name, list(array.shape), kind)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def metadata(client):
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("floats") and client.is_model_ready("floats", "1")
    assert not client.is_model_ready("floats", "2") and not client.is_model_ready("absent")
    assert client.get_server_metadata()["name"] == "triton"
    described = client.get_model_metadata("floats")
    assert described["inputs"] == [{"name": "IN", "datatype": "FP32", "shape": [-1, -1]}], described
    assert client.get_model_config("floats")["max_batch_size"] == 8
    names = [line["name"] for line in client.get_model_repository_index()]
    assert names == ["floats", "types"], names
    raises("unknown model: 'absent'", 404, client.get_model_metadata, "absent")
    raises("not support dynamic logging", 503, client.get_log_settings)
    raises("not support tracing", 503, client.get_trace_settings)
    assert client.get_system_shared_memory_status() == []


def types(client):
    for kind, dtype in TYPES.items():
        array = np.array([0, 1, 1]).astype(dtype)
        if kind == "BYTES":
            array = np.array([b"a", "\u20ac".encode(), b""], np.object_)
        for binary in [True] if kind == "FP16" else [True, False]:
            result = client.infer(
                "types",
                [given(kind, kind, array, binary)],
                outputs=[http.InferRequestedOutput(kind, binary_data=binary)],
            )
            answer = result.as_numpy(kind)
            if kind == "BYTES":
                answer = np.array([text if isinstance(text, bytes) else text.encode() for text in answer], np.object_)
            assert answer.dtype == array.dtype and (answer == array).all(), (kind, binary, answer)


def infer(client):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for algorithm in [None, "gzip", "deflate"]:
        result = client.infer(
            "floats",
            [given("IN", "FP32", array)],
            model_version="1",
            request_id="seven",
            request_compression_algorithm=algorithm,
            response_compression_algorithm=algorithm,
            parameters={"own": "value"},
            sequence_id=5,
            sequence_start=True,
            priority=1,
            timeout=10_000_000,
        )
        assert (result.as_numpy("OUT") == array).all()
        assert result.get_response()["id"] == "seven"
    classes = http.InferRequestedOutput("OUT", class_count=1)
    result = client.infer("floats", [given("IN", "FP32", array)], outputs=[classes])
    assert result.as_numpy("OUT").tolist() == [[b"2.000000:2"], [b"5.000000:2"]], result.as_numpy("OUT")
    waiting = [client.async_infer("floats", [given("IN", "FP32", array + n)]) for n in range(20)]
    for n, request in enumerate(waiting):
        assert (request.get_result().as_numpy("OUT") == array + n).all()
    large = np.arange(1 << 20, dtype=np.float32).reshape(1, -1)
    assert (client.infer("floats", [given("IN", "FP32", large)]).as_numpy("OUT") == large).all()
    raises("data-type is 'FP64'", 400, client.infer, "floats", [given("IN", "FP64", array.astype(np.float64))])
    raises("must be <= 8", 400, client.infer, "floats", [given("IN", "FP32", np.zeros((9, 1), np.float32))])
    statistics = client.get_inference_statistics("floats")["model_stats"][0]
    assert statistics["inference_stats"]["success"]["count"] == 25, statistics


def shared(client):
    size = 24
    key = f"/hydrozoa_client_{os.getpid()}"
    memory = shm.create_shared_memory_region("both", key, 2 * size)
    try:
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        shm.set_shared_memory_region(memory, [array])
        client.register_system_shared_memory("both", key, 2 * size)
        status = client.get_system_shared_memory_status()
        assert status == [{"name": "both", "key": key, "offset": 0, "byte_size": 2 * size}], status
        tensor = http.InferInput("IN", [2, 3], "FP32")
        tensor.set_shared_memory("both", size)
        output = http.InferRequestedOutput("OUT")
        output.set_shared_memory("both", size, offset=size)
        result = client.infer("floats", [tensor], outputs=[output])
        answer = result.get_output("OUT")
        assert answer == {"name": "OUT", "datatype": "FP32", "shape": [2, 3]}, answer
        assert (shm.get_contents_as_numpy(memory, np.float32, [2, 3], offset=size) == array).all()
        raises("already in manager", 400, client.register_system_shared_memory, "both", key, size)
        client.unregister_system_shared_memory("both")
        raises("Unable to find shared memory region: 'both'", 404, client.infer, "floats", [tensor])
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
    finally:
        shm.destroy_shared_memory_region(memory)


def repository(client):
    client.unload_model("floats")
    assert not client.is_model_ready("floats")
    client.load_model("floats")
    assert client.is_model_ready("floats")
    raises("failed to load 'absent'", 404, client.load_model, "absent")
    raises("failed to load 'floats'", 400, client.load_model, "floats", config='"parameters": {')
    own = {"input": "IN", "output": "OUT"}
    own = {field: [{"name": name, "data_type": "TYPE_FP32", "dims": [-1]}] for field, name in own.items()}
    config = json.dumps({"max_batch_size": "16", **own})
    client.load_model("floats", config=config)
    assert client.get_model_config("floats")["max_batch_size"] == 16
    model = b"class TritonPythonModel:\n    def execute(self, requests):\n        raise OSError('sent')\n"
    client.load_model("sent", config=config, files={"file:1/model.py": model})
    tensor = given("IN", "FP32", np.zeros((1, 1), np.float32))
    raises("sent", 500, client.infer, "sent", [tensor])
    client.unload_model("sent")


with http.InferenceServerClient(sys.argv[1], concurrency=4) as client:
    for part in (metadata, types, infer, shared, repository):
        part(client)
print("passed")
