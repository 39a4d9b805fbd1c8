//! The text of metrics: OpenMetrics 1.0 and the Prometheus text format 0.0.4, with a bound on the number of series.
//!
//! Both are written here and not by a library: prometheus-client 0.25 writes OpenMetrics alone, and has no bound on
//! series.

use std::fmt::Write;

/// What a metric says of an object.
pub(super) type Reading<T> = fn(&T) -> u64;

/// The most series of one text; what exceeds it is left out, and counted.
pub const MOST_SERIES: usize = 24_000;
/// The most characters of a value of a label.
const LONGEST_VALUE: usize = 255;

/// What a text is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Prometheus,
}

impl Format {
    /// What a client wants by its `Accept`: OpenMetrics if it names it with no less weight than plain text.
    #[must_use]
    pub fn wanted(accept: &str) -> Self {
        let weight_of = |kind: &str| {
            let found = accept.split(',').filter_map(|one| {
                let mut parts = one.split(';').map(str::trim);
                (parts.next()? == kind).then(|| {
                    let weight = parts.find_map(|part| part.strip_prefix("q="));
                    weight.map_or(1.0, |text| text.parse::<f64>().unwrap_or(0.0))
                })
            });
            found.fold(0.0, f64::max)
        };
        let open = weight_of("application/openmetrics-text");
        if open > 0.0 && open >= weight_of("text/plain") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The Content-Type of a text.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is 1; what it says is in its labels.
    Info,
}

impl Kind {
    const fn word(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::Gauge, _) | (Self::Info, Format::Prometheus) => "gauge",
            (Self::Info, Format::OpenMetrics) => "info",
        }
    }

    /// What the name of a sample has behind that of its family.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Gauge => "",
            Self::Info => "_info",
        }
    }
}

/// A metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, without the suffix of its kind.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The names of its labels, in order.
    pub labels: &'static [&'static str],
    /// What it is, in one line.
    pub help: &'static str,
}

impl Metric {
    /// A counter.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(Kind::Counter, name, labels, help)
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(Kind::Gauge, name, labels, help)
    }

    /// What does not change.
    #[must_use]
    pub const fn info(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(Kind::Info, name, labels, help)
    }

    const fn new(
        kind: Kind,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            labels,
            help,
        }
    }

    /// The name of its samples.
    #[must_use]
    pub fn sample_name(&self) -> String {
        format!("{}{}", self.name, self.kind.suffix())
    }
}

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

/// A text that is being written.
#[derive(Debug)]
pub struct Exposition {
    format: Format,
    text: String,
    series: usize,
    omitted: u64,
    most: usize,
    /// The metrics that there are, in order.
    described: Vec<&'static Metric>,
}

/// The place for the samples of one metric.
pub struct Family<'a> {
    metric: &'static Metric,
    exposition: &'a mut Exposition,
}

impl Exposition {
    /// An empty text with room for `most` series.
    #[must_use]
    pub fn new(format: Format, most: usize) -> Self {
        Self {
            format,
            text: String::with_capacity(64 << 10),
            series: 0,
            omitted: 0,
            most,
            described: Vec::new(),
        }
    }

    /// Begins a metric; all of its samples come now.
    pub fn family(&mut self, metric: &'static Metric) -> Family<'_> {
        let name = match (self.format, metric.kind) {
            (Format::OpenMetrics, _) | (_, Kind::Gauge) => metric.name.to_owned(),
            (Format::Prometheus, _) => metric.sample_name(),
        };
        let kind = metric.kind.word(self.format);
        // Writing to a text does not fail.
        let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
        self.described.push(metric);
        Family {
            metric,
            exposition: self,
        }
    }

    /// A metric without labels.
    pub fn single(&mut self, metric: &'static Metric, value: impl Into<Value>) {
        self.family(metric).sample(&[], value);
    }

    /// Makes room for more series.
    pub(super) fn grow(&mut self, by: usize) {
        self.most += by;
    }

    /// Series written so far.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series
    }

    /// Series left out so far.
    #[must_use]
    pub fn omitted(&self) -> u64 {
        self.omitted
    }

    /// The metrics of the text.
    #[must_use]
    pub fn described(&self) -> &[&'static Metric] {
        &self.described
    }

    /// The whole text.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }
}

