"""Uses a torch that is not in the environment's own site-packages."""

import os
import sys

import torch

x = torch.arange(4.0, requires_grad=True)
(x * x).sum().backward()
assert x.grad.tolist() == [0, 2, 4, 6]
library = torch.library.Library("places", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
assert torch.ops.places.twice(torch.ones(2)).tolist() == [2, 2]
assert torch.jit.script(torch.nn.Linear(2, 3))(torch.ones(2)).shape == (3,)
# One write: the copies share the stream.
sys.stdout.write(f"copy {os.environ['HYDROZOA_COPY']} uses {os.path.dirname(torch.__file__)}\n")
