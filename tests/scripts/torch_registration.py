"""What interpreters register with torch, and must not see of each other: torch_registration.py [FOLDER COPIES].

Runs in plain python too. In several copies at once, odd copies register what even copies do not, so that each check also
says what the others keep: libtorch's own kernels, or a clear error. FOLDER, an empty one, is where COPIES copies wait for
each other. Of the areas, those about errors between copies are torch policy `shared`'s.
"""

import gc
import io
import os
import sys
import time
import traceback
import warnings

import torch

COPY = int(os.environ.get("HYDROZOA_COPY", "0"))
FOLDER, COPIES = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else (None, 1)


def barrier(name):
    """Waits until every copy is here."""
    if FOLDER is None or COPY == 0:
        return
    with open(os.path.join(FOLDER, f"{name}.{COPY}"), "w"):
        pass
    deadline = time.monotonic() + 120
    while len([file for file in os.listdir(FOLDER) if file.startswith(name + ".")]) < COPIES:
        assert time.monotonic() < deadline, f"another copy did not come to {name}"
        time.sleep(0.01)


def raised(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} expected from {call}")


def define_operator(name, addend):
    """A custom operator; defining it again replaces it, in this interpreter only."""

    @torch.library.custom_op(name, mutates_args=())
    def operator(x: torch.Tensor) -> torch.Tensor:
        return x + addend

    @operator.register_fake
    def _(x):
        return torch.empty_like(x)

    return operator


def area_redefinition():
    x = torch.arange(4.0)
    for round_ in range(20):
        operator = define_operator("hydrozoa_registration::redefined", 100 * COPY + round_)
        assert torch.equal(operator(x), x + 100 * COPY + round_), "another interpreter's definition"
        assert torch.equal(torch.ops.hydrozoa_registration.redefined(x), x + 100 * COPY + round_)
        del operator
        gc.collect()


def area_alone():
    """An operator that only odd copies define exists only there."""
    x, odd = torch.ones(3), COPY % 2 == 1 or COPIES == 1
    library = torch.library.Library("hydrozoa_alone", "FRAGMENT")
    if odd:
        library.define("only_odd(Tensor x) -> Tensor")
        library.impl("only_odd", lambda x: x + COPY, "CPU")
    barrier("alone defined")
    assert torch._C._dispatch_has_kernel("hydrozoa_alone::only_odd") == odd
    assert ("hydrozoa_alone::only_odd" in torch._C._dispatch_get_all_op_names()) == odd
    if odd:
        assert torch.equal(torch.ops.hydrozoa_alone.only_odd(x), x + COPY)
    else:
        raised(AttributeError, getattr, torch.ops.hydrozoa_alone, "only_odd")
    barrier("alone used")
    library._destroy()
    barrier("alone gone")
    assert not torch._C._dispatch_has_kernel("hydrozoa_alone::only_odd"), "the last definition is still registered"


def area_kernel_alone():
    """An operator for which only odd copies have a kernel has, elsewhere, none: never another interpreter's Python."""
    x, odd = torch.ones(3), COPY % 2 == 1 or COPIES == 1
    library = torch.library.Library("hydrozoa_kernel", "FRAGMENT")
    library.define("run_odd(Tensor x) -> Tensor")
    if odd:
        library.impl("run_odd", lambda x: x + COPY, "CPU")
    barrier("kernel registered")
    assert torch._C._dispatch_has_kernel_for_dispatch_key("hydrozoa_kernel::run_odd", "CPU") == odd
    assert torch._C._dispatch_has_computed_kernel_for_dispatch_key("hydrozoa_kernel::run_odd", "CPU") == odd
    for _ in range(20):
        if odd:
            assert torch.equal(torch.ops.hydrozoa_kernel.run_odd(x), x + COPY)
        else:
            message = raised(RuntimeError, torch.ops.hydrozoa_kernel.run_odd, x)
            assert "hydrozoa_kernel::run_odd" in message and "no kernel" in message, message
    barrier("kernel used")
    library._destroy()
    barrier("kernel gone")


def area_override():
    """Odd copies override an operator of libtorch for CPU; even ones keep libtorch's."""
    x = torch.tensor([4.0, 9.0])
    library = None
    if COPY % 2 == 1 or COPIES == 1:
        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl("special_sinc", lambda x: x * 0 + 1000 + COPY, "CPU")
    barrier("override registered")
    for _ in range(50):
        result = torch.special.sinc(x)
        expected = x * 0 + 1000 + COPY if library is not None else torch.sin(torch.pi * x) / (torch.pi * x)
        assert torch.allclose(result, expected, atol=1e-6), (result, expected)
    barrier("override used")
    if library is not None:
        library._destroy()
    barrier("override gone")
    assert torch.allclose(torch.special.sinc(x), torch.sin(torch.pi * x) / (torch.pi * x), atol=1e-6)


def area_autograd_override():
    """Odd copies put Python in front of the autograd kernel of an operator of libtorch, which even ones use unchanged."""
    seen = []
    library = None
    if COPY % 2 == 1 or COPIES == 1:
        library = torch.library.Library("aten", "IMPL")

        def logit(keys, x, eps=None):
            seen.append("mine")
            return torch.ops.aten.logit.default.redispatch(keys & torch._C._after_autograd_keyset, x, eps)

        library.impl("logit", logit, "AutogradCPU", with_keyset=True)
    barrier("autograd registered")
    x = torch.tensor([0.25, 0.5], requires_grad=True)
    y = torch.logit(x)
    assert torch.allclose(y.detach(), torch.log(x.detach() / (1 - x.detach())))
    assert seen == (["mine"] if library is not None else [])
    if library is None:
        y.sum().backward()
        assert torch.allclose(x.grad, 1 / (x.detach() * (1 - x.detach())))
    barrier("autograd used")
    if library is not None:
        library._destroy()
    barrier("autograd gone")
    torch.logit(x).sum().backward()


