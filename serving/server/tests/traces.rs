//! Requests as spans of OpenTelemetry.

mod common;

use common::{FLOATS, PATIENCE, Site, floats, until};
use opentelemetry::trace::{SpanId, Status, TraceId};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::time::{Duration, Instant};

/// Sleeps, and fails for a negative number.
const MODEL: &str = "
import time

class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.03)
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, 'IN').as_numpy()
            if array.min() < 0:
                raise ValueError('negative')
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('OUT', array)]))
        return responses
";

/// Spans that have ended, when there are so many.
fn spans(exporter: &InMemorySpanExporter, count: usize) -> Vec<SpanData> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let spans = exporter.get_finished_spans().unwrap();
        if spans.len() >= count {
            assert_eq!(spans.len(), count, "{spans:#?}");
            exporter.reset();
            return spans;
        }
        assert!(Instant::now() < deadline, "{spans:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn named<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"))
}

/// How many executions have begun.
fn executions(site: &Site) -> u64 {
    site.service.server().model("m", None).unwrap().instances()[0].executions
}

fn took(span: &SpanData) -> Duration {
    span.end_time.duration_since(span.start_time).unwrap()
}

fn attribute(span: &SpanData, key: &str) -> String {
    let found = span.attributes.iter().find(|pair| pair.key.as_str() == key);
    found.unwrap_or_else(|| panic!("no {key}: {span:#?}")).value.to_string()
}

// One test: the process has one provider, and a service takes it when it is made.
#[test]
fn a_request_is_a_span_of_its_clients_trace() {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    opentelemetry::global::set_tracer_provider(provider);
    let site = Site::new();
    let config = format!("{FLOATS} model_transaction_policy {{ decoupled: false }}");
    site.model("m", &config, MODEL);
    let parent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let mut request = floats(&[1, 1], &[1.0]);
    request["id"] = "seven".into();
    let post = |path: &str, headers: &[(&str, &str)], body: &str| {
        site.request("POST", path, headers, body.as_bytes())
    };
    post("/v2/models/m/infer", &[parent], &request.to_string()).ok();
    let found = spans(&exporter, 3);
    let whole = named(&found, "request");
    let trace = TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap();
    assert_eq!(whole.span_context.trace_id(), trace);
    assert_eq!(whole.parent_span_id, SpanId::from_hex("b7ad6b7169203331").unwrap());
    assert_eq!(whole.status, Status::Ok);
    for (key, value) in [
        ("model.name", "m"),
        ("model.version", "1"),
        ("request.id", "seven"),
        ("network.protocol.name", "http"),
    ] {
        assert_eq!(attribute(whole, key), value);
    }
    let (queue, compute) = (named(&found, "queue"), named(&found, "compute"));
    for part in [queue, compute] {
        assert_eq!(part.parent_span_id, whole.span_context.span_id());
        assert!(
            part.start_time >= whole.start_time && part.end_time <= whole.end_time,
            "{found:#?}"
        );
    }
    assert!(took(compute) >= Duration::from_millis(30), "{found:#?}");
    assert!(took(queue) + took(compute) <= took(whole) + Duration::from_millis(1), "{found:#?}");

    // Without a parent, with an error of the model.
    let negative = floats(&[1, 1], &[-1.0]).to_string();
    post("/v2/models/m/infer", &[], &negative);
    let found = spans(&exporter, 3);
    let whole = named(&found, "request");
    assert_eq!(whole.parent_span_id, SpanId::INVALID);
    let Status::Error { description } = &whole.status else { panic!("{whole:#?}") };
    assert!(description.contains("negative"), "{description}");

    // Refused before it was in a queue.
    post("/v2/models/m/infer", &[parent], "{").error(400);
    let found = spans(&exporter, 1);
    assert!(matches!(&found[0].status, Status::Error { .. }), "{found:#?}");

    // The client does not want it traced.
    let silent = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    post("/v2/models/m/infer", &[silent], &request.to_string()).ok();

    // As plain JSON.
    post("/v2/models/m/generate", &[parent], r#"{"IN": 2.0}"#).ok();
    let found = spans(&exporter, 3);
    assert_eq!(named(&found, "request").span_context.trace_id(), trace);

    // A client that goes away.
    drop({
        let before = executions(&site);
        let connection = site.send(common::whole("/v2/models/m/infer", &request.to_string()));
        // A connection that ends before the request is read does not count as a request.
        until("an instance's request", || executions(&site) > before);
        connection
    });
    let found = spans(&exporter, 1);
    assert_eq!(found[0].status, Status::error("the request was cancelled"));
}
