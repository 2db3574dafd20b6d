"""The networks that no package on PyPI has, each written from its paper and at the paper's size."""
