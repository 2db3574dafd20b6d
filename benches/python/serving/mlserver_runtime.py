"""A model in MLServer. Its REST has no binary tensors: the bytes cross as base64 in JSON, which is its best form."""

import numpy
from mlserver import MLModel
from mlserver.codecs import Base64Codec
from mlserver.types import InferenceResponse

import work


class Runtime(MLModel):
    async def load(self):
        extra = self.settings.parameters.extra
        self.model = extra["model"]
        self.call = work.make(self.model, extra["folder"])
        return True

    async def predict(self, payload):
        (body,) = Base64Codec.decode_input(payload.inputs[0])
        output = numpy.ascontiguousarray(self.call(work.array(self.model, body)))
        answer = Base64Codec.encode_output("OUT", [output.tobytes()], use_bytes=False)
        return InferenceResponse(model_name=self.name, outputs=[answer])