def area_fallthrough():
    library = torch.library.Library("hydrozoa_fallthrough", "DEF")
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x * (COPY + 2), "CPU")
    library.impl("f", torch.library.fallthrough_kernel, "AutogradCPU")
    x = torch.ones(3, requires_grad=True)
    for _ in range(20):
        assert torch.equal(torch.ops.hydrozoa_fallthrough.f(x), (x * (COPY + 2)).detach())
    barrier("fallthrough used")
    library._destroy()
    barrier("fallthrough gone")


def area_mixed_fallthrough():
    """Where odd copies fall through, even copies have a kernel."""
    library = torch.library.Library("hydrozoa_mixed", "DEF")
    library.define("g(Tensor x) -> Tensor")
    library.impl("g", lambda x: x + COPY, "CPU")
    odd = COPY % 2 == 1
    library.impl("g", torch.library.fallthrough_kernel if odd else lambda x: x - 1, "AutogradCPU")
    barrier("mixed registered")
    x = torch.ones(3, requires_grad=True)
    for _ in range(20):
        result = torch.ops.hydrozoa_mixed.g(x)
        assert torch.equal(result, (x + COPY if odd else x - 1).detach()), result
    barrier("mixed used")
    library._destroy()
    barrier("mixed gone")


def area_duplicates():
    """What torch refuses within an interpreter, it still refuses."""
    library = torch.library.Library(f"hydrozoa_duplicates", "DEF")
    library.define("h(Tensor x) -> Tensor")
    assert "multiple times" in raised(RuntimeError, library.define, "h(Tensor x) -> Tensor")
    assert "TORCH_LIBRARY" in raised(RuntimeError, torch.library.Library, "hydrozoa_duplicates", "DEF")
    assert "multiple times" in raised(RuntimeError, torch.library.Library("aten", "FRAGMENT").define, "relu(Tensor x) -> Tensor")
    barrier("duplicates tried")
    library._destroy()
    barrier("duplicates gone")


def area_conflict():
    """Two schemas under one name: the second is refused in words."""
    library = torch.library.Library("hydrozoa_conflict", "FRAGMENT")
    if COPY <= 1:
        library.define("k(Tensor x) -> Tensor")
    barrier("conflict first")
    if COPY > 1:
        message = raised(RuntimeError, library.define, "k(Tensor x, int n) -> Tensor")
        assert "another schema" in message and "hydrozoa_conflict::k" in message, message
        library.define("k(Tensor y) -> Tensor")
    barrier("conflict tried")
    library._destroy()
    barrier("conflict gone")


@torch.jit.ignore
def python_part(x: torch.Tensor) -> torch.Tensor:
    return x + COPY


def scripted(x: torch.Tensor) -> torch.Tensor:
    print("in script", x.shape)
    return python_part(x) * 2


def area_script_calls_python():
    function = torch.jit.script(scripted)
    x = torch.ones(2)
    kept = sys.stdout
    for _ in range(20):
        sys.stdout = io.StringIO()
        try:
            result = function(x)
            text = sys.stdout.getvalue()
        finally:
            sys.stdout = kept
        assert torch.equal(result, (x + COPY) * 2), "another interpreter's Python ran"
        assert "in script [2]" in text, f"printed elsewhere: {text!r}"


def in_fork(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(python_part(x)) * 3


def forks(x: torch.Tensor) -> torch.Tensor:
    first = torch.jit.fork(in_fork, x)
    second = torch.jit.fork(in_fork, x + 1)
    return torch.jit.wait(first) + torch.jit.wait(second)


def area_script_forks():
    """Python on TorchScript's worker threads, which serve all interpreters in turn."""
    function = torch.jit.script(forks)
    x = torch.ones(2)
    for _ in range(50):
        assert torch.equal(function(x), (x + COPY) * 3 + (x + 1 + COPY) * 3), "another interpreter's Python ran"


def area_traceback():
    from torch.utils._traceback import CapturedTraceback

    for _ in range(5):
        frames = CapturedTraceback.extract(cpp=False).summary()
        assert any(frame.name == "area_traceback" for frame in frames), [frame.name for frame in frames]


def area_errors():
    """An operator without a kernel for a device names it, by this interpreter's reporter."""

    @torch.library.custom_op("hydrozoa_registration::cpu_only", mutates_args=(), device_types="cpu")
    def cpu_only(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    assert torch.equal(cpu_only(torch.ones(2)), torch.ones(2))
    message = raised(Exception, cpu_only, torch.ones(2, device="meta"))
    assert "cpu_only" in message, message


def area_profiler():
    from torch.profiler import ProfilerActivity, profile

    done = False
    for _ in range(200):
        try:
            with profile(activities=[ProfilerActivity.CPU]) as session:
                torch.ones(4).add(1)
            assert any("add" in event.key for event in session.key_averages())
            done = True
            break
        except RuntimeError as error:
            assert "in use by" in str(error), error
            time.sleep(0.05)
    assert done, "the profiler was never free"


def area_export_and_dynamo():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
    x = torch.ones(3, 4)
    program = torch.export.export(model, (x,))
    assert torch.equal(program.module()(x), model(x))

    compiled = torch.compile(model, backend="aot_eager")
    assert torch.equal(compiled(x), model(x))


def main():
    torch.set_num_threads(1)
    areas = [(name, area) for name, area in globals().items() if name.startswith("area_")]
    failed = []
    for name, area in areas:
        try:
            area()
        except BaseException:
            failed.append(name)
            print(f"copy {COPY}: {name} failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    print(f"copy {COPY}: {len(areas)} areas of registration, {len(failed)} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
