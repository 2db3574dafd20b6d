"""The sum of what a sequence has sent, by the server's scheduler for sequences."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}

    def execute(self, requests):
        responses = []
        for request in requests:
            x, start, identity = (
                int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]) for name in ("X", "START", "ID")
            )
            self.totals[identity] = x if start else self.totals[identity] + x
            total = np.array([[self.totals[identity]]], np.int32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("TOTAL", total)]))
        return responses
