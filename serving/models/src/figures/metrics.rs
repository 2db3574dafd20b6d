//! Metrics that models define.

use super::prometheus::PrometheusText;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The labels of a series.
type Labels = BTreeMap<String, String>;

/// All families of a server.
#[derive(Default)]
pub struct Metrics(Mutex<BTreeMap<String, Weak<Family>>>);

/// A metric with a name, a description and a kind. It is reported for as long as a model has it.
#[derive(Debug)]
pub(crate) struct Family {
    name: String,
    description: String,
    kind: Kind,
    series: Mutex<Vec<Weak<Series>>>,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The names that Prometheus and Triton's models use.
const KINDS: [(&str, Kind); 3] =
    [("counter", Kind::Counter), ("gauge", Kind::Gauge), ("histogram", Kind::Histogram)];

/// One set of labels of a family.
#[derive(Debug)]
pub(crate) struct Series {
    /// A family lives as long as its series.
    family: Arc<Family>,
    labels: Labels,
    state: Mutex<SeriesValue>,
}

#[derive(Debug, Default)]
struct SeriesValue {
    value: f64,
    /// A histogram's: upper limits, and how many values were at most that.
    buckets: Vec<(f64, u64)>,
    count: u64,
}

impl Metrics {
    /// The family of this name. Models that define one of the same name and kind share it.
    pub(crate) fn family(
        &self,
        name: &str,
        description: &str,
        kind: &str,
    ) -> Result<Arc<Family>, String> {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
        if !name.starts_with(is_first) || !name.chars().all(|c| is_first(c) || c.is_ascii_digit()) {
            return Err(format!(
                "`{name}` is not a metric name: use letters, digits, `_` and `:`, no digit first"
            ));
        }
        let kind =
            KINDS.iter().find(|row| row.0 == kind).map(|row| row.1).ok_or("Unknown metric kind")?;
        let mut families = self.0.lock();
        if let Some(known) = families.get(name).and_then(Weak::upgrade) {
            if known.kind != kind {
                return Err(format!("a metric {name} of another kind is there already"));
            }
            return Ok(known);
        }
        let family = Arc::new(Family {
            name: name.to_owned(),
            description: description.to_owned(),
            kind,
            series: Mutex::default(),
        });
        families.retain(|_, family| family.strong_count() > 0);
        families.insert(name.to_owned(), Arc::downgrade(&family));
        Ok(family)
    }

    /// All of them in Prometheus's text format, version 0.0.4.
    pub fn text(&self) -> String {
        let families: Vec<_> = self.0.lock().values().filter_map(Weak::upgrade).collect();
        let mut text = PrometheusText::default();
        families.iter().for_each(|family| family.write(&mut text));
        text.into_string()
    }
}

impl Family {
    /// The series of these labels.
    pub(crate) fn series(
        self: &Arc<Self>,
        labels: Labels,
        buckets: Vec<f64>,
    ) -> Result<Arc<Series>, String> {
        if !buckets.is_sorted_by(|one, other| one < other)
            || buckets.iter().any(|limit| !limit.is_finite())
        {
            return Err(format!(
                "the buckets of {} must be finite and in ascending order",
                self.name
            ));
        }
        let mut all = self.series.lock();
        all.retain(|series| series.strong_count() > 0);
        if let Some(known) =
            all.iter().filter_map(Weak::upgrade).find(|series| series.labels == labels)
        {
            return Ok(known);
        }
        let state = SeriesValue {
            buckets: buckets.into_iter().map(|limit| (limit, 0)).collect(),
            ..SeriesValue::default()
        };
        let series = Arc::new(Series { family: self.clone(), labels, state: Mutex::new(state) });
        all.push(Arc::downgrade(&series));
        Ok(series)
    }

