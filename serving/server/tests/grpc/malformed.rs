//! Requests that make no sense.

use crate::common::inference::infer_parameter::ParameterChoice;
use crate::common::inference::{InferTensorContents, ModelInferRequest};
use crate::common::{Service, as_floats, output, parameter, tensor, text};
use bytes::{Buf, BufMut, Bytes};
use hydrozoa_server::grpc::Options;
use prost::Message;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

/// Takes floats in a batch, and texts if there are some.
const CONFIG: &str = r#"
max_batch_size: 4
input { name: "A" data_type: TYPE_FP32 dims: [ 2, -1 ] }
input { name: "B" data_type: TYPE_STRING dims: [ -1 ] optional: true }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1, -1 ] }
"#;

const MODEL: &str = "
class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb_utils.Tensor('OUT', request.inputs()[0].as_numpy()) for request in requests]
        return [pb_utils.InferenceResponse([tensor]) for tensor in tensors]
";

/// Takes floats of any two extents.
const FLAT: &str = r#"
input { name: "A" data_type: TYPE_FP32 dims: [ -1, -1 ] }
output { name: "OUT" data_type: TYPE_FP32 dims: [ -1, -1 ] }
"#;

/// A request that makes sense: floats of shape [1, 2, 1], and two texts.
fn right() -> ModelInferRequest {
    ModelInferRequest {
        model_name: "m".to_owned(),
        inputs: vec![tensor("A", "FP32", &[1, 2, 1]), tensor("B", "BYTES", &[1, 2])],
        raw_input_contents: vec![
            [1f32.to_le_bytes(), 2f32.to_le_bytes()].concat().into(),
            b"\x01\0\0\0x\0\0\0\0".to_vec().into(),
        ],
        ..ModelInferRequest::default()
    }
}

/// Such a request whose floats are given one by one.
fn typed(contents: InferTensorContents) -> ModelInferRequest {
    let mut request = right();
    request.inputs.truncate(1);
    request.raw_input_contents.clear();
    request.inputs[0].contents = Some(contents);
    request
}

/// Extents that no tensor of two floats has, and some that nothing has.
fn shapes(all: &mut Vec<ModelInferRequest>) {
    let extents =
        [i64::MIN, -1, 0, 1, 2, 3, 4, 5, 1 << 31, (1 << 32) + 2, 1 << 61, 1 << 62, i64::MAX];
    let mut add = |shape: &[i64]| {
        // A shape of the right size that the model takes is not a mistake.
        if shape != [1, 2, 1] {
            let mut request = right();
            request.inputs[0].shape = shape.to_vec();
            all.push(request);
        }
    };
    add(&[]);
    for first in extents {
        add(&[first]);
        add(&[first, 1]);
        for last in extents {
            add(&[first, 2, last]);
        }
        add(&[1, first, 1, 1]);
    }
    // No elements, and an extent that no array has.
    for extent in [1 << 61, 1 << 62, i64::MAX] {
        for shape in [[0, extent], [extent, 0]] {
            let inputs = vec![tensor("A", "FP32", &shape)];
            let raw_input_contents = vec![Vec::new().into()];
            let model_name = "flat".to_owned();
            all.push(ModelInferRequest { model_name, inputs, raw_input_contents, ..right() });
        }
    }
    for first in extents {
        let mut request = right();
        request.inputs[1].shape = vec![1, first];
        if first != 2 {
            all.push(request);
        }
    }
}

/// Bytes that are cut, or more than the shape has.
fn sizes(all: &mut Vec<ModelInferRequest>) {
    for (place, size) in [(0, 8), (1, 9)] {
        for length in (0..size).chain(size + 1..size + 12) {
            let mut request = right();
            let mut data = request.raw_input_contents[place].to_vec();
            data.resize(length, 0xff);
            request.raw_input_contents[place] = data.into();
            all.push(request);
        }
    }
    for byte in 0..8 {
        // The length of a text.
        let mut request = right();
        let mut data = request.raw_input_contents[1].to_vec();
        data[if byte < 4 { byte } else { byte + 1 }] ^= 0x80;
        request.raw_input_contents[1] = data.into();
        all.push(request);
    }
    for count in [0, 1, 3, 4] {
        let mut request = right();
        request.raw_input_contents.resize(count, Vec::new().into());
        all.push(request);
    }
}

