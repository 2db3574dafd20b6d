"""Constraints between variables, for `methods`."""


class Variable:
    __slots__ = ("constraints", "mark", "stay", "value")

    def __init__(self, value):
        self.value = value
        self.constraints = []
        self.mark = 0
        self.stay = True


class Constraint:
    def __init__(self, variables):
        for variable in variables:
            variable.constraints.append(self)

    def is_satisfied(self):
        return self.output() is not None

    def inputs_known(self, mark):
        return all(variable.mark == mark or variable.stay for variable in self.inputs())

    def inputs(self):
        raise NotImplementedError

    def output(self):
        raise NotImplementedError

    def execute(self):
        raise NotImplementedError


class Equal(Constraint):
    def __init__(self, source, target):
        super().__init__((source, target))
        self.source, self.target = source, target

    def inputs(self):
        return (self.source,)

    def output(self):
        return self.target

    def execute(self):
        self.target.value = self.source.value


class Scaled(Equal):
    def __init__(self, source, target, scale, offset):
        super().__init__(source, target)
        self.scale, self.offset = scale, offset

    def inputs(self):
        return (*super().inputs(), self.scale, self.offset)

    def execute(self):
        self.target.value = self.source.value * self.scale.value + self.offset.value