    fn write(&self, text: &mut PrometheusText) {
        let kind = KINDS.iter().find(|row| row.1 == self.kind).expect("all have names").0;
        text.family(&self.name, &self.description, kind);
        let all: Vec<_> = self.series.lock().iter().filter_map(Weak::upgrade).collect();
        all.iter().for_each(|series| series.write(text));
    }
}

impl Series {
    /// Adds to a counter or gauge.
    pub(crate) fn increment(&self, by: f64) -> Result<(), String> {
        match self.family.kind {
            Kind::Histogram => return Err("a histogram observes".to_owned()),
            Kind::Counter if by.is_nan() || by < 0.0 => {
                return Err("a counter takes no negative value".to_owned());
            }
            _ => self.state.lock().value += by,
        }
        Ok(())
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, to: f64) -> Result<(), String> {
        if self.family.kind != Kind::Gauge {
            return Err("only a gauge can be set".to_owned());
        }
        self.state.lock().value = to;
        Ok(())
    }

    /// Counts a value in a histogram.
    pub(crate) fn observe(&self, value: f64) -> Result<(), String> {
        if self.family.kind != Kind::Histogram {
            return Err("only a histogram observes".to_owned());
        }
        let mut state = self.state.lock();
        state.count += 1;
        state.value += value;
        for (_, count) in state.buckets.iter_mut().filter(|(limit, _)| value <= *limit) {
            *count += 1;
        }
        Ok(())
    }

    pub(crate) fn value(&self) -> f64 {
        self.state.lock().value
    }

    fn write(&self, text: &mut PrometheusText) {
        let (name, state) = (&self.family.name, self.state.lock());
        let labels = || self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        if self.family.kind != Kind::Histogram {
            return text.sample(name, labels(), state.value);
        }
        let limits = state.buckets.iter().map(|(limit, count)| (limit.to_string(), *count));
        let limits: Vec<_> = limits.chain([("+Inf".to_owned(), state.count)]).collect();
        for (limit, count) in &limits {
            text.sample(&format!("{name}_bucket"), labels().chain([("le", &**limit)]), count);
        }
        text.sample(&format!("{name}_sum"), labels(), state.value);
        text.sample(&format!("{name}_count"), labels(), state.count);
    }
}

#[cfg(test)]
mod tests {
    use super::Metrics;
    use std::collections::BTreeMap;

    #[test]
    fn metrics_are_written_as_prometheus_reads_them() {
        let metrics = Metrics::default();
        let requests = metrics.family("requests", "How\nmany", "counter").unwrap();
        let of_model = requests
            .series(BTreeMap::from([("model".to_owned(), "a\"b".to_owned())]), vec![])
            .unwrap();
        of_model.increment(2.0).unwrap();
        assert!(of_model.increment(-1.0).unwrap_err().contains("negative"));
        assert!(of_model.set(1.0).is_err() && of_model.observe(1.0).is_err());
        let sizes = metrics.family("sizes", "", "histogram").unwrap();
        let all = sizes.series(BTreeMap::new(), vec![1.0, 2.5]).unwrap();
        [0.5, 2.0, 9.0].into_iter().for_each(|value| all.observe(value).unwrap());
        let expected = "# HELP requests How\\nmany\n# TYPE requests counter\nrequests{model=\"a\\\"b\"} 2\n\
                        # HELP sizes \n# TYPE sizes histogram\nsizes_bucket{le=\"1\"} 1\nsizes_bucket{le=\"2.5\"} 2\n\
                        sizes_bucket{le=\"+Inf\"} 3\nsizes_sum 11.5\nsizes_count 3\n";
        assert_eq!(metrics.text(), expected);
    }

    #[test]
    fn a_family_is_shared_by_its_name_and_goes_with_its_users() {
        let metrics = Metrics::default();
        let first = metrics.family("level", "", "gauge").unwrap();
        first.series(BTreeMap::new(), vec![]).unwrap();
        let second = metrics.family("level", "", "gauge").unwrap();
        assert!(std::sync::Arc::ptr_eq(&first, &second));
        assert!(metrics.family("level", "", "counter").unwrap_err().contains("another kind"));
        drop((first, second));
        assert_eq!(metrics.text(), "");
        metrics.family("level", "", "counter").unwrap();
        assert!(
            metrics.family("7", "", "gauge").is_err()
                && metrics.family("a", "", "summary").is_err()
        );
    }
}
