//! The figures that prometheus_client has in workers: Prometheus' text format 0.0.4, read and merged.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Families of samples, by their names.
#[derive(Clone, Default)]
pub(crate) struct Exposition(BTreeMap<String, Family>);

/// Samples with one name, help and type.
#[derive(Clone, Default)]
struct Family {
    help: String,
    kind: String,
    /// Series, which are names with labels, in their order: that of buckets counts.
    samples: Vec<(String, f64)>,
    places: HashMap<String, usize>,
}

/// Names of the process's own figures begin so, by Prometheus' convention. The workers share the process.
const OF_PROCESS: &str = "process_";

impl Family {
    fn set(&mut self, series: String, value: f64) {
        match self.places.get(&series) {
            Some(&place) => self.samples[place].1 = value,
            None => {
                self.places.insert(series.clone(), self.samples.len());
                self.samples.push((series, value));
            }
        }
    }

    fn add(&mut self, series: &str, value: f64) {
        match self.places.get(series) {
            Some(&place) => self.samples[place].1 += value,
            None => self.set(series.to_owned(), value),
        }
    }

    /// Whether the workers' samples of a series have a sum.
    fn is_summed(&self, series: &str) -> bool {
        match self.kind.as_str() {
            "counter" | "histogram" => true,
            "summary" => !has_label(series, "quantile"),
            _ => false,
        }
    }
}

impl Exposition {
    /// Reads what prometheus_client writes.
    pub(crate) fn parse(text: &str) -> Self {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut name = String::new();
        for line in text.lines() {
            if let Some((named, help)) = line.strip_prefix("# HELP ").map(first_word) {
                name = named.to_owned();
                families.entry(name.clone()).or_default().help = help.to_owned();
            } else if let Some((named, kind)) = line.strip_prefix("# TYPE ").map(first_word) {
                name = named.to_owned();
                families.entry(name.clone()).or_default().kind = kind.to_owned();
            } else if let (Some((series, value)), Some(family)) =
                (sample(line), families.get_mut(&name))
            {
                family.set(series.to_owned(), value);
            }
        }
        // The times at which series began have no sum.
        let has = |base: &str| {
            let counter = format!("{base}_total");
            families.contains_key(base) || families.contains_key(&counter)
        };
        let times = families.keys().filter(|name| name.strip_suffix("_created").is_some_and(has));
        for name in times.cloned().collect::<Vec<_>>() {
            families.remove(&name);
        }
        Self(families)
    }

    /// The family of this name, if it has the same type.
    fn family(&mut self, name: &str, like: &Family) -> Option<&mut Family> {
        let family = self.0.entry(name.to_owned()).or_insert_with(|| Family {
            help: like.help.clone(),
            kind: like.kind.clone(),
            ..Family::default()
        });
        Some(family).filter(|family| family.kind == like.kind)
    }

    /// Adds the counts of another one: counters, histograms and summaries.
    pub(crate) fn add_counts(&mut self, other: &Self) {
        for (name, like) in &other.0 {
            if name.starts_with(OF_PROCESS) {
                continue;
            }
            let is_summed = |sample: &&(String, f64)| like.is_summed(&sample.0);
            let mut counts = like.samples.iter().filter(is_summed).peekable();
            if counts.peek().is_some()
                && let Some(family) = self.family(name, like)
            {
                counts.for_each(|(series, value)| family.add(series, *value));
            }
        }
    }

    /// Adds everything else of a worker, with its number for a label.
    pub(crate) fn add_gauges(&mut self, other: &Self, worker: usize) {
        for (name, like) in &other.0 {
            if name.starts_with(OF_PROCESS) {
                self.0.entry(name.clone()).or_insert_with(|| like.clone());
                continue;
            }
            let is_gauge = |sample: &&(String, f64)| !like.is_summed(&sample.0);
            let mut gauges = like.samples.iter().filter(is_gauge).peekable();
            if gauges.peek().is_some()
                && let Some(family) = self.family(name, like)
            {
                gauges.for_each(|(series, value)| family.set(labelled(series, worker), *value));
            }
        }
    }

    /// In Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, Family { help, kind, samples, .. }) in &self.0 {
            // A String takes everything.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (series, value) in samples {
                let _ = match value.is_infinite() {
                    true if *value > 0.0 => writeln!(text, "{series} +Inf"),
                    true => writeln!(text, "{series} -Inf"),
                    false => writeln!(text, "{series} {value}"),
                };
            }
        }
        text
    }
}

