//! The methods of the protocol.

use super::admission::{Admission, Permit};
use super::body::Held;
use super::connections::Info;
use super::life::{Life, Readiness};
use super::proto::inference::grpc_inference_service_server::GrpcInferenceService;
use super::proto::inference::system_shared_memory_status_response::RegionStatus;
use super::proto::inference::*;
use super::status::status;
use super::{Options, models, request, stream};
use crate::access::Client;
use crate::inference::shared_memory;
use crate::service::{Service, blocking};
use hydrozoa_models::{Code, Failure};
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};

/// Answers calls.
#[derive(Clone)]
pub(super) struct Inference {
    pub(super) service: Service,
    pub(super) options: Arc<Options>,
    pub(super) admission: Arc<Admission>,
    pub(super) life: Life,
    pub(super) readiness: Readiness,
}

impl Inference {
    /// The client of a request.
    fn client<T>(&self, request: &Request<T>) -> Client {
        let met = request.extensions().get::<Info>().map(|info| &info.met);
        Client::of(&self.service, met, request.metadata().as_ref())
    }

    /// Runs blocking work, on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Status> {
        let service = self.service.clone();
        let outcome = tokio::task::spawn_blocking(move || work(&service)).await;
        outcome.map_err(|error| Status::internal(error.to_string()))?.map_err(status)
    }
}

/// The error for a missing feature, in Triton's words for a server that is built without it.
fn without(feature: &str) -> Status {
    Status::unavailable(format!("the server does not support {feature}"))
}

/// A name, or all.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