impl Family<'_> {
    /// Counts series that were not even made.
    pub fn omit(&mut self, series: u64) {
        self.exposition.omitted += series;
    }

    /// A sample with these values of the metric's labels, in order. An empty value is as none.
    pub fn sample(&mut self, values: &[&str], value: impl Into<Value>) {
        let Exposition {
            text,
            series,
            omitted,
            most,
            ..
        } = self.exposition;
        debug_assert_eq!(values.len(), self.metric.labels.len(), "{}", self.metric.name);
        if *series >= *most {
            *omitted += 1;
            return;
        }
        *series += 1;
        text.push_str(self.metric.name);
        text.push_str(self.metric.kind.suffix());
        let mut bracket = '{';
        for (label, value) in self.metric.labels.iter().zip(values) {
            if value.is_empty() {
                continue;
            }
            text.push(bracket);
            bracket = ',';
            text.push_str(label);
            text.push_str("=\"");
            push_escaped(text, value);
            text.push('"');
        }
        if bracket == ',' {
            text.push('}');
        }
        let _ = match value.into() {
            Value::Whole(value) => writeln!(text, " {value}"),
            // In decimals: neither format takes all that `{:e}` or `{:?}` writes.
            Value::Real(value) => writeln!(text, " {value}"),
        };
    }
}

/// The value of a label: cut where it is long, and without control characters, since peers choose some of them.
fn push_escaped(text: &mut String, value: &str) {
    for c in value.chars().take(LONGEST_VALUE) {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push('\u{fffd}'),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DROPS: Metric = Metric::counter("sluice_drops", &["reason", "worker"], "Packets dropped.");
    const BUILD: Metric = Metric::info("sluice_build", &["version"], "The version.");
    const LOAD: Metric = Metric::gauge("sluice_load_ratio", &[], "Load.");

    fn written(format: Format, most: usize) -> String {
        let mut exposition = Exposition::new(format, most);
        let mut drops = exposition.family(&DROPS);
        drops.sample(&["no_route", "0"], 3_u64);
        drops.sample(&["a\"b\\c\nd\u{1b}", ""], 4_u64);
        exposition.family(&BUILD).sample(&["1.0"], true);
        exposition.single(&LOAD, 0.25);
        assert_eq!(exposition.omitted(), 4_u64.saturating_sub(most as u64));
        exposition.finish()
    }

    #[test]
    fn each_format_names_families_and_samples_in_its_way() {
        let samples = "sluice_drops_total{reason=\"no_route\",worker=\"0\"} 3\n\
                       sluice_drops_total{reason=\"a\\\"b\\\\c\\nd\u{fffd}\"} 4\n";
        let open = format!(
            "# HELP sluice_drops Packets dropped.\n# TYPE sluice_drops counter\n{samples}\
             # HELP sluice_build The version.\n# TYPE sluice_build info\nsluice_build_info{{version=\"1.0\"}} 1\n\
             # HELP sluice_load_ratio Load.\n# TYPE sluice_load_ratio gauge\nsluice_load_ratio 0.25\n# EOF\n"
        );
        assert_eq!(written(Format::OpenMetrics, 10), open);
        let plain = format!(
            "# HELP sluice_drops_total Packets dropped.\n# TYPE sluice_drops_total counter\n{samples}\
             # HELP sluice_build_info The version.\n# TYPE sluice_build_info gauge\nsluice_build_info{{version=\"1.0\"}} 1\n\
             # HELP sluice_load_ratio Load.\n# TYPE sluice_load_ratio gauge\nsluice_load_ratio 0.25\n"
        );
        assert_eq!(written(Format::Prometheus, 10), plain);
    }

    #[test]
    fn what_exceeds_the_bound_is_left_out_and_counted() {
        let text = written(Format::Prometheus, 2);
        assert_eq!(text.lines().filter(|line| !line.starts_with('#')).count(), 2);
    }

    #[test]
    fn the_format_is_what_the_client_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::wanted(prometheus), Format::OpenMetrics);
        for plain in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;q=0.2, text/plain;q=0.9",
        ] {
            assert_eq!(Format::wanted(plain), Format::Prometheus, "{plain}");
        }
        assert_eq!(
            Format::wanted("application/openmetrics-text;q=x"),
            Format::Prometheus
        );
    }
}
