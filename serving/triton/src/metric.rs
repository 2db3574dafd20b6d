//! Metrics of models among the server's.

use crate::error::{self, Result, c_text};
use crate::parameter::Made;
use crate::sys::{self, Error, core};
use hydrozoa_models::host::{MetricFamily, MetricSeries};
use hydrozoa_models::{Code, Failure};
use std::collections::BTreeMap;
use std::sync::Arc;

/// `TRITONSERVER_MetricKind`, by its numbers.
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];
const HISTOGRAM: usize = 2;

/// A family of the server's.
pub(crate) struct Family {
    family: *mut sys::MetricFamily,
    kind: usize,
}

// SAFETY: Triton's metrics may be used by any thread.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

impl Family {
    pub(crate) fn new(name: &str, description: &str, kind: &str) -> Result<Self> {
        let kind = KINDS
            .iter()
            .position(|known| *known == kind)
            .ok_or_else(|| Failure::new(Code::InvalidArgument, "Unknown metric kind"))?;
        let (name, description) = (c_text(name)?, c_text(description)?);
        // SAFETY: the texts end with NUL, and Triton copies them.
        let family = unsafe {
            error::pointer(|family| {
                let new = core().TRITONSERVER_MetricFamilyNew;
                new(family, kind as _, name.as_ptr(), description.as_ptr())
            })
        }?;
        Ok(Self { family, kind })
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: it is the family's only end: its series keep it.
        unsafe {
            error::log("a metric's end", (core().TRITONSERVER_MetricFamilyDelete)(self.family));
        }
    }
}

/// A series of the server's.
struct Series {
    metric: *mut sys::Metric,
    _family: Arc<Family>,
}

// SAFETY: as for `Family`.
unsafe impl Send for Series {}
// SAFETY: as for `Family`.
unsafe impl Sync for Series {}

impl Series {
    fn new(
        family: Arc<Family>,
        labels: &BTreeMap<String, String>,
        buckets: &[f64],
    ) -> Result<Self> {
        let mut made = Made::default();
        labels.iter().try_for_each(|(name, value)| made.text(name, value))?;
        let (first, count) = (made.all().as_ptr(), made.all().len() as u64);
        let core = core();
        // SAFETY: the family and the labels are valid; the buckets are, until the arguments have copied them.
        let metric = unsafe {
            if family.kind == HISTOGRAM {
                let args = error::pointer(|args| (core.TRITONSERVER_MetricArgsNew)(args))?;
                let set = core.TRITONSERVER_MetricArgsSetHistogram;
                let set = error::check(set(args, buckets.as_ptr(), buckets.len() as u64));
                let metric = set.and_then(|()| {
                    error::pointer(|metric| {
                        let new = core.TRITONSERVER_MetricNewWithArgs;
                        new(metric, family.family, first, count, args)
                    })
                });
                error::log("a histogram's buckets", (core.TRITONSERVER_MetricArgsDelete)(args));
                metric
            } else {
                let new = core.TRITONSERVER_MetricNew;
                error::pointer(|metric| new(metric, family.family, first, count))
            }
        }?;
        Ok(Self { metric, _family: family })
    }

    fn change(
        &self,
        change: unsafe extern "C" fn(*mut sys::Metric, f64) -> *mut Error,
        value: f64,
    ) -> std::result::Result<(), String> {
        // SAFETY: the metric is valid, and the function is one of those that change one.
        unsafe { error::check(change(self.metric, value)) }.map_err(|failure| failure.message)
    }
}

impl Drop for Series {
    fn drop(&mut self) {
        // SAFETY: it is the metric's only end, and the family outlives it.
        unsafe { error::log("a metric's end", (core().TRITONSERVER_MetricDelete)(self.metric)) };
    }
}

impl MetricFamily for Family {
    fn series(
        self: Arc<Self>,
        labels: BTreeMap<String, String>,
        buckets: Vec<f64>,
    ) -> std::result::Result<Arc<dyn MetricSeries>, String> {
        match Series::new(self, &labels, &buckets) {
            Ok(series) => Ok(Arc::new(series)),
            Err(failure) => Err(failure.message),
        }
    }
}

impl MetricSeries for Series {
    fn increment(&self, by: f64) -> std::result::Result<(), String> {
        self.change(core().TRITONSERVER_MetricIncrement, by)
    }

    fn set(&self, to: f64) -> std::result::Result<(), String> {
        self.change(core().TRITONSERVER_MetricSet, to)
    }

    fn observe(&self, value: f64) -> std::result::Result<(), String> {
        self.change(core().TRITONSERVER_MetricObserve, value)
    }

    fn value(&self) -> std::result::Result<f64, String> {
        // SAFETY: the metric is valid.
        let value =
            unsafe { error::value(|value| (core().TRITONSERVER_MetricValue)(self.metric, value)) };
        value.map_err(|failure| failure.message)
    }
}
