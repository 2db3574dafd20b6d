"""protoc inside the process, the generated messages and stubs"""

import importlib.util
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pool
from grpc_tools import protoc

PROTO = """syntax = "proto3"; package generated;
message Item { string name = 1; repeated int32 sizes = 2; map<string, double> more = 3; oneof one { int64 a = 4; bytes b = 5; } }
service Things { rpc Find (Item) returns (stream Item); }
"""


def work(tell):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "thing.proto").write_text(PROTO)
        status = protoc.main(
            ["protoc", f"-I{name}", f"--python_out={name}", f"--grpc_python_out={name}", f"--pyi_out={name}", "thing.proto"]
        )
        tell("status", status)
        for file in sorted(folder.glob("*.py*")):
            tell(file.name, file.read_text())
        if "thing_pb2" not in sys.modules:
            spec = importlib.util.spec_from_file_location("thing_pb2", folder / "thing_pb2.py")
            sys.modules["thing_pb2"] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules["thing_pb2"])
    Item = sys.modules["thing_pb2"].Item
    item = Item(name="n", sizes=range(50), more={"x": 0.5}, b=b"\1")
    tell("bytes", item.SerializeToString(deterministic=True))
    tell("one", Item.FromString(item.SerializeToString()).WhichOneof("one"))
    tell("pool", descriptor_pool.Default().FindServiceByName("generated.Things").full_name)
