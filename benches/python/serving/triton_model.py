"""A model for Triton's Python backend, and for what runs its models."""

import json
import sys

import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        value = lambda key: parameters[key]["string_value"]
        sys.path.append(value("scripts"))
        import work

        model = value("model")
        self.texts = work.MODELS[model][0] == "BYTES"
        self.call = work.make(model, value("folder"))

    def execute(self, requests):
        responses = []
        for request in requests:
            data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if self.texts:
                data = [text.decode() for text in data]
            output = pb_utils.Tensor("OUT", numpy.ascontiguousarray(self.call(data)))
            responses.append(pb_utils.InferenceResponse([output]))
        return responses
