//! Models that call other models, and metrics of their own.

mod common;

use common::{FLOATS, Repository, answer, decoupled, floats, until};

#[test]
fn responses_of_decoupled_models_are_awaited_at_once() {
    let repository = Repository::new();
    let slow = "
import asyncio

class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.sleep(0.3)
        for request in requests:
            tensor = pb_utils.Tensor('OUT', request.inputs()[0].as_numpy())
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([tensor]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
";
    let asks = "
import asyncio, time

class TritonPythonModel:
    async def one(self, value):
        tensor = pb_utils.Tensor('IN', np.full((1, 1), value, np.float32))
        request = pb_utils.InferenceRequest(model_name='slow', inputs=[tensor], requested_output_names=['OUT'])
        responses = await request.async_exec(decoupled=True)
        return [float(one.output_tensors()[0].as_numpy()[0, 0]) for one in responses if one.output_tensors()]

    async def execute(self, requests):
        begin = time.monotonic()
        seen = await asyncio.gather(*map(self.one, range(10)))
        assert seen == [[value] for value in range(10)], seen
        took = np.array([time.monotonic() - begin], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', took)])]
";
    repository.model("slow", &decoupled(), slow);
    let took = answer(&repository.model("asks", FLOATS, asks), floats(&[0.0]))[0];
    assert!((0.3..2.0).contains(&took), "{took} s for ten that wait 0.3 s each");
}

#[test]
fn metrics_that_make_no_sense_raise_what_models_of_triton_expect() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def refused(self, call):
        try:
            call()
        except pb_utils.TritonModelException as error:
            return str(error)
        raise AssertionError('nothing was raised')

    def execute(self, requests):
        histogram = pb_utils.MetricFamily(name='sizes', description='', kind=pb_utils.MetricFamily.HISTOGRAM)
        assert 'buckets' in self.refused(lambda: histogram.Metric(labels={}))
        assert 'ascending' in self.refused(lambda: histogram.Metric(labels={}, buckets=[2.5, 0.1]))
        assert 'ascending' in self.refused(lambda: histogram.Metric(labels={}, buckets=[1, 1]))
        histogram.Metric(labels={}, buckets=[]).observe(1)
        gauge = pb_utils.MetricFamily(name='level', description='', kind=pb_utils.MetricFamily.GAUGE)
        level = gauge.Metric(labels={})
        level.set(3)
        del gauge
        for call in (lambda: level.set(1), lambda: level.increment(1), level.value):
            assert 'has been deleted' in self.refused(call)
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([1], np.float32))])]
";
    assert_eq!(answer(&repository.model("metrics", FLOATS, code), floats(&[0.0])), [1.0]);
}

#[test]
fn a_models_own_metrics_are_reported() {
    let repository = Repository::new();
    let code = "
class TritonPythonModel:
    def initialize(self, args):
        self.family = pb_utils.MetricFamily(
            name='requests_seen', description='Requests', kind=pb_utils.MetricFamily.COUNTER)
        self.metric = self.family.Metric(labels={'model': args['model_name']})

    def execute(self, requests):
        self.metric.increment(len(requests))
        try:
            self.metric.increment(-1)
        except pb_utils.TritonModelException as error:
            pb_utils.Logger.log_info(str(error))
        else:
            raise AssertionError
        import numpy as np
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', np.array([self.metric.value()], np.float32))])]
";
    let model = repository.model("metrics", FLOATS, code);
    assert_eq!([1.0, 2.0].map(|_| answer(&model, floats(&[0.0]))), [[1.0], [2.0]]);
    assert!(repository.server.metrics().text().contains("requests_seen{model=\"metrics\"} 2\n"));
    drop(model);
    repository.server.unload("metrics").unwrap();
    until("the end of the metrics", || repository.server.metrics().text().is_empty());
}
