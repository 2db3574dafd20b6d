"""The hermetic importer and the movable pickler, area by area, in one plain Python.

    python package_areas.py PAYLOAD_PYTHON

PAYLOAD_PYTHON is the directory `payload/python`. The part of the host, which gives records and
shared memory, is played by zipfile and mmap here, so that this runs without Hydrozoa itself. Areas
that need torch run where torch is installed; what was left out is printed.
"""

import dataclasses
import gc
import importlib
import importlib.resources
import inspect
import io
import mmap
import os
import pickle
import pkgutil
import struct
import sys
import tempfile
import threading
import traceback
import types
import typing
import unittest
import weakref
import zipfile

sys.dont_write_bytecode = True
private = types.ModuleType("_hydrozoa")
private.__path__ = [os.path.abspath(sys.argv.pop(1))]
sys.modules["_hydrozoa"] = private

from _hydrozoa import movable, package  # noqa: E402

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_NUMPY = importlib.util.find_spec("numpy") is not None

# Written by torch.package's exporter for mocked modules.
MOCKED = (
    "from _mock import MockedObject\n"
    "def __getattr__(attr: str):\n"
    "    return MockedObject(__name__ + '.' + attr, _suppress_err=True)\n"
)
MOCK = """
class MockedObject:
    def __new__(cls, *args, **kwargs):
        if not kwargs.get("_suppress_err"):
            raise NotImplementedError(f"Object '{cls._name}' was mocked out during packaging")
        return super().__new__(cls)
    def __init__(self, name, _suppress_err):
        self.__dict__["_name"] = name
    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"Object '{self._name}' was mocked out during packaging")
    def __len__(self):
        raise NotImplementedError(f"Object '{self._name}' was mocked out during packaging")
"""


class Host:
    """Gives the records of an archive on disk, as the runtime does of a mapped one."""

    numbers = iter(range(1_000_000, 2_000_000))

    def __init__(self, path):
        self.path = path
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.view = memoryview(self.map)
        self.records = {}
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                start = info.header_offset
                name_length, extra_length = struct.unpack("<HH", self.map[start + 26 : start + 30])
                name = info.filename.partition("/")[2]
                data = start + 30 + name_length + extra_length
                self.records[name] = (data, info.file_size)

    def read(self, name):
        start, size = self.records[name]
        return bytes(self.view[start : start + size])

    def storage(self, name):
        import torch

        start, size = self.records[name]
        return torch.frombuffer(self.map, dtype=torch.uint8, count=size, offset=start)

    def install(self):
        self.identity = next(self.numbers)
        return package.install(
            self.identity, self.path, list(self.records), self.read, self.storage, lambda: self.view
        )


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def package(self, files, externs=("sys",), name="archive.pt"):
        path = os.path.join(self.folder.name, name)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("top/.data/extern_modules", "\n".join(externs) + "\n")
            archive.writestr("top/.data/python_version", "3.11.7\n")
            for record, content in files.items():
                archive.writestr(f"top/{record}", content)
        host = Host(path)
        importer = host.install()
        self.addCleanup(package.remove, host.identity)
        return importer


