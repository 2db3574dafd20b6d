"""Takes N responses of an endless model, goes, and waits until that model has seen it."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils


def begin(n):
    tensor = pb_utils.Tensor("N", np.array([n], np.int32))
    request = pb_utils.InferenceRequest(model_name="endless", requested_output_names=["OUT"], inputs=[tensor])
    return request.exec(decoupled=True)


def gone():
    return pb_utils.get_output_tensor_by_name(next(begin(0)), "OUT").as_numpy()


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            before = gone()[0]
            endless = begin(1)
            for _ in range(int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0])):
                next(endless)
            endless.cancel()
            limit = time.monotonic() + 20
            while gone()[0] == before and time.monotonic() < limit:
                time.sleep(0.01)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("GONE", gone() - before)]))
        return responses
