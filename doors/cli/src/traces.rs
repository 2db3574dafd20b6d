//! Traces of the server's requests, sent to a collector of OpenTelemetry.

use anyhow::{Context, Result, ensure};
use opentelemetry::global;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};

#[derive(clap::Args)]
#[command(next_help_heading = "Traces")]
pub struct TraceOptions {
    /// Send traces to a collector of OpenTelemetry, by OTLP over gRPC: `http://HOST:4317`
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Of requests that belong to no trace of their client, one in N is traced
    #[arg(long, value_name = "N", default_value_t = 1, requires = "otlp_endpoint")]
    trace_rate: u32,
}

/// Traces that are sent until [`Traces::end`].
pub struct Traces(Option<SdkTracerProvider>);

impl TraceOptions {
    /// Begins, in a runtime of tokio, before there is a service. `name` is that of the server.
    pub fn start(&self, name: &str) -> Result<Traces> {
        let Some(endpoint) = &self.otlp_endpoint else { return Ok(Traces(None)) };
        ensure!(
            endpoint.starts_with("http://"),
            "--otlp-endpoint {endpoint}: it must begin with http://; for TLS put a collector beside the server"
        );
        ensure!(self.trace_rate > 0, "--trace-rate must be 1 or more");
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
        let exporter = exporter.with_context(|| format!("--otlp-endpoint {endpoint}"))?;
        let rate = Sampler::TraceIdRatioBased(1.0 / f64::from(self.trace_rate));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(rate)))
            .with_resource(Resource::builder().with_service_name(name.to_owned()).build())
            .build();
        global::set_tracer_provider(provider.clone());
        tracing::info!("traces to {endpoint}");
        Ok(Traces(Some(provider)))
    }
}

impl Traces {
    /// Sends what is left.
    pub fn end(self) {
        if let Some(Err(error)) = self.0.map(|provider| provider.shutdown()) {
            tracing::warn!("the last traces are not sent: {error}");
        }
    }
}
