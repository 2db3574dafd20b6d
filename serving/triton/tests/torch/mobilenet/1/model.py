"""torchvision's MobileNetV2 with weights of a seed. Tensors cross by DLPack."""

import torch
import torchvision
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torchvision.models.mobilenet_v2(weights=None).eval()

    def execute(self, requests):
        responses = []
        for request in requests:
            image = torch.from_dlpack(pb_utils.get_input_tensor_by_name(request, "IMAGE").to_dlpack())
            with torch.inference_mode():
                scores = self.model(image)
            tensor = pb_utils.Tensor.from_dlpack("SCORES", torch.utils.dlpack.to_dlpack(scores))
            responses.append(pb_utils.InferenceResponse([tensor]))
        return responses