fn first_word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// The series and the value of a line.
fn sample(line: &str) -> Option<(&str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = match line.find(['{', ' '])? {
        brace if line[brace..].starts_with('{') => brace + labels(&line[brace..]).1?,
        space => space,
    };
    let value = line[end..].split_whitespace().next()?;
    Some((&line[..end], value.parse().ok()?))
}

/// Where the names of labels begin in `{name="value",…}`, and its length.
fn labels(text: &str) -> (Vec<usize>, Option<usize>) {
    let (mut begins, mut is_quoted, mut is_escaped) = (Vec::new(), false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' | b',' if !is_quoted => begins.push(at + 1),
            b'}' if !is_quoted => return (begins, Some(at + 1)),
            _ => {}
        }
    }
    (begins, None)
}

fn has_label(series: &str, name: &str) -> bool {
    let Some(brace) = series.find('{') else { return false };
    let text = &series[brace..];
    let mut begins = labels(text).0.into_iter();
    begins.any(|at| text[at..].strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
}

/// The series with a label for the worker. Its name is another one where the application has that label.
fn labelled(series: &str, worker: usize) -> String {
    let name = if has_label(series, "worker") { "hydrozoa_worker" } else { "worker" };
    match series.strip_suffix('}') {
        Some(begin) => format!("{begin},{name}=\"{worker}\"}}"),
        None => format!("{series}{{{name}=\"{worker}\"}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Exposition;

    const ONE: &str = r#"# HELP a_total Of \\ and more.
# TYPE a_total counter
a_total{path="/} 5,\"x\\"} 2.0
a_total{path="b"} 1.0
# HELP a_created Of
# TYPE a_created gauge
a_created{path="b"} 1.7e+09
# HELP b Of b.
# TYPE b histogram
b_bucket{le="1.0"} 1.0
b_bucket{le="+Inf"} 3.0
b_count 3.0
b_sum 8.5
# HELP c Of c.
# TYPE c gauge
c +Inf
c{worker="of its own"} NaN
# HELP d Of d.
# TYPE d summary
d{quantile="0.5"} 4.0
d_count 1.0 1700000000000
d_sum 4.0
# HELP process_cpu_seconds_total Of all.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 7.0
"#;

    #[test]
    fn counts_are_summed_and_gauges_have_the_number_of_their_worker() {
        let one = Exposition::parse(ONE);
        let other = ONE.replace("path=\"b\"", "path=\"c\"");
        let other = Exposition::parse(&other);
        let mut all = Exposition::default();
        for (number, worker) in [(1, &one), (2, &other)] {
            all.add_counts(worker);
            all.add_gauges(worker, number);
        }
        // Of a worker that has left.
        all.add_counts(&one);
        let expected = r#"# HELP a_total Of \\ and more.
# TYPE a_total counter
a_total{path="/} 5,\"x\\"} 6
a_total{path="b"} 2
a_total{path="c"} 1
# HELP b Of b.
# TYPE b histogram
b_bucket{le="1.0"} 3
b_bucket{le="+Inf"} 9
b_count 9
b_sum 25.5
# HELP c Of c.
# TYPE c gauge
c{worker="1"} +Inf
c{worker="of its own",hydrozoa_worker="1"} NaN
c{worker="2"} +Inf
c{worker="of its own",hydrozoa_worker="2"} NaN
# HELP d Of d.
# TYPE d summary
d_count 3
d_sum 12
d{quantile="0.5",worker="1"} 4
d{quantile="0.5",worker="2"} 4
# HELP process_cpu_seconds_total Of all.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 7
"#;
        assert_eq!(all.text(), expected);
    }

    #[test]
    fn a_family_that_has_become_another_one_is_not_added_to_it() {
        let mut all = Exposition::parse("# HELP a A.\n# TYPE a gauge\na 1\n");
        all.add_counts(&Exposition::parse("# HELP a A.\n# TYPE a counter\na 5\n"));
        assert!(all.text().ends_with("a 1\n"), "{}", all.text());
        assert_eq!(Exposition::parse("a{b=\"}\nnothing\n# x\n").text(), "");
    }
}
