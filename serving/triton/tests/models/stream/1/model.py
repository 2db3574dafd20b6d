"""As many responses as the request says, from a thread."""

import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.threads = []

    def execute(self, requests):
        for request in requests:
            n = int(pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0])
            thread = threading.Thread(target=self.send, args=(request.get_response_sender(), n))
            self.threads.append(thread)
            thread.start()

    def send(self, sender, n):
        for number in range(n):
            tensor = pb_utils.Tensor("OUT", np.array([number], np.int32))
            sender.send(pb_utils.InferenceResponse([tensor]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
