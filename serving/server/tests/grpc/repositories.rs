//! Health, models, configurations, statistics and repositories.

use crate::common::health::HealthCheckRequest;
use crate::common::health::health_check_response::ServingStatus;
use crate::common::inference::model_repository_parameter::ParameterChoice;
use crate::common::inference::*;
use crate::common::{DOUBLE, FLOATS, Service, as_floats, blocks, crashes, floats, source, until};
use hydrozoa_server::grpc::Options;
use tonic::{Code, Status};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_tells_what_it_is() {
    let service = Service::start(Options::default()).await;
    let config = format!(
        "{FLOATS} version_policy {{ all {{}} }} parameters {{ key: \"k\" value {{ string_value: \"v\" }} }}"
    );
    service.write("double", 2, &config, DOUBLE);
    service.model("double", &config, DOUBLE);
    let mut client = service.client().await;
    let server = client.server_metadata(ServerMetadataRequest {}).await.unwrap().into_inner();
    assert_eq!((server.name.as_str(), server.version.as_str()), ("triton", "0.1.0"));
    assert!(server.extensions.iter().any(|extension| extension == "statistics"));

    let about = |version: &str| ModelMetadataRequest {
        name: "double".to_owned(),
        version: version.to_owned(),
    };
    let model = client.model_metadata(about("")).await.unwrap().into_inner();
    assert_eq!((model.name.as_str(), model.platform.as_str()), ("double", "python"));
    assert_eq!(model.versions, ["1", "2"]);
    let input = &model.inputs[0];
    assert_eq!((input.name.as_str(), input.datatype.as_str()), ("IN", "FP32"));
    assert_eq!((&input.shape[..], &model.outputs[0].shape[..]), (&[-1, -1][..], &[-1, -1][..]));
    let model = client.model_metadata(about("1")).await.unwrap().into_inner();
    assert_eq!(model.versions, ["1"]);
    let status = client.model_metadata(about("3")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    let request = ModelConfigRequest { name: "double".to_owned(), version: String::new() };
    let config = client.model_config(request).await.unwrap().into_inner().config.unwrap();
    assert_eq!((config.max_batch_size, config.backend.as_str()), (8, "python"));
    assert_eq!(
        (config.input[0].dims.as_slice(), config.input[0].data_type()),
        (&[-1][..], DataType::TypeFp32)
    );
    assert_eq!(config.parameters["k"].string_value, "v");
    assert_eq!(config.instance_group[0].count, 1);

    client.model_infer(floats("double", &[1.0])).await.unwrap();
    client.model_infer(floats("double", &[])).await.unwrap();
    let mut wrong = floats("double", &[1.0]);
    wrong.inputs[0].shape = vec![1, 7];
    client.model_infer(wrong).await.unwrap_err();
    let request = ModelStatisticsRequest { name: "double".to_owned(), version: "2".to_owned() };
    let all = client.model_statistics(request).await.unwrap().into_inner().model_stats;
    assert_eq!((all.len(), all[0].version.as_str()), (1, "2"));
    assert_eq!((all[0].inference_count, all[0].execution_count), (2, 2));
    let inference = all[0].inference_stats.unwrap();
    let (success, fail) = (inference.success.unwrap(), inference.fail.unwrap());
    assert_eq!((success.count, fail.count), (2, 1));
    assert!(success.ns > 0 && inference.compute_infer.unwrap().ns > 0);
    let calls = all[0].batch_stats.iter().map(|batch| batch.compute_infer.unwrap().count);
    assert_eq!(calls.sum::<u64>(), 2);
    assert!(all[0].batch_stats.iter().all(|batch| batch.batch_size == 1));
    let all = client.model_statistics(ModelStatisticsRequest::default()).await.unwrap();
    assert_eq!(all.into_inner().model_stats.len(), 2);
}

fn load(name: &str) -> RepositoryModelLoadRequest {
    RepositoryModelLoadRequest { model_name: name.to_owned(), ..Default::default() }
}

fn unload(name: &str) -> RepositoryModelUnloadRequest {
    RepositoryModelUnloadRequest { model_name: name.to_owned(), ..Default::default() }
}

fn refused<T: std::fmt::Debug>(answer: Result<tonic::Response<T>, Status>) -> (Code, String) {
    let status = answer.unwrap_err();
    (status.code(), status.message().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_loaded_and_unloaded() {
    let service = Service::start(Options::default()).await;
    service.write("double", 1, FLOATS, DOUBLE);
    service.write("broken", 1, FLOATS, "import nothing_of_this_name");
    let mut client = service.client().await;
    let mut health = service.health().await;
    let mut states = async |ready: bool| {
        let request = RepositoryIndexRequest { ready, ..Default::default() };
        let models = client.repository_index(request).await.unwrap().into_inner().models;
        let line = |model: repository_index_response::ModelIndex| {
            format!("{} {} {}", model.name, model.version, model.state)
        };
        models.into_iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(states(false).await, ["broken  UNAVAILABLE", "double  UNAVAILABLE"]);
    let mut client = service.client().await;
    client.repository_model_load(load("double")).await.unwrap();
    assert_eq!(states(true).await, ["double 1 READY"]);
    let about = |version: &str| ModelReadyRequest {
        name: "double".to_owned(),
        version: version.to_owned(),
    };
    for (version, expected) in [("", true), ("1", true), ("2", false)] {
        let answer = client.model_ready(about(version)).await.unwrap().into_inner();
        assert_eq!(answer.ready, expected, "{version}");
    }
    assert_eq!(refused(client.model_ready(about("x")).await).0, Code::InvalidArgument);
    let of = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for name in ["", "inference.GRPCInferenceService"] {
        let answer = health.check(of(name)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
    assert_eq!(refused(health.check(of("no")).await).0, Code::NotFound);

    // A model that cannot be loaded makes the server unready until it is unloaded.
    let (code, words) = refused(client.repository_model_load(load("broken")).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        words.starts_with("failed to load 'broken'") && words.contains("nothing_of_this_name"),
        "{words}"
    );
    assert!(!client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    assert!(client.server_live(ServerLiveRequest {}).await.unwrap().into_inner().live);
    let answer = health.check(of("")).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    client.repository_model_unload(unload("broken")).await.unwrap();
    assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);

    client.repository_model_unload(unload("double")).await.unwrap();
    assert!(!client.model_ready(about("")).await.unwrap().into_inner().ready);
    let (code, words) = refused(client.model_infer(floats("double", &[1.0])).await);
    assert_eq!(
        (code, words.as_str()),
        (Code::Unavailable, "Request for model 'double', which is not ready")
    );
    // Unloading a model that was never loaded succeeds.
    client.repository_model_unload(unload("no")).await.unwrap();
    let (code, words) = refused(client.repository_model_load(load("../double")).await);
    assert_eq!(code, Code::NotFound);
    assert!(words.starts_with("failed to load '../double'"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_send_a_configuration_and_files() {
    let service =
        Service::start_for(|settings| settings.client_files = true, Options::default()).await;
    let mut client = service.client().await;
    let parameter = |choice| ModelRepositoryParameter { parameter_choice: Some(choice) };
    let config = |size: &str| {
        let tensor = |name| {
            format!("[{{\"name\": \"{name}\", \"data_type\": \"TYPE_FP32\", \"dims\": [-1]}}]")
        };
        let (input, output) = (tensor("IN"), tensor("OUT"));
        let text =
            format!("{{\"max_batch_size\": {size}, \"input\": {input}, \"output\": {output}}}");
        ("config".to_owned(), parameter(ParameterChoice::StringParam(text)))
    };
    let file = |name: &str| {
        (format!("file:{name}"), parameter(ParameterChoice::BytesParam(source(DOUBLE).into())))
    };
    let request = |parameters: Vec<_>| RepositoryModelLoadRequest {
        model_name: "given".to_owned(),
        parameters: parameters.into_iter().collect(),
        ..Default::default()
    };
    let whole = request(vec![config("\"16\""), file("1/model.py")]);
    client.repository_model_load(whole).await.unwrap();
    let asked = ModelConfigRequest { name: "given".to_owned(), ..Default::default() };
    let answer = client.model_config(asked).await.unwrap().into_inner();
    assert_eq!(answer.config.unwrap().max_batch_size, 16);
    let answer = client.model_infer(floats("given", &[2.0])).await.unwrap();
    assert_eq!(as_floats(answer.get_ref()), [4.0]);
    let long = request(vec![config("1"), file(&"A".repeat(256))]);
    let (code, words) = refused(client.repository_model_load(long).await);
    assert_eq!(code, Code::Internal);
    assert!(words.contains("failed to poll from model repository"), "{words}");
    client.model_infer(floats("given", &[2.0])).await.unwrap();

    let service = Service::start(Options::default()).await;
    let whole = request(vec![config("\"16\""), file("1/model.py")]);
    let (code, words) = refused(service.client().await.repository_model_load(whole).await);
    assert_eq!(code, Code::Unimplemented);
    assert!(words.contains("--allow-client-files=true"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_does_not_do_is_refused_in_tritons_words() {
    let service =
        Service::start_for(|settings| settings.client_files = true, Options::default()).await;
    let mut client = service.client().await;
    let with = |name: &str, choice| RepositoryModelLoadRequest {
        model_name: "m".to_owned(),
        parameters: [(
            name.to_owned(),
            ModelRepositoryParameter { parameter_choice: Some(choice) },
        )]
        .into(),
        ..Default::default()
    };
    for (request, code, words) in [
        (
            with("config", ParameterChoice::BoolParam(true)),
            Code::InvalidArgument,
            "invalid value type for load parameter 'config', expected string_param.",
        ),
        (
            with("config", ParameterChoice::StringParam("{".to_owned())),
            Code::NotFound,
            "failed to load 'm', no repository has a model `m`",
        ),
        (
            with("file:1/model.py", ParameterChoice::BytesParam("".into())),
            Code::InvalidArgument,
            "failed to load 'm', model `m`: the load's files need a `config`",
        ),
        (
            with("file:1/model.py", ParameterChoice::StringParam(String::new())),
            Code::InvalidArgument,
            "expected bytes_param.",
        ),
        (
            with("no", ParameterChoice::BoolParam(true)),
            Code::InvalidArgument,
            "unrecognized load parameter 'no'.",
        ),
        (
            RepositoryModelLoadRequest { repository_name: "r".to_owned(), ..load("m") },
            Code::Unimplemented,
            "'repository_name' specification is not supported",
        ),
    ] {
        let (got, message) = refused(client.repository_model_load(request).await);
        assert!(got == code && message.contains(words), "{got}: {message}");
    }
    let answer = client.trace_setting(TraceSettingRequest::default()).await;
    assert_eq!(
        refused(answer),
        (Code::Unavailable, "the server does not support trace".to_owned())
    );
    let answer = client.log_settings(LogSettingsRequest::default()).await;
    assert_eq!(
        refused(answer),
        (Code::Unavailable, "the server does not support dynamic logging".to_owned())
    );

    let status =
        client.system_shared_memory_status(SystemSharedMemoryStatusRequest::default()).await;
    assert!(status.unwrap().into_inner().regions.is_empty());
    let status = client.cuda_shared_memory_status(CudaSharedMemoryStatusRequest::default()).await;
    assert!(status.unwrap().into_inner().regions.is_empty());
    let request = SystemSharedMemoryStatusRequest { name: "r".to_owned() };
    assert_eq!(refused(client.system_shared_memory_status(request).await).0, Code::NotFound);
    let request = CudaSharedMemoryStatusRequest { name: "r".to_owned() };
    assert_eq!(refused(client.cuda_shared_memory_status(request).await).0, Code::NotFound);
    let codes = [
        refused(
            client
                .system_shared_memory_register(SystemSharedMemoryRegisterRequest::default())
                .await,
        ),
        refused(
            client
                .system_shared_memory_unregister(SystemSharedMemoryUnregisterRequest::default())
                .await,
        ),
        refused(
            client.cuda_shared_memory_register(CudaSharedMemoryRegisterRequest::default()).await,
        ),
        refused(
            client
                .cuda_shared_memory_unregister(CudaSharedMemoryUnregisterRequest::default())
                .await,
        ),
    ];
    assert!(codes.iter().all(|(code, _)| *code == Code::Unimplemented), "{codes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_instance_makes_its_model_and_the_server_unready_until_it_is_replaced() {
    let service = Service::start(Options::default()).await;
    service.model("double", FLOATS, DOUBLE);
    let gate = service.path().join("gate");
    let (config, model) = blocks(&gate);
    service.model("blocks", &config, &model);
    let (mut client, mut health) = (service.client().await, service.health().await);
    let model = |name: &str| ModelReadyRequest { name: name.to_owned(), ..Default::default() };
    let (code, words) = refused(client.model_infer(floats("blocks", &[1.0])).await);
    assert_eq!(code, Code::Internal);
    assert!(words.contains("does not react to the interrupt"), "{words}");
    assert!(!client.model_ready(model("blocks")).await.unwrap().into_inner().ready);
    assert!(client.model_ready(model("double")).await.unwrap().into_inner().ready);
    assert!(!client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
    let whole = HealthCheckRequest { service: String::new() };
    let answer = health.check(whole).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::NotServing);
    let index = client.repository_index(RepositoryIndexRequest::default()).await.unwrap();
    let index = index.into_inner().models.into_iter();
    let states: Vec<_> = index.map(|model| (model.name, model.state)).collect();
    let of = |name: &str, state: &str| (name.to_owned(), state.to_owned());
    assert_eq!(states, [of("blocks", "UNAVAILABLE"), of("double", "READY")]);
    client.model_infer(floats("double", &[1.0])).await.unwrap();
    std::fs::remove_file(&gate).unwrap();
    until("readiness", || service.server.is_ready("blocks", "")).await;
    assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_is_an_internal_error_over_grpc_and_the_model_is_unready_until_it_is_replaced() {
    let service = Service::start(Options::default()).await;
    service.model("double", FLOATS, DOUBLE);
    let gate = service.path().join("gate");
    let (config, model) = crashes(&gate);
    service.model("crashes", &config, &model);
    let mut client = service.client().await;
    let model = |name: &str| ModelReadyRequest { name: name.to_owned(), ..Default::default() };
    std::fs::write(&gate, "").unwrap();
    let (code, words) = refused(client.model_infer(floats("crashes", &[-1.0])).await);
    assert_eq!(code, Code::Internal);
    assert!(
        words.starts_with("model 'crashes' (instance 'crashes_0_0') has crashed: SIGSEGV in "),
        "{words}"
    );
    assert!(!client.model_ready(model("crashes")).await.unwrap().into_inner().ready);
    assert!(client.model_ready(model("double")).await.unwrap().into_inner().ready);
    client.model_infer(floats("double", &[1.0])).await.unwrap();
    std::fs::remove_file(&gate).unwrap();
    until("readiness", || service.server.is_ready("crashes", "")).await;
    client.model_infer(floats("crashes", &[1.0])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_asked_whether_it_is_ready_by_either_protocol() {
    let service = Service::start(Options::default()).await;
    let code = "
class TritonPythonModel:
    def initialize(self, args):
        self.is_good = args['model_name'] == 'yes'

    def execute(self, requests):
        return []

    async def is_ready(self):
        return self.is_good
";
    let mut client = service.client().await;
    for (name, expected) in [("yes", true), ("no", false)] {
        service.model(name, FLOATS, code);
        let request = ModelReadyRequest { name: name.to_owned(), ..Default::default() };
        let answer = client.model_ready(request).await.unwrap().into_inner();
        assert_eq!(answer.ready, expected, "{name}");
    }
    // The server's own readiness is another matter.
    assert!(client.server_ready(ServerReadyRequest {}).await.unwrap().into_inner().ready);
}