/// Names and types that are others.
fn names(all: &mut Vec<ModelInferRequest>) {
    let types = [
        "",
        "FP31",
        "TYPE_FP32",
        "fp32",
        "BOOL",
        "UINT8",
        "UINT32",
        "INT32",
        "INT64",
        "FP16",
        "BF16",
        "FP64",
        "BYTES",
        "\0",
    ];
    for datatype in types {
        let mut request = right();
        request.inputs[0].datatype = datatype.to_owned();
        all.push(request);
    }
    for name in ["", "B", "C", "a", "A\0", "\u{20ac}", &"\n".repeat(100_000)] {
        let mut request = right();
        request.inputs[0].name = name.to_owned();
        all.push(request);
        let mut request = right();
        request.outputs = vec![output(name)];
        all.push(request);
    }
    for inputs in
        [vec![], vec![tensor("B", "BYTES", &[1, 2])], vec![tensor("A", "FP32", &[1, 2, 1]); 2]]
    {
        let raw_input_contents = right().raw_input_contents[..inputs.len()].to_vec();
        all.push(ModelInferRequest { inputs, raw_input_contents, ..right() });
    }
    for version in ["-1", "x", "1.0", " 1", "9223372036854775808", "1\0"] {
        all.push(ModelInferRequest { model_version: version.to_owned(), ..right() });
    }
}

/// Elements one by one that do not fit.
fn contents(all: &mut Vec<ModelInferRequest>) {
    let none = InferTensorContents::default;
    for contents in [
        none(),
        InferTensorContents { bool_contents: vec![true; 2], ..none() },
        InferTensorContents { int_contents: vec![1; 2], ..none() },
        InferTensorContents { int64_contents: vec![1; 2], ..none() },
        InferTensorContents { uint_contents: vec![1; 2], ..none() },
        InferTensorContents { uint64_contents: vec![1; 2], ..none() },
        InferTensorContents { fp64_contents: vec![1.0; 2], ..none() },
        InferTensorContents { bytes_contents: vec!["x".into(); 2], ..none() },
        InferTensorContents { fp32_contents: vec![1.0; 2], fp64_contents: vec![1.0; 2], ..none() },
    ] {
        all.push(typed(contents));
    }
    for count in [1, 3, 4, 1000] {
        all.push(typed(InferTensorContents { fp32_contents: vec![1.0; count], ..none() }));
    }
    // Both kinds in one request.
    let mut request = right();
    request.inputs[0].contents =
        Some(InferTensorContents { fp32_contents: vec![1.0; 2], ..none() });
    all.push(request);
    for (datatype, value) in
        [("INT8", 128), ("INT8", -129), ("INT16", 1 << 15), ("INT16", i32::MIN)]
    {
        let mut request = typed(InferTensorContents { int_contents: vec![value; 2], ..none() });
        request.inputs[0].datatype = datatype.to_owned();
        all.push(request);
    }
}

