"""Code shared by the pieces of work in tests/areas/work. Import it before torch."""

import atexit
import os
import shutil
import tempfile
import warnings

FOLDER = tempfile.mkdtemp(prefix="areas-")
"""A folder of this copy alone. It is removed when the process or the copy ends."""

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

# Each copy compiles for itself, and nothing is downloaded. torch and huggingface_hub read these when they are imported.
os.environ.update(
    TORCHINDUCTOR_CACHE_DIR=os.path.join(FOLDER, "inductor"),
    TORCHINDUCTOR_COMPILE_THREADS="1",
    # inductor's check of each instruction set compiles a program and starts a Python that imports torch.
    TORCHINDUCTOR_VEC_ISA_OK="1",
    HF_HOME=os.path.join(FOLDER, "huggingface"),
    HF_HUB_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
)
warnings.simplefilter("ignore")

import torch  # noqa: E402

torch.set_num_threads(1)


def randn(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rand(*shape, seed):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(model, seed):
    """Overwrites every parameter from a generator of its own."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            fan = max(parameter.numel() // parameter.shape[0], 1) if parameter.dim() > 1 else 1
            parameter.copy_(torch.randn(parameter.shape, generator=source) * (fan**-0.5))
    return model


def perceptron(seed):
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)
    return seeded(torch.nn.Sequential(*layers), seed).eval()


def parameters(model):
    return [parameter.detach() for parameter in model.parameters()]


def raised(call, kind):
    """The first line of the error that a call raises."""
    try:
        call()
    except kind as error:
        return str(error).splitlines()[0]
    raise AssertionError(f"{kind.__name__} expected")


def scripts():
    """The folder tests/scripts."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts")
