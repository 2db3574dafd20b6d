"""Loads a model from files of its own and another configuration, calls it, and unloads it."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([7.0], np.float32))]) for _ in requests]
"""
CONFIG = {
    "backend": "python",
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [1]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [1]}],
}


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer() for _ in requests]

    def answer(self):
        said = [str(pb_utils.is_model_ready("made"))]
        pb_utils.load_model("made", config=json.dumps(CONFIG), files={"file:1/model.py": MODEL.encode()})
        said.append(str(pb_utils.is_model_ready("made", "1")))
        x = pb_utils.Tensor("X", np.zeros(1, np.float32))
        request = pb_utils.InferenceRequest(model_name="made", requested_output_names=["Y"], inputs=[x])
        said.append(str(pb_utils.get_output_tensor_by_name(request.exec(), "Y").as_numpy()[0]))
        pb_utils.unload_model("made")
        try:
            pb_utils.load_model("absent")
        except pb_utils.TritonModelException as error:
            said.append(str(error).partition(":")[0])
        return pb_utils.InferenceResponse([pb_utils.Tensor("SAID", np.array(said, dtype=object))])
