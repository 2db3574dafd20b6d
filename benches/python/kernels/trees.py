"""A binary tree, for `generators`."""


class Tree:
    def __init__(self, value, left=None, right=None):
        self.value = value
        self.left = left
        self.right = right

    def __iter__(self):
        if self.left is not None:
            yield from self.left
        yield self.value
        if self.right is not None:
            yield from self.right


def balanced(first, last):
    if first >= last:
        return None
    middle = (first + last) // 2
    return Tree(middle, balanced(first, middle), balanced(middle + 1, last))
