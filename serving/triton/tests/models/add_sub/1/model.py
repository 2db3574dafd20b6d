"""Completes its configuration, and tells what it was told."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for name in ("A", "B"):
            config.add_input({"name": name, "data_type": "TYPE_FP32", "dims": [2]})
        for name in ("SUM", "DIFFERENCE"):
            config.add_output({"name": name, "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "TOLD", "data_type": "TYPE_STRING", "dims": [1]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    def initialize(self, args):
        config = json.loads(args["model_config"])
        told = [args[name] for name in ("model_name", "model_version", "model_instance_name", "model_instance_kind")]
        self.told = " ".join([*told, args["model_instance_device_id"], str(config["max_batch_size"])])
        counter, histogram = pb_utils.MetricFamily.COUNTER, pb_utils.MetricFamily.HISTOGRAM
        # Triton's Python backend ends a metric with its family.
        self.families = [pb_utils.MetricFamily("own_requests", "R", counter), pb_utils.MetricFamily("own_sizes", "S", histogram)]
        self.requests = self.families[0].Metric(labels={"model": "add_sub"})
        self.sizes = self.families[1].Metric(labels={}, buckets=[1.0, 2.0])
        pb_utils.Logger.log_info("add_sub is ready")

    def execute(self, requests):
        responses = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("A", "B"))
            self.requests.increment(1)
            self.sizes.observe(len(a))
            told = np.array([[self.told]] * len(a), dtype=object)
            outputs = {"SUM": a + b, "DIFFERENCE": a - b, "TOLD": told}
            tensors = [pb_utils.Tensor(name, array) for name, array in outputs.items()]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
