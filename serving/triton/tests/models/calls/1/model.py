"""Calls other models: a decoupled one, one with batches, one that is absent, one that fails, one in the wrong way."""

import numpy as np
import triton_python_backend_utils as pb_utils


def call(model, inputs, outputs, **how):
    request = pb_utils.InferenceRequest(model_name=model, requested_output_names=outputs, inputs=inputs)
    return request.exec(**how)


def array(response, name):
    return pb_utils.get_output_tensor_by_name(response, name).as_numpy()


def why(model, inputs, outputs):
    try:
        return call(model, inputs, outputs).error().message()
    except pb_utils.TritonModelException as error:
        return str(error)


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "N")) for request in requests]

    def answer(self, n):
        count = int(n.as_numpy()[0])
        responses = call("stream", [n], ["OUT"], decoupled=True)
        total = sum(int(array(response, "OUT")[0]) for response in responses if response.output_tensors())
        values = np.arange(count, dtype=np.float32).reshape(1, -1)
        echo = array(call("identity", [pb_utils.Tensor("X", values)], ["Y"]), "Y")[0]
        negative = pb_utils.Tensor("X", np.array([-1], np.float32))
        reasons = [why("absent", [n], ["Y"]), why("square_root", [negative], ["Y"]), why("stream", [n], ["OUT"])]
        outputs = {"SUM": np.array([total], np.int32), "ECHO": echo, "WHY": np.array(reasons, dtype=object)}
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, value) for name, value in outputs.items()])