class Imports(Case):
    def test_modules_are_mangled_and_local(self):
        importer = self.package({"a.py": "import b\nname = __name__\n", "b.py": "x = 1\n"})
        a = importer.import_module("a")
        self.assertEqual(a.name, f"{importer.id()}.a")
        self.assertEqual(a.b.x, 1)
        self.assertNotIn("a", sys.modules)
        self.assertIs(importer.import_module(a.__name__), a)
        self.assertEqual(set(importer.modules), {"a", "b"})

    def test_undeclared_modules_are_refused_though_they_exist(self):
        importer = self.package({"a.py": "import json\n", "b.py": "import json.decoder as d\n"})
        for name in "ab":
            with self.assertRaisesRegex(ModuleNotFoundError, "json.*extern"):
                importer.import_module(name)
        self.assertEqual(importer.modules, {})

    def test_a_declared_module_covers_its_submodules(self):
        importer = self.package(
            {"a.py": "import os.path as p\nfrom json import decoder\nimport json.encoder\n"},
            externs=["json", "os"],
        )
        a = importer.import_module("a")
        self.assertIs(a.p, os.path)
        self.assertIs(a.decoder, importlib.import_module("json.decoder"))
        self.assertIs(a.json, importlib.import_module("json"))

    def test_a_declared_submodule_leaves_its_parent_hermetic(self):
        importer = self.package(
            {
                "a.py": "import json.decoder\nfrom json import decoder as d\nj = json\n",
                "b.py": "import json\njson.loads\n",
                "c.py": "from json import loads\n",
            },
            externs=["json.decoder"],
        )
        a = importer.import_module("a")
        self.assertIs(a.j.decoder, importlib.import_module("json.decoder"))
        self.assertIs(a.d, a.j.decoder)
        self.assertFalse(hasattr(a.j, "loads"))
        with self.assertRaises(ModuleNotFoundError):
            importer.import_module("c")
        with self.assertRaises(ModuleNotFoundError):
            importer.import_module("b")

    def test_relative_imports(self):
        importer = self.package(
            {
                "p/__init__.py": "from .x import one\n",
                "p/x.py": "one = 1\nfrom . import y\nfrom .q import z\nfrom .q.z import two\n",
                "p/y.py": "def lazy():\n    from .q.z import two\n    return two\n",
                "p/q/__init__.py": "",
                "p/q/z.py": "from ..y import lazy\ntwo = 2\n",
                "bad.py": "from .. import x\n",
                "p/bad.py": "from ... import x\n",
            }
        )
        p = importer.import_module("p")
        self.assertEqual((p.one, p.x.two, p.y.lazy(), p.q.z.lazy()), (1, 2, 2, 2))
        for name in ("bad", "p.bad"):
            with self.assertRaises(ImportError):
                importer.import_module(name)

    def test_star_imports(self):
        importer = self.package(
            {
                "p/__init__.py": "__all__ = ['sub', 'one']\none = 1\nother = 2\n",
                "p/sub.py": "three = 3\n",
                "a.py": "from p import *\n",
            }
        )
        a = importer.import_module("a")
        self.assertEqual((a.one, a.sub.three), (1, 3))
        self.assertFalse(hasattr(a, "other"))

    def test_namespace_packages(self):
        importer = self.package({"n/m/x.py": "y = 5\n", "a.py": "import n.m.x\nz = n.m.x.y\n"})
        self.assertEqual(importer.import_module("a").z, 5)
        self.assertIsNone(getattr(importer.import_module("n"), "__file__", None))

    def test_cycles(self):
        importer = self.package(
            {
                "p/__init__.py": "",
                "p/a.py": "from . import b\nx = 1\ndef f(): return b.y\n",
                "p/b.py": "from . import a\ny = 2\ndef f(): return a.x\n",
            }
        )
        a = importer.import_module("p.a")
        self.assertEqual((a.f(), a.b.f()), (2, 1))

    def test_a_module_that_raises_leaves_no_trace(self):
        importer = self.package({"a.py": "import sys\nif not hasattr(sys, 'hydrozoa_ready'): 1/0\n"})
        with self.assertRaises(ZeroDivisionError):
            importer.import_module("a")
        self.assertEqual(importer.modules, {})
        sys.hydrozoa_ready = True
        self.addCleanup(delattr, sys, "hydrozoa_ready")
        importer.import_module("a")

    def test_external_module_inside_a_packaged_one(self):
        importer = self.package(
            {"json/__init__.py": "from . import decoder\nfrom .decoder import JSONDecoder\n"},
            externs=["json.decoder"],
        )
        module = importer.import_module("json")
        real = importlib.import_module("json.decoder")
        self.assertIs(module.decoder, real)
        self.assertEqual(real.__spec__.name, "json.decoder")

    def test_importlib_by_mangled_name(self):
        importer = self.package(
            {
                "p/__init__.py": "import importlib\n"
                "def get(): return importlib.import_module('.x', __package__)\n"
                "def external(): return importlib.import_module('.decoder', __package__ + '.json')\n",
                "p/x.py": "x = 1\n",
            },
            externs=["importlib"],
        )
        p = importer.import_module("p")
        self.assertEqual(p.get().x, 1)
        with self.assertRaises(ImportError):
            p.external()

    def test_the_importer_reaches_packaged_code(self):
        importer = self.package(
            {"a.py": "import torch_package_importer as i\n", "t.txt": "text"}
        )
        self.assertIs(importer.import_module("a").i, importer)
        self.assertEqual(importer.load_text("", "t.txt"), "text")
        self.assertEqual(importer.python_version(), "3.11.7")

    def test_modules_in_archive_and_declared_external_contradict(self):
        with self.assertRaisesRegex(ImportError, "external"):
            self.package({"json/x.py": ""}, externs=["json"])

    def test_mocks_raise_on_use_and_not_when_they_are_looked_at(self):
        importer = self.package(
            {
                "_mock.py": MOCK,
                "gone.py": MOCKED,
                "a.py": "import gone\nfrom gone import thing\ndef use(): return thing(1)\n",
            }
        )
        a = importer.import_module("a")
        with self.assertRaisesRegex(NotImplementedError, "thing.*mocked"):
            a.use()
        # unittest does this to every module.
        for module in list(sys.modules.values()):
            if getattr(module, "__warningregistry__", None):
                module.__warningregistry__ = {}

    def test_two_packages_with_equal_names(self):
        first = self.package({"m.py": "class C:\n    value = 1\n"}, name="1.pt")
        second = self.package({"m.py": "class C:\n    value = 2\n"}, name="2.pt")
        one, two = first.import_module("m"), second.import_module("m")
        self.assertEqual((one.C.value, two.C.value), (1, 2))
        self.assertIs(pickle.loads(pickle.dumps(two.C)), two.C)
        self.assertIs(pickle.loads(pickle.dumps(one.C)), one.C)

    def test_threads_that_import_each_other_finish(self):
        files = {"p/__init__.py": ""}
        for i in range(8):
            other = (i + 1) % 8
            files[f"p/m{i}.py"] = f"import time\ntime.sleep(0.01)\nfrom . import m{other}\nv = {i}\n"
        importer = self.package(files, externs=["time"])
        got = []
        threads = [
            threading.Thread(
                target=lambda i=i: got.append(importer.import_module(f"p.m{i}").v), daemon=True
            )
            for i in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        self.assertEqual(sorted(got), list(range(8)))

    def test_removal_frees_modules(self):
        importer = self.package({"a.py": "class C: pass\n"})
        alive = weakref.ref(importer.import_module("a").C)
        name = importer.id()
        package.remove(importer.identity)
        del importer
        gc.collect()
        self.assertIsNone(alive())
        self.assertFalse([module for module in sys.modules if module.startswith(name)])


class Introspection(Case):
    SOURCE = (
        "import dataclasses, typing\n"
        "class C:\n"
        "    def method(self):\n"
        "        raise ValueError('here')  # the marked line\n"
        "@dataclasses.dataclass\n"
        "class D:\n"
        "    a: 'C'\n"
        "    b: 'typing.ClassVar[int]' = 3\n"
    )

    def setUp(self):
        super().setUp()
        self.importer = self.package(
            {"p/__init__.py": "", "p/m.py": self.SOURCE, "p/d/t.txt": "text", "p/b.bin": b"\0\1"},
            externs=["dataclasses", "typing"],
        )
        self.module = self.importer.import_module("p.m")

    def test_source(self):
        self.assertIn("the marked line", inspect.getsource(self.module.C))
        self.assertIn("the marked line", inspect.getsource(self.module.C.method))
        self.assertEqual(inspect.getsource(self.module), self.SOURCE)
        self.assertEqual(self.module.__file__, f"{self.importer.id()}.p/m.py")

    def test_tracebacks_show_the_source(self):
        try:
            self.module.C().method()
        except ValueError:
            self.assertIn("# the marked line", traceback.format_exc())

    def test_annotations_that_are_strings(self):
        self.assertIs(typing.get_type_hints(self.module.D)["a"], self.module.C)
        self.assertEqual([field.name for field in dataclasses.fields(self.module.D)], ["a"])

    def test_resources(self):
        p = self.importer.import_module("p")
        files = importlib.resources.files(p)
        self.assertEqual((files / "d" / "t.txt").read_text(), "text")
        self.assertEqual(files.joinpath("b.bin").read_bytes(), b"\0\1")
        self.assertEqual(
            sorted(entry.name for entry in files.iterdir()), ["__init__.py", "b.bin", "d", "m.py"]
        )
        self.assertTrue((files / "d").is_dir() and not (files / "none").is_file())
        with (files / "d" / "t.txt").open() as stream:
            self.assertEqual(stream.read(), "text")
        with importlib.resources.as_file(files / "b.bin") as path:
            self.assertEqual(path.read_bytes(), b"\0\1")
        self.assertEqual(pkgutil.get_data(p.__name__, "b.bin"), b"\0\1")
        self.assertEqual(self.importer.load_binary("p", "b.bin"), b"\0\1")
        with self.assertRaises(FileNotFoundError):
            self.importer.load_binary("p", "none")


class Pickles(Case):
    def test_names_resolve_in_the_package(self):
        class_of = "ccollections\nOrderedDict\n(tR."
        importer = self.package(
            {
                "m.py": "class C: pass\n",
                "data/c.pkl": b"\x80\x03cm\nC\n)\x81q\x00.",
                "data/o.pkl": class_of,
                "data/undeclared.pkl": b"\x80\x03cjson.decoder\nJSONDecoder\n)\x81q\x00.",
                "data/nested.pkl": b"\x80\x04\x8c\x01m\x8c\x01C\x93.",
            },
            externs=["collections"],
        )
        loaded = importer.load_pickle("data", "c.pkl")
        self.assertIs(type(loaded), importer.import_module("m").C)
        self.assertIs(importer.load_pickle("data", "nested.pkl"), type(loaded))
        self.assertEqual(importer.load_pickle("data", "o.pkl"), {})
        with self.assertRaises(ModuleNotFoundError):
            importer.load_pickle("data", "undeclared.pkl")

    def test_reduce_package_is_called_with_the_importer(self):
        stream = io.BytesIO()
        shared = object()

        class Pickler(pickle.Pickler):
            def persistent_id(self, obj):
                if obj is shared:
                    return "reduce_package", 7, importlib.import_module("operator").attrgetter("x"), ()
                return None

        # attrgetter("x")(importer) is the importer's attribute `x`.
        Pickler(stream, 3).dump([shared, shared])
        importer = self.package({"d/x.pkl": stream.getvalue()}, externs=["operator"])
        importer.x = object()
        self.assertEqual(importer.load_pickle("d", "x.pkl"), [importer.x, importer.x])


class Movables(Case):
    def move(self, obj):
        data, storages, buffers, packages, copied = movable.dump(obj)
        lent = []
        for owner, address, size, kind, *_ in storages:
            self.assertEqual((owner.data_ptr(), owner.nbytes(), kind), (address, size, 1))
            lent.append((torch.empty(0, dtype=torch.uint8).set_(owner), size))
        return movable.load(data, lent, buffers), packages, copied

    def test_objects_of_packaged_classes(self):
        importer = self.package({"m.py": "class C:\n    def __init__(self): self.x = 1\n"})
        moved, packages, _ = self.move(importer.import_module("m").C())
        self.assertIs(type(moved), importer.import_module("m").C)
        self.assertEqual((moved.x, packages), (1, [importer.identity]))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
    def test_numpy_arrays_share_their_memory(self):
        import numpy

        whole = numpy.arange(12.0).reshape(3, 4)
        moved, _, copied = self.move({"c": whole, "f": numpy.asfortranarray(whole), "s": whole[:, 1]})
        self.assertEqual(copied, [])
        for key, value in moved.items():
            numpy.testing.assert_array_equal(value, {"c": whole, "f": whole, "s": whole[:, 1]}[key])
        self.assertEqual(moved["c"].ctypes.data, whole.ctypes.data)
        moved["c"][0, 0] = 99
        self.assertEqual(whole[0, 0], 99)

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_tensors_stay_tied(self):
        base = torch.arange(12.0)
        model = torch.nn.Linear(3, 3)
        obj = {
            "view": base[2:8:2],
            "transposed": base.view(3, 4).t(),
            "base": base,
            "model": model,
            "tied": model.weight,
            "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
            "as_int": base.view(torch.int32),
            "empty": torch.empty(0, 3),
            "meta": torch.empty(2, 3, device="meta"),
            "bf16": torch.ones(3, dtype=torch.bfloat16),
            "f8": torch.ones(3).to(torch.float8_e4m3fn),
            "u16": torch.ones(3).to(torch.uint16),
            "conj": torch.ones(3, dtype=torch.complex64).conj(),
            "bool": torch.tensor([True, False]),
            "storage": base.untyped_storage(),
        }
        moved, _, copied = self.move(obj)
        self.assertEqual(copied, [])
        for key, value in obj.items():
            if not isinstance(value, torch.Tensor):
                continue
            other = moved[key]
            self.assertEqual(
                (type(other), other.dtype, other.shape, other.stride(), other.requires_grad),
                (type(value), value.dtype, value.shape, value.stride(), value.requires_grad),
            )
            if key not in ("meta", "empty"):
                self.assertEqual(other.data_ptr(), value.data_ptr(), key)
        self.assertTrue(moved["conj"].is_conj())
        self.assertIs(moved["tied"], moved["model"].weight)
        self.assertEqual(
            moved["view"].untyped_storage()._cdata, moved["base"].untyped_storage()._cdata
        )
        self.assertEqual(moved["storage"].data_ptr(), base.data_ptr())
        moved["base"][2] = -5
        self.assertEqual(float(obj["view"][0]), -5)

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_tensor_subclasses_sparse_and_quantised(self):
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.note = "kept"
        sparse = torch.eye(4).to_sparse()
        quantised = torch.quantize_per_tensor(torch.ones(4), 0.1, 3, torch.quint8)
        moved, _, copied = self.move([parameter, sparse, sparse.to_sparse_csr(), quantised])
        self.assertEqual(copied, [])
        self.assertEqual(moved[0].note, "kept")
        self.assertEqual(moved[0].data_ptr(), parameter.data_ptr())
        self.assertTrue(torch.equal(moved[1].to_dense(), torch.eye(4)))
        self.assertEqual(moved[1]._values().data_ptr(), sparse._values().data_ptr())
        self.assertTrue(torch.equal(moved[2].to_dense(), torch.eye(4)))
        self.assertTrue(torch.equal(moved[3].dequantize(), quantised.dequantize()))
        self.assertEqual(moved[3].data_ptr(), quantised.data_ptr())

    @unittest.skipUnless(HAS_TORCH, "torch is not installed")
    def test_torchscript_shares_its_parameters_and_says_what_is_copied(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)

            def forward(self, x):
                return self.linear(x)

        net = torch.jit.trace(Net().eval(), torch.ones(1, 3))
        moved, _, copied = self.move(net)
        self.assertEqual(moved.linear.weight.data_ptr(), net.linear.weight.data_ptr())
        self.assertTrue(torch.equal(moved(torch.ones(1, 3)), net(torch.ones(1, 3))))
        self.assertEqual(len(copied), 1)


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class StockArchives(Case):
    """Stock torch.package exports archives, and results are compared with stock torch.package's loads."""

    def export(self, save, extern=("torch.**", "numpy.**", "sys", "io")):
        from torch.package import PackageExporter

        path = os.path.join(self.folder.name, "stock.pt")
        with PackageExporter(path) as exporter:
            exporter.extern(list(extern))
            save(exporter)
        return path

    def load(self, path):
        host = Host(path)
        importer = host.install()
        self.addCleanup(package.remove, host.identity)
        return importer

    def test_tied_weights_views_and_repeated_loads(self):
        weight = torch.nn.Parameter(torch.randn(4, 4))
        obj = {"a": weight, "b": weight, "row": weight.data[1], "u": weight.data.untyped_storage()}
        path = self.export(lambda e: e.save_pickle("data", "x.pkl", obj))
        importer = self.load(path)
        loaded = importer.load_pickle("data", "x.pkl")
        self.assertIs(loaded["a"], loaded["b"])
        self.assertTrue(torch.equal(loaded["a"], weight))
        self.assertEqual(loaded["row"].data_ptr(), loaded["a"].data_ptr() + 16)
        again = importer.load_pickle("data", "x.pkl")
        self.assertEqual(again["a"].data_ptr(), loaded["a"].data_ptr())

    def test_torchscript_and_graph_modules(self):
        import torch.package.package_exporter as exporting

        script = torch.jit.script(torch.nn.Linear(3, 2))
        graph = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()))
        exporting._gate_torchscript_serialization = False
        path = self.export(
            lambda e: e.save_pickle("data", "x.pkl", {"s": script, "t": script, "g": graph})
        )
        importer = self.load(path)
        loaded = importer.load_pickle("data", "x.pkl")
        x = torch.ones(2, 3)
        self.assertTrue(torch.equal(loaded["s"](x), script(x)))
        self.assertTrue(torch.equal(loaded["g"](x), graph(x)))
        self.assertIs(loaded["s"], loaded["t"])
        pointers = {address for address, _ in self.ranges(importer)}
        self.assertIn(loaded["s"].weight.data_ptr(), pointers)

    def ranges(self, importer):
        for record in importer.archive.names:
            if record.endswith(".storage"):
                tensor = importer.archive.storage(record)
                yield tensor.data_ptr(), tensor.numel()

    @unittest.skipUnless(importlib.util.find_spec("torchvision"), "torchvision is not installed")
    def test_torchvision_models_agree_with_stock(self):
        import torchvision
        from torch.package import PackageImporter

        for name in ("mobilenet_v3_small", "resnet18"):
            torch.manual_seed(0)
            model = getattr(torchvision.models, name)(weights=None).eval()

            def save(exporter):
                exporter.extern("PIL.**")
                exporter.intern("torchvision.**")
                exporter.save_pickle("model", "model.pkl", model)

            path = self.export(save)
            importer = self.load(path)
            ours = importer.load_pickle("model", "model.pkl")
            stock = PackageImporter(path).load_pickle("model", "model.pkl")
            self.assertIsNot(type(ours), type(model))
            x = torch.randn(1, 3, 224, 224)
            with torch.no_grad():
                self.assertTrue(torch.equal(ours(x), stock(x)), name)
                self.assertTrue(torch.equal(ours(x), model(x)), name)
            mapped = {address for address, _ in self.ranges(importer)}
            for key, tensor in ours.state_dict().items():
                self.assertIn(tensor.data_ptr(), mapped, key)
            self.assertEqual(inspect.getsource(type(ours)), inspect.getsource(type(model)))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    if HAS_TORCH:
        import torch
    for present, name in ((HAS_TORCH, "torch"), (HAS_NUMPY, "numpy")):
        if not present:
            print(f"{name} is not installed for {sys.executable}: its areas are left out")
    unittest.main(warnings="ignore")
