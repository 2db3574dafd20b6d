"""A model that takes all memory."""


class TritonPythonModel:
    def initialize(self, args):
        self.kept = []

    def execute(self, requests):
        while True:
            self.kept.append(bytes(1 << 20))
