"""A model in LitServe: litserve_server.py PORT MODEL FOLDER INSTANCES. Bodies are the tensors' bytes."""

import os
import sys
from typing import Annotated

import litserve
from fastapi import Body, Response

import work


class Model(litserve.LitAPI):
    def setup(self, device):
        # This may run in a process of its own, which has the arguments too.
        self.name, folder = os.environ["SERVING_MODEL"], os.environ["SERVING_FOLDER"]
        self.call = work.make(self.name, folder)

    def decode_request(self, request: Annotated[bytes, Body(media_type="application/octet-stream")]):
        return work.array(self.name, request)

    def predict(self, data):
        return self.call(data)

    def encode_response(self, output) -> Response:
        return Response(output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    port, os.environ["SERVING_MODEL"], os.environ["SERVING_FOLDER"], instances = sys.argv[1:]
    # The fast queue is LitServe's own option for throughput.
    server = litserve.LitServer(
        Model(), accelerator="cpu", devices=1, workers_per_device=int(instances), fast_queue=True, timeout=False
    )
    server.run(
        host="127.0.0.1", port=int(port), log_level="warning", generate_client_file=False, access_log=False
    )
