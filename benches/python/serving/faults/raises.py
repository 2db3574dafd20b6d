"""A model that does not start."""


class TritonPythonModel:
    def initialize(self, args):
        raise ValueError("the weights are not there")