#[tonic::async_trait]
impl GrpcInferenceService for Inference {
    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        Ok(Response::new(ServerReadyResponse { ready: self.readiness.is_ready() }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let ModelReadyRequest { name, version } = request.into_inner();
        let version = request::version(&version).map_err(status)?;
        let ready = match self.service.server().model(&name, version) {
            Ok(model) => blocking(move || model.ask()).await.is_none(),
            Err(_) => false,
        };
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: self.service.settings().id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: self.service.extensions().into_iter().map(str::to_owned).collect(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let ModelMetadataRequest { name, version } = request.into_inner();
        let work = move |service: &Service| models::metadata(service, &name, &version);
        self.blocking(work).await.map(Response::new)
    }

    async fn model_config(
        &self,
        request: Request<ModelConfigRequest>,
    ) -> Result<Response<ModelConfigResponse>, Status> {
        let ModelConfigRequest { name, version } = request.into_inner();
        let work = move |service: &Service| models::config(service, &name, &version);
        self.blocking(work).await.map(Response::new)
    }

    async fn model_statistics(
        &self,
        request: Request<ModelStatisticsRequest>,
    ) -> Result<Response<ModelStatisticsResponse>, Status> {
        let ModelStatisticsRequest { name, version } = request.into_inner();
        let work = move |service: &Service| models::statistics(service, &name, &version);
        self.blocking(work).await.map(Response::new)
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        self.infer(request).await
    }

    type ModelStreamInferStream = BoxStream<ModelStreamInferResponse>;

    async fn model_stream_infer(
        &self,
        mut request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Self::ModelStreamInferStream>, Status> {
        let permit = request.extensions_mut().remove::<Permit>();
        let held = request.extensions_mut().remove::<Held>();
        let ends_at_error =
            request.metadata().get("triton_grpc_error").is_some_and(|value| value == "true");
        let headers = request.metadata().as_ref().clone();
        let inbound = request.into_inner();
        Ok(Response::new(stream::start(self, headers, inbound, (permit, held), ends_at_error)))
    }

    async fn repository_index(
        &self,
        request: Request<RepositoryIndexRequest>,
    ) -> Result<Response<RepositoryIndexResponse>, Status> {
        let RepositoryIndexRequest { repository_name, ready } = request.into_inner();
        let work = move |service: &Service| models::index(service, &repository_name, ready);
        let models = self.blocking(work).await?;
        Ok(Response::new(RepositoryIndexResponse { models }))
    }

    async fn repository_model_load(
        &self,
        request: Request<RepositoryModelLoadRequest>,
    ) -> Result<Response<RepositoryModelLoadResponse>, Status> {
        let client = self.client(&request);
        let RepositoryModelLoadRequest { repository_name, model_name, parameters } =
            request.into_inner();
        let overrides = models::overrides(&repository_name, parameters).map_err(status)?;
        self.service.load(client, &model_name, overrides).await.map_err(status)?;
        Ok(Response::new(RepositoryModelLoadResponse {}))
    }

    async fn repository_model_unload(
        &self,
        request: Request<RepositoryModelUnloadRequest>,
    ) -> Result<Response<RepositoryModelUnloadResponse>, Status> {
        let client = self.client(&request);
        let RepositoryModelUnloadRequest { repository_name, model_name, parameters } =
            request.into_inner();
        models::check_unload(&repository_name, &parameters).map_err(status)?;
        match self.service.unload(client, &model_name).await {
            Ok(()) => {}
            // A model that was never loaded need not be unloaded. So it is with Triton.
            Err(failure) if failure.code == Code::NotFound => {}
            Err(failure) => return Err(status(failure)),
        }
        Ok(Response::new(RepositoryModelUnloadResponse {}))
    }

    async fn system_shared_memory_status(
        &self,
        request: Request<SystemSharedMemoryStatusRequest>,
    ) -> Result<Response<SystemSharedMemoryStatusResponse>, Status> {
        let SystemSharedMemoryStatusRequest { name } = request.into_inner();
        let found = self.service.regions().status(named(&name)).map_err(status)?;
        let message = |region: &shared_memory::Region| RegionStatus {
            name: region.name.clone(),
            key: region.key.clone(),
            offset: region.offset,
            byte_size: region.byte_size,
        };
        let regions: BTreeMap<_, _> =
            found.iter().map(|region| (region.name.clone(), message(region))).collect();
        Ok(Response::new(SystemSharedMemoryStatusResponse { regions }))
    }

    async fn system_shared_memory_register(
        &self,
        request: Request<SystemSharedMemoryRegisterRequest>,
    ) -> Result<Response<SystemSharedMemoryRegisterResponse>, Status> {
        let SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } =
            request.into_inner();
        self.service.regions().register(&name, &key, offset, byte_size).map_err(status)?;
        Ok(Response::new(SystemSharedMemoryRegisterResponse {}))
    }

    async fn system_shared_memory_unregister(
        &self,
        request: Request<SystemSharedMemoryUnregisterRequest>,
    ) -> Result<Response<SystemSharedMemoryUnregisterResponse>, Status> {
        let SystemSharedMemoryUnregisterRequest { name } = request.into_inner();
        self.service.regions().unregister(named(&name)).map_err(status)?;
        Ok(Response::new(SystemSharedMemoryUnregisterResponse {}))
    }

    async fn cuda_shared_memory_status(
        &self,
        request: Request<CudaSharedMemoryStatusRequest>,
    ) -> Result<Response<CudaSharedMemoryStatusResponse>, Status> {
        match request.into_inner().name {
            name if name.is_empty() => Ok(Response::new(CudaSharedMemoryStatusResponse::default())),
            name => Err(status(shared_memory::not_found("cuda shared memory", &name))),
        }
    }

    async fn cuda_shared_memory_register(
        &self,
        request: Request<CudaSharedMemoryRegisterRequest>,
    ) -> Result<Response<CudaSharedMemoryRegisterResponse>, Status> {
        self.service.regions().check().map_err(status)?;
        Err(status(shared_memory::no_cuda(&request.into_inner().name)))
    }

    async fn cuda_shared_memory_unregister(
        &self,
        _: Request<CudaSharedMemoryUnregisterRequest>,
    ) -> Result<Response<CudaSharedMemoryUnregisterResponse>, Status> {
        self.service.regions().check().map_err(status)?;
        // None is ever registered, so none is left.
        Ok(Response::new(CudaSharedMemoryUnregisterResponse {}))
    }

    async fn trace_setting(
        &self,
        _: Request<TraceSettingRequest>,
    ) -> Result<Response<TraceSettingResponse>, Status> {
        Err(without("trace"))
    }

    async fn log_settings(
        &self,
        _: Request<LogSettingsRequest>,
    ) -> Result<Response<LogSettingsResponse>, Status> {
        Err(without("dynamic logging"))
    }
}
