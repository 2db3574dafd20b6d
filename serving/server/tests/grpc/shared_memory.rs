//! Inputs and outputs in memory that client and server share.

use crate::common::inference::infer_parameter::ParameterChoice;
use crate::common::inference::*;
use crate::common::shared_object::SharedObject;
use crate::common::{Client, DOUBLE, FLOATS, Service, output, parameter, tensor, text};
use hydrozoa_server::grpc::Options;
use tonic::{Code, Status};

async fn start() -> Service {
    let service =
        Service::start_for(|settings| settings.client_shared_memory = true, Options::default());
    let service = service.await;
    service.model("double", FLOATS, DOUBLE);
    service
}

async fn register(
    client: &mut Client,
    object: &SharedObject,
    byte_size: u64,
) -> Result<(), Status> {
    let request = SystemSharedMemoryRegisterRequest {
        name: "r".to_owned(),
        key: object.key.clone(),
        offset: 0,
        byte_size,
    };
    client.system_shared_memory_register(request).await.map(drop)
}

type Parameters = std::collections::BTreeMap<String, InferParameter>;

fn part(offset: i64, size: i64) -> Parameters {
    let number = |value| parameter(ParameterChoice::Int64Param(value));
    let all = [
        ("shared_memory_region", text("r")),
        ("shared_memory_offset", number(offset)),
        ("shared_memory_byte_size", number(size)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A request whose input of two floats is in shared memory, and whose output goes there.
fn request(input: Parameters, output_place: Parameters) -> ModelInferRequest {
    let mut given = tensor("IN", "FP32", &[1, 2]);
    given.parameters = input;
    let mut wanted = output("OUT");
    wanted.parameters = output_place;
    ModelInferRequest {
        model_name: "double".to_owned(),
        inputs: vec![given],
        outputs: vec![wanted],
        ..ModelInferRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tensors_may_be_in_shared_memory() {
    let service = start().await;
    let mut client = service.client().await;
    let object = SharedObject::new("both", 64);
    object.write(8, &[1.5, -2.0]);
    register(&mut client, &object, 64).await.unwrap();
    let taken = register(&mut client, &object, 64).await.unwrap_err();
    assert_eq!(taken.code(), Code::AlreadyExists);
    assert_eq!(taken.message(), "shared memory region 'r' already in manager");
    let asked = SystemSharedMemoryStatusRequest::default();
    let status = client.system_shared_memory_status(asked).await.unwrap().into_inner();
    let region = &status.regions["r"];
    assert_eq!((&region.key, region.offset, region.byte_size), (&object.key, 0, 64));

    let both = request(part(8, 8), part(32, 16));
    let answer = client.model_infer(both.clone()).await.unwrap().into_inner();
    assert_eq!(
        (answer.outputs[0].name.as_str(), &answer.outputs[0].shape[..]),
        ("OUT", &[1, 2][..])
    );
    // Each output has an entry, so that clients find the others.
    assert_eq!(answer.raw_output_contents, [Vec::<u8>::new()]);
    assert_eq!(object.read(32, 6), [3.0, -4.0, 0.0, 0.0, 0.0, 0.0]);

    // The same in a stream.
    object.write(32, &[0.0; 2]);
    let sent = tonic::codegen::tokio_stream::iter([both.clone()]);
    let mut stream = client.model_stream_infer(sent).await.unwrap().into_inner();
    let answer = stream.message().await.unwrap().unwrap();
    assert_eq!(answer.error_message, "");
    assert_eq!(object.read(32, 2), [3.0, -4.0]);

    object.file.set_len(20).unwrap();
    let cut = client.model_infer(both.clone()).await.unwrap_err();
    assert_eq!(cut.code(), Code::InvalidArgument);
    assert!(cut.message().contains("'r' has changed since it was registered"), "{cut:?}");
    object.file.set_len(64).unwrap();
    client.model_infer(both.clone()).await.unwrap();
    let all = SystemSharedMemoryUnregisterRequest::default();
    client.system_shared_memory_unregister(all).await.unwrap();
    let gone = client.model_infer(both).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert_eq!(gone.message(), "Unable to find shared memory region: 'r'");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_memory_that_makes_no_sense_is_refused() {
    let service = start().await;
    let mut client = service.client().await;
    let object = SharedObject::new("wrong", 64);
    let large = register(&mut client, &object, 65).await.unwrap_err();
    assert_eq!(large.message(), "failed to register shared memory region 'r': invalid args");
    register(&mut client, &object, 64).await.unwrap();
    let without = |name: &str| {
        let mut parameters = part(0, 8);
        parameters.remove(name);
        parameters
    };
    let mut with_contents = request(part(0, 8), Parameters::new());
    with_contents.inputs[0].contents =
        Some(InferTensorContents { fp32_contents: vec![1.0; 2], ..Default::default() });
    let mut with_raw = request(part(0, 8), Parameters::new());
    with_raw.raw_input_contents.push(vec![0; 8].into());
    let mut classes = part(8, 8);
    classes.insert("classification".to_owned(), parameter(ParameterChoice::Int64Param(1)));
    for (request, words) in [
        (request(part(64, 0), Parameters::new()), "Invalid offset for shared memory region: 'r'"),
        (request(part(-1, 8), Parameters::new()), "Invalid offset for shared memory region: 'r'"),
        (request(part(60, 8), Parameters::new()), "Invalid offset + byte size for shared memory"),
        (request(part(0, -8), Parameters::new()), "Invalid offset + byte size for shared memory"),
        (request(part(0, 4), Parameters::new()), "input byte size mismatch for input 'IN'"),
        (
            request(without("shared_memory_byte_size"), Parameters::new()),
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region'",
        ),
        (
            request(without("shared_memory_region"), Parameters::new()),
            "can not be specified without 'shared_memory_region' parameter for tensor 'IN'",
        ),
        (with_contents, "unexpected 'content' provided when using shared memory"),
        (with_raw, "1 raw_input_contents for 0 inputs"),
        (
            request(part(0, 8), classes),
            "can't set both 'shared_memory_region' and 'classification'",
        ),
        (request(part(0, 8), part(8, 4)), "output 'OUT' (4 bytes) should be at least 8 bytes"),
    ] {
        let status = client.model_infer(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(words), "{}", status.message());
    }
    let request = CudaSharedMemoryRegisterRequest { name: "c".to_owned(), ..Default::default() };
    let status = client.cuda_shared_memory_register(request).await.unwrap_err();
    assert!(status.message().ends_with("'c', GPUs not supported"), "{status:?}");
    let all = CudaSharedMemoryUnregisterRequest::default();
    client.cuda_shared_memory_unregister(all).await.unwrap();
}
