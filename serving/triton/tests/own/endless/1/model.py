"""Responds until its client has gone. N is 0: it says how many clients have gone."""

import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.gone = 0

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            n = int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0])
            if n:
                threading.Thread(target=self.send, args=(sender,)).start()
                continue
            tensor = pb_utils.Tensor("OUT", np.array([self.gone], np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def send(self, sender):
        while not sender.is_cancelled():
            tensor = pb_utils.Tensor("OUT", np.array([-1], np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]))
            time.sleep(0.01)
        self.gone += 1
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
