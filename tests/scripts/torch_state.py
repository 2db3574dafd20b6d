"""torch's state: each copy has its own, while others change theirs all the time.

Right in plain python. In several copies at once: nothing that another copy sets is seen, and results have the bits of
plain python. Arguments: a folder that the copies share, and their number.
"""

import os
import sys
import threading
import time
import warnings

import torch
import torchvision
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.set_num_threads(1)
COPY = os.environ.get("HYDROZOA_COPY", "1")
FOLDER, COPIES = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 2 else (None, 1)
failures = 0


def check(what, right):
    global failures
    if not right:
        failures += 1
        sys.stdout.write(f"copy {COPY}: FAILED: {what}\n")


def together(name):
    """Waits until every copy is here."""
    if FOLDER is None:
        return
    open(os.path.join(FOLDER, f"{name}-{COPY}"), "w").close()
    deadline = time.monotonic() + 300
    while sum(entry.startswith(f"{name}-") for entry in os.listdir(FOLDER)) < COPIES:
        assert time.monotonic() < deadline, name
        time.sleep(0.005)


def emit_hooks():
    get, set_ = torch._C._jit_get_emit_hooks, torch._C._jit_set_emit_hooks
    check("no hook is there", get() == (None, None))
    set_(None, None)
    check("no hook is there after none was set", get() == (None, None))
    seen = []
    set_(seen.append, None)
    check("the hook that was set", get()[0] is not None and get()[1] is None)
    torch.jit.script(torch.nn.ReLU())
    check("the hook was called for this copy's module", len(seen) == 1)
    set_(None, None)


def script():
    class Calls(torch.nn.Module):
        def forward(self, x):
            return self.twice(x) + 1

        def twice(self, x):
            return x * 2

    torch.manual_seed(3)
    model = torchvision.models.resnet18().eval()
    x = torch.rand(1, 3, 64, 64)
    scripted = torch.jit.script(model)
    for _ in range(3):
        check("a scripted module that calls a method", torch.jit.script(Calls())(torch.ones(1)).item() == 3)
    with torch.no_grad():
        check("a scripted resnet18", torch.equal(scripted(x), model(x)))


def forward_mode():
    from torch.func import hessian, jvp

    x = torch.arange(1.0, 5.0)
    for _ in range(60):
        value, tangent = jvp(lambda x: (x**3).sum(), (x,), (torch.ones(4),))
        check("jvp", value.item() == 100 and tangent.item() == 90)
    check("hessian", torch.equal(hessian(lambda x: (x**3).sum())(x), torch.diag(6 * x)))
    import torch.autograd.forward_ad as forward

    with forward.dual_level():
        dual = forward.make_dual(x, torch.ones(4))
        check("a tangent in its level", torch.equal(forward.unpack_dual(dual * dual).tangent, 2 * x))
        try:
            torch._C._enter_dual_level()
            check("a second level is refused", False)
        except RuntimeError as error:
            check("a second level is refused", "Nested forward mode AD" in str(error))
    with forward.dual_level():
        check("no tangent in the next level", forward.unpack_dual(dual).tangent is None)


def flags():
    check("mkldnn is on", torch._C._get_mkldnn_enabled())
    mine = int(COPY) % 2 == 0
    for _ in range(200):
        with torch.backends.mkldnn.flags(enabled=mine):
            check("mkldnn as set", torch._C._get_mkldnn_enabled() == mine)
        check("mkldnn as before", torch._C._get_mkldnn_enabled())
        torch.use_deterministic_algorithms(mine, warn_only=True)
        check("determinism", torch.are_deterministic_algorithms_enabled() == mine)
        torch.set_warn_always(mine)
        check("warn_always", torch.is_warn_always_enabled() == mine)
        torch.set_default_dtype(torch.float64 if mine else torch.float32)
        check("default dtype", torch.ones(1).dtype == (torch.float64 if mine else torch.float32))
        check("dtype of a sum", torch.arange(3).float().mean().dtype == torch.float32)
        check("complex dtype", torch.tensor(1j).dtype == (torch.complex128 if mine else torch.complex64))
        torch.set_float32_matmul_precision("medium" if mine else "highest")
        check("precision", torch.get_float32_matmul_precision() == ("medium" if mine else "highest"))
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)
    torch.set_warn_always(False)
    torch.set_float32_matmul_precision("highest")
    engines = [engine for engine in torch.backends.quantized.supported_engines if engine != "none"]
    before = torch.backends.quantized.engine
    engine = engines[int(COPY) % len(engines)]
    torch.backends.quantized.engine = engine
    for _ in range(200):
        check("quantized engine", torch.backends.quantized.engine == engine)
    torch.backends.quantized.engine = before


