//! One request, one response.

use crate::common::inference::infer_parameter::ParameterChoice;
use crate::common::inference::{InferTensorContents, ModelInferRequest};
use crate::common::{
    DOUBLE, FLOATS, Service, as_floats, config_of, floats, numpy_types, output, parameter, raw,
    tensor, text,
};
use hydrozoa_models::{DataType, decode_bytes, encode_bytes};
use hydrozoa_server::grpc::Options;
use tonic::Code;
use tonic::codec::CompressionEncoding;

/// Returns its input, whose name is its type.
const ECHO: &str = "
class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        (tensor,) = request.inputs()
        return [pb_utils.InferenceResponse([pb_utils.Tensor(tensor.name(), tensor.as_numpy())])]
";

/// The elements one and zero.
fn contents(data_type: DataType) -> Option<InferTensorContents> {
    let mut contents = InferTensorContents::default();
    match data_type {
        DataType::Bool => contents.bool_contents = vec![true, false],
        DataType::Uint8 | DataType::Uint16 | DataType::Uint32 => {
            contents.uint_contents = vec![1, 0]
        }
        DataType::Uint64 => contents.uint64_contents = vec![1, 0],
        DataType::Int8 | DataType::Int16 | DataType::Int32 => contents.int_contents = vec![1, 0],
        DataType::Int64 => contents.int64_contents = vec![1, 0],
        DataType::Fp32 => contents.fp32_contents = vec![1.0, 0.0],
        DataType::Fp64 => contents.fp64_contents = vec![1.0, 0.0],
        DataType::Bytes => contents.bytes_contents = vec!["one".into(), "".into()],
        _ => return None,
    }
    Some(contents)
}

