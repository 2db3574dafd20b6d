"""a model that onnx checks, sessions with threads, shapes inferred, a typed error"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, shape_inference
from onnx.reference import ReferenceEvaluator


def model():
    weight = np.random.default_rng(2).standard_normal((8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Softmax", ["p"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes, "work", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8, 1, 1])], [onnx.numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def work(tell):
    made = model()
    onnx.checker.check_model(made, full_check=True)
    tell("shapes", [value.name for value in shape_inference.infer_shapes(made).graph.value_info])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(3).standard_normal((2, 3, 24, 24)).astype(np.float32)
    outputs = [session.run(None, {"x": x * (i + 1)})[0] for i in range(10)]
    tell("outputs", outputs)
    tell("reference", bool(np.allclose(ReferenceEvaluator(made).run(None, {"x": x})[0], outputs[0], atol=1e-5)))
    tell("binary", made.SerializeToString(deterministic=True))
    try:
        session.run(None, {"x": x[0]})
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument as error:
        tell("error", type(error).__name__)