def switches():
    torch_c = torch._C
    mine = int(COPY) % 2 == 0
    pairs = [
        (torch_c._jit_texpr_fuser_enabled, torch_c._jit_set_texpr_fuser_enabled),
        (torch_c._jit_get_te_must_use_llvm_cpu, torch_c._jit_set_te_must_use_llvm_cpu),
        (torch_c._debug_get_fusion_group_inlining, torch_c._debug_set_fusion_group_inlining),
        (torch_c._functorch._is_vmap_fallback_enabled, torch_c._functorch._set_vmap_fallback_enabled),
    ]
    before = [get() for get, _ in pairs]
    runs = torch_c._jit_get_num_profiled_runs()
    together("switches-read")
    for _, set_ in pairs:
        set_(mine)
    torch_c._jit_set_num_profiled_runs(runs + int(COPY))
    check("profiling is on", torch_c._jit_set_profiling_mode(mine))
    together("switches-set")
    for get, set_ in pairs:
        check(f"{set_.__name__} as set", get() == mine)
    check("profiled runs as set", torch_c._jit_get_num_profiled_runs() == runs + int(COPY))
    check("profiling as set", torch_c._jit_set_profiling_mode(True) == mine)
    together("switches-checked")
    for (_, set_), value in zip(pairs, before):
        set_(value)
    torch_c._jit_set_num_profiled_runs(runs)


def settings():
    torch.set_num_threads(10 + int(COPY))
    together("settings-set")
    check("number of threads as set", torch.get_num_threads() == 10 + int(COPY))
    together("settings-checked")
    torch.set_num_threads(1)


def attention():
    torch.manual_seed(0)
    query = torch.rand(2, 4, 32, 16)
    backends = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]
    expected = {}
    attend = torch.nn.functional.scaled_dot_product_attention
    for backend in backends:
        with sdpa_kernel(backend):
            expected[backend] = attend(query, query, query)
    for turn in range(300):
        backend = backends[(turn + int(COPY)) % 2]
        with sdpa_kernel(backend):
            check("attention", torch.equal(attend(query, query, query), expected[backend]))


def generator():
    torch.manual_seed(int(COPY))
    check("the seed", torch.initial_seed() == int(COPY))
    own = torch.Generator().manual_seed(int(COPY))
    for _ in range(500):
        check("numbers of the default generator", torch.equal(torch.rand(7), torch.rand(7, generator=own)))


def anomaly():
    def backward():
        x = torch.zeros(1, requires_grad=True)
        (torch.sqrt(x) * 0).backward()
        return x.grad.isnan().item()

    together("anomalies")
    for _ in range(100):
        if int(COPY) % 2 == 0:
            check("a gradient that is not a number", backward())
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with torch.autograd.detect_anomaly():
                    backward()
            check("an anomaly is found", False)
        except RuntimeError as error:
            check(f"an anomaly is found: {error}", "returned nan values" in str(error))
        check("anomaly mode is off again", not torch.is_anomaly_enabled())
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            check("anomaly mode without the check", torch.is_anomaly_enabled() and backward())
        check("no anomaly is looked for", backward())


def fake_devices():
    from torch._subclasses import FakeTensorMode

    def work():
        with FakeTensorMode():
            x = torch.ones(3, device="cuda")
            check("a tensor of a device that is not there", (x + x).device.type == "cuda")

    # The stand-in for the device outlives the thread that needs it first. In plain python it does not.
    if FOLDER:
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    together("fake-devices")
    work()


class Reentrant(torch.autograd.Function):
    """Its backward pass runs another one, until the number is negative."""

    @staticmethod
    def forward(ctx, x):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_() - 1
        return ctx.x.detach()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.x >= 0:
            with torch.enable_grad():
                Reentrant.apply(ctx.x).sum().backward()
        return gradient


def deep_passes():
    # Beyond 60 passes inside of each other the engine continues on threads of a pool.
    for depth in (50.0, 300.0):
        x = torch.tensor(depth, requires_grad=True)
        Reentrant.apply(x).sum().backward()
        check(f"backward passes {depth} deep", x.grad.item() == 1)


def groups():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    second = dist.new_group([0])
    x = torch.full((3,), float(COPY))
    together("group")
    for group in [None, second]:
        dist.all_reduce(x, group=group)
    import torch.distributed._functional_collectives as functional

    y = functional.all_reduce(x, "sum", second)
    check("all_reduce", x.tolist() == [float(COPY)] * 3 and y.tolist() == x.tolist())
    together("reduced")
    dist.destroy_process_group()


for area in [
    emit_hooks, script, forward_mode, flags, switches, settings, attention, generator, anomaly, fake_devices,
    deep_passes, groups,
]:
    together(area.__name__)
    try:
        area()
    except Exception as error:
        check(f"{area.__name__} raised {type(error).__name__}: {error}", False)
    together(f"{area.__name__}-done")
sys.stdout.write(f"copy {COPY}: {failures} failed\n")
sys.exit(failures > 0)