/// The bytes of one and zero.
fn bytes(data_type: DataType) -> Vec<u8> {
    let size = data_type.size().unwrap_or_default();
    let mut one = match data_type {
        DataType::Bytes => return encode_bytes([&b"one"[..], b""]).to_vec(),
        DataType::Fp16 => vec![0, 0x3c],
        DataType::Fp32 => 1f32.to_le_bytes().to_vec(),
        DataType::Fp64 => 1f64.to_le_bytes().to_vec(),
        _ => vec![1],
    };
    one.resize(2 * size, 0);
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn all_types_of_elements_come_as_bytes_and_one_by_one() {
    let service = Service::start(Options::default()).await;
    service.model("echo", &config_of(numpy_types(), "[ -1 ]"), ECHO);
    let mut client = service.client().await;
    for data_type in numpy_types() {
        let input = tensor(data_type.name(), data_type.name(), &[2]);
        let mut requests = vec![raw("echo", input.clone(), bytes(data_type))];
        if let Some(contents) = contents(data_type) {
            let mut typed = raw("echo", input, Vec::new());
            typed.raw_input_contents.clear();
            typed.inputs[0].contents = Some(contents);
            requests.push(typed);
        }
        for request in requests {
            let response = client.model_infer(request).await.unwrap().into_inner();
            assert_eq!(response.raw_output_contents, [bytes(data_type)], "{data_type}");
            let output = &response.outputs[0];
            assert_eq!((output.datatype.as_str(), &output.shape[..]), (data_type.name(), &[2][..]));
            assert!(output.contents.is_none());
        }
    }
}

/// Says what it has got of a request.
const WHO: &str = "
import json

class TritonPythonModel:
    def execute(self, requests):
        (request,) = requests
        said = dict(
            id=request.request_id(), correlation=request.correlation_id(), flags=request.flags(),
            timeout=request.timeout(), given=json.loads(request.parameters()),
            outputs=sorted(request.requested_output_names()))
        tensors = [pb_utils.Tensor(name, request.inputs()[0].as_numpy()) for name in ('OUT', 'OTHER')]
        return [pb_utils.InferenceResponse(tensors, parameters={'said': json.dumps(said), 'count': 3, 'is': True})]
";

#[tokio::test(flavor = "multi_thread")]
async fn a_request_and_its_response_have_parameters() {
    let service = Service::start(Options::default()).await;
    let outputs = r#"output { name: "OTHER" data_type: TYPE_FP32 dims: -1 }"#;
    service.model("who", &format!("{FLOATS} {outputs}"), WHO);
    let mut client = service.client().await;
    let mut request = ModelInferRequest {
        id: "me".to_owned(),
        outputs: vec![output("OTHER")],
        ..floats("who", &[1.0, 3.0, 2.0])
    };
    for (name, value) in [
        ("sequence_id", parameter(ParameterChoice::Int64Param(7))),
        ("sequence_start", parameter(ParameterChoice::BoolParam(true))),
        ("sequence_end", parameter(ParameterChoice::BoolParam(true))),
        ("timeout", parameter(ParameterChoice::Int64Param(5_000_000))),
        ("priority", parameter(ParameterChoice::Uint64Param(2))),
        ("triton_enable_empty_final_response", parameter(ParameterChoice::BoolParam(true))),
        ("own", parameter(ParameterChoice::DoubleParam(0.5))),
        ("text", text("words")),
    ] {
        request.parameters.insert(name.to_owned(), value);
    }
    let response = client.model_infer(request.clone()).await.unwrap().into_inner();
    assert_eq!(
        (response.id.as_str(), response.model_name.as_str(), response.model_version.as_str()),
        ("me", "who", "1")
    );
    assert_eq!(response.outputs.iter().map(|output| &output.name).collect::<Vec<_>>(), ["OTHER"]);
    let said =
        |response: &crate::common::inference::ModelInferResponse| match response.parameters["said"]
            .parameter_choice
            .clone()
        {
            Some(ParameterChoice::StringParam(said)) => said,
            other => panic!("{other:?}"),
        };
    assert_eq!(
        said(&response),
        r#"{"id": "me", "correlation": 7, "flags": 3, "timeout": 5000000, "given": {"own": 0.5, "text": "words"}, "outputs": ["OTHER"]}"#
    );
    assert_eq!(response.parameters["count"], parameter(ParameterChoice::Int64Param(3)));
    assert_eq!(response.parameters["is"], parameter(ParameterChoice::BoolParam(true)));

    request.parameters.insert("sequence_id".to_owned(), text("mine"));
    let class = parameter(ParameterChoice::Int64Param(2));
    request.outputs[0].parameters.insert("classification".to_owned(), class);
    let response = client.model_infer(request).await.unwrap().into_inner();
    assert!(said(&response).contains(r#""correlation": "mine""#));
    let output = &response.outputs[0];
    assert_eq!((output.datatype.as_str(), &output.shape[..]), ("BYTES", &[1, 2][..]));
    let classes = decode_bytes(&response.raw_output_contents[0]).unwrap();
    assert_eq!(classes, [b"3.000000:1", b"2.000000:2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_may_be_compressed() {
    let service = Service::start(Options { compress_responses: true, ..Options::default() }).await;
    service.model("double", FLOATS, DOUBLE);
    let plain = service.client().await;
    let zipped = plain.clone().send_compressed(CompressionEncoding::Gzip);
    for mut client in [plain, zipped.accept_compressed(CompressionEncoding::Gzip)] {
        let response = client.model_infer(floats("double", &[1.5; 1000])).await.unwrap();
        assert_eq!(as_floats(response.get_ref()), [3.0; 1000]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_tritons_codes_and_words() {
    let service = Service::start(Options::default()).await;
    let fails = "
class TritonPythonModel:
    def execute(self, requests):
        if requests[0].request_id():
            error = pb_utils.TritonError('not now', pb_utils.TritonError.UNAVAILABLE)
            return [pb_utils.InferenceResponse([], error)]
        raise ValueError('the model says so')
";
    service.model("fails", FLOATS, fails);
    service.model("many", &crate::common::decoupled(), crate::common::REPEAT);
    let mut client = service.client().await;
    let request = || floats("fails", &[1.0]);
    for (request, code, words) in [
        (floats("no", &[1.0]), Code::NotFound, "Request for unknown model: 'no' is not found"),
        (
            ModelInferRequest { model_version: "2".to_owned(), ..request() },
            Code::NotFound,
            "Request for unknown model: 'fails' version 2 is not found",
        ),
        (
            floats("many", &[1.0]),
            Code::Unimplemented,
            "ModelInfer RPC doesn't support models with decoupled transaction policy",
        ),
        (
            request(),
            Code::Internal,
            "Failed to process the request(s) for model 'fails_0_0', message: ValueError: the model says so",
        ),
        (ModelInferRequest { id: "id".to_owned(), ..request() }, Code::Unavailable, "not now"),
    ] {
        let status = client.model_infer(request).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (code, words));
    }
}
