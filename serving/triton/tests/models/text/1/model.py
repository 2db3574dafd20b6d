"""Texts in and out."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "T").as_numpy()
            upper = np.vectorize(lambda text: text.decode().upper().encode(), otypes=[object])(texts)
            length = np.vectorize(len, otypes=[np.int64])(texts)
            tensors = [pb_utils.Tensor("UPPER", upper), pb_utils.Tensor("LENGTH", length)]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