/// Parameters of the wrong type or value.
fn parameters(all: &mut Vec<ModelInferRequest>) {
    let choices = || {
        [
            parameter(ParameterChoice::BoolParam(true)),
            parameter(ParameterChoice::Int64Param(-1)),
            text("x"),
            parameter(ParameterChoice::DoubleParam(f64::NAN)),
            parameter(ParameterChoice::Uint64Param(u64::MAX)),
            Default::default(),
        ]
    };
    let names = [
        ("sequence_id", &[0, 3, 4, 5][..]),
        ("sequence_start", &[1, 2, 3, 4, 5]),
        ("sequence_end", &[1, 2, 3, 4, 5]),
        ("priority", &[0, 1, 2, 3, 5]),
        ("timeout", &[0, 1, 2, 3, 4, 5]),
        ("triton_enable_empty_final_response", &[1, 2, 3, 4, 5]),
        ("triton_other", &[0, 1, 2, 3, 4, 5]),
        ("own", &[4, 5]),
    ];
    for (name, wrong) in names {
        for place in wrong {
            let mut request = right();
            request.parameters.insert(name.to_owned(), choices()[*place].clone());
            all.push(request);
        }
    }
    for name in ["shared_memory_region", "shared_memory_offset", "shared_memory_byte_size"] {
        for choice in choices() {
            if name == "shared_memory_region" && choice == text("x") {
                continue;
            }
            let mut request = right();
            request.inputs[0].parameters.insert(name.to_owned(), choice.clone());
            all.push(request);
            let mut request = right();
            request.outputs = vec![output("OUT")];
            request.outputs[0].parameters.insert(name.to_owned(), choice);
            all.push(request);
        }
    }
    for choice in choices() {
        let mut request = right();
        request.outputs = vec![output("OUT")];
        request.outputs[0].parameters.insert("classification".to_owned(), choice);
        all.push(request);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused_and_the_server_goes_on() {
    let service = Service::start(Options::default()).await;
    service.model("m", CONFIG, MODEL);
    service.model("flat", FLAT, MODEL);
    let mut all = Vec::new();
    shapes(&mut all);
    sizes(&mut all);
    names(&mut all);
    contents(&mut all);
    parameters(&mut all);
    assert!(all.len() >= 400, "{}", all.len());
    let mut client = service.client().await;
    let mut wrong = Vec::new();
    for request in all {
        match client.model_infer(request.clone()).await {
            Err(status)
                if status.code() == Code::InvalidArgument && !status.message().is_empty() => {}
            answer => wrong.push(format!("{request:?}\n  {answer:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let response = client.model_infer(right()).await.unwrap();
    assert_eq!(as_floats(response.get_ref()), [1.0, 2.0]);
    assert_eq!(service.server.model("m", None).unwrap().statistics().executions, 1);
}

/// Bytes as they are, in place of messages.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, bytes: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(&bytes);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A message with some of its bytes changed, cut or doubled. The same number gives the same message.
fn mutated(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let mut next = |below: usize| random.usize(..below.max(1));
    let mut bytes = match next(3) {
        0 => typed(InferTensorContents { fp32_contents: vec![1.0; 2], ..Default::default() }),
        _ => right(),
    }
    .encode_to_vec();
    for _ in 0..=next(4) {
        let place = next(bytes.len());
        match next(6) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, next(256) as u8),
            2 if !bytes.is_empty() => drop(bytes.remove(place)),
            // A length or an extent that nothing has.
            3 => drop(bytes.splice(place..place, [0xff; 9].into_iter().take(1 + next(9)))),
            4 => {
                let end = (place + 1 + next(20)).min(bytes.len());
                let again = bytes[place..end].to_vec();
                bytes.splice(place..place, again);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << next(8);
                }
            }
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_message_are_refused_and_the_server_goes_on() {
    let service = Service::start(Options::default()).await;
    service.model("m", CONFIG, MODEL);
    let mut client = Grpc::new(service.channel().await);
    let variable = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect(name))
    };
    let count = variable("HYDROZOA_TEST_MALFORMED", 500);
    let first = variable("HYDROZOA_TEST_SEED", 0);
    let mut refused = 0;
    for number in first..first + count {
        client.ready().await.unwrap();
        let path = "/inference.GRPCInferenceService/ModelInfer".parse().unwrap();
        let answer = client.unary(Request::new(mutated(number)), path, Plain).await;
        match answer {
            // Some changes make another request that makes sense.
            Ok(_) => {}
            Err(status) => {
                refused += 1;
                // The model's name or version may be another.
                let codes = [Code::InvalidArgument, Code::NotFound];
                assert!(codes.contains(&status.code()), "{number}: {status:?}");
            }
        }
    }
    assert!(refused > count / 2, "{refused}");
    let response = service.client().await.model_infer(right()).await.unwrap();
    assert_eq!(as_floats(response.get_ref()), [1.0, 2.0]);
}
