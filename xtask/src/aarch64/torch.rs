//! A model of torchvision's in three copies, and in plain python: both compute the same bits.

use anyhow::Result;

use super::system::System;
use super::{copies, fetched, hidden};
use crate::steps::Outcome;

/// A torch whose wheel for this machine is one for processors alone, with what it needs.
const WHEELS: [&str; 13] = [
    "filelock==4.3.1",
    "fsspec==2026.9.0",
    "jinja2==3.1.6",
    "markupsafe==3.0.3",
    "mpmath==1.3.0",
    "networkx==3.6.1",
    "numpy==2.3.5",
    "pillow==13.0.0",
    "setuptools==80.9.0",
    "sympy==1.14.0",
    "torch==2.10.0",
    "torchvision==0.25.0",
    "typing-extensions==4.15.0",
];

/// Its library `libc10.so` has initialised data of threads. Copies of libgomp are as many as interpreters, so each computes by one thread.
const PROGRAM: &str = "
import hashlib, sys
import torch, torchvision

torch.set_num_threads(1)
torch.manual_seed(7)
model = torchvision.models.mobilenet_v3_small(weights=None)
images = torch.randn(2, 3, 96, 96)
digest = hashlib.sha256()
model.train()
loss = model(images).square().sum()
loss.backward()
for parameter in model.parameters():
    digest.update(parameter.grad.numpy().tobytes())
model.eval()
with torch.inference_mode():
    digest.update(model(images).numpy().tobytes())
try:
    torch.ones(2, 3) @ torch.ones(2, 3)
except RuntimeError as error:
    digest.update(str(error).encode())
print('computed', torch.__version__, torchvision.__version__, digest.hexdigest(), flush=True)
";

pub(super) fn run(system: &System) -> Result<Outcome> {
    let site = fetched::packages(system, "torch", &WHEELS)?;
    copies::beside_plain(system, "mobilenet.py", PROGRAM, &site, &hidden::line(system)?)
}
