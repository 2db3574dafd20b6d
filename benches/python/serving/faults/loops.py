"""A model that does not end, in Python."""


class TritonPythonModel:
    def execute(self, requests):
        while True:
            pass
