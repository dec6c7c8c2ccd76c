//! The `OpenMetrics` text format, version 1.0, from the families that a registry gives.

use std::fmt::{self, Write};

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

/// The whole page, `# EOF` included.
pub(super) fn encode(families: &[MetricFamily]) -> String {
    let mut page = String::new();
    for family in families {
        let _ = encode_family(&mut page, family);
    }
    page.push_str("# EOF\n");
    page
}

/// One family: its name is written without the suffix that its samples have.
fn encode_family(page: &mut String, family: &MetricFamily) -> fmt::Result {
    let full = family.name();
    let (name, word) = match family.get_field_type() {
        MetricType::COUNTER => (full.strip_suffix("_total").unwrap_or(full), "counter"),
        MetricType::GAUGE => match full.strip_suffix("_info") {
            Some(name) => (name, "info"),
            None => (full, "gauge"),
        },
        MetricType::HISTOGRAM => (full, "histogram"),
        MetricType::SUMMARY | MetricType::UNTYPED => return Ok(()),
    };
    writeln!(page, "# HELP {name} {}", Escaped(family.help()))?;
    writeln!(page, "# TYPE {name} {word}")?;
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match family.get_field_type() {
            MetricType::COUNTER => {
                let value = metric.get_counter().get_value();
                sample(page, name, "_total", labels, None, value)?;
            }
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                for bucket in histogram.get_bucket() {
                    let bound = bucket.upper_bound();
                    if bound.is_finite() {
                        let count = bucket.cumulative_count() as f64;
                        sample(page, name, "_bucket", labels, Some(bound), count)?;
                    }
                }
                let count = histogram.get_sample_count() as f64;
                sample(page, name, "_bucket", labels, Some(f64::INFINITY), count)?;
                sample(page, name, "_sum", labels, None, histogram.get_sample_sum())?;
                sample(page, name, "_count", labels, None, count)?;
            }
            _ => {
                let suffix = if word == "info" { "_info" } else { "" };
                sample(page, name, suffix, labels, None, metric.get_gauge().get_value())?;
            }
        }
    }
    Ok(())
}

fn sample(
    page: &mut String,
    name: &str,
    suffix: &str,
    labels: &[LabelPair],
    bound: Option<f64>,
    value: f64,
) -> fmt::Result {
    write!(page, "{name}{suffix}")?;
    let mut before = '{';
    for label in labels {
        write!(page, "{before}{}=\"{}\"", label.name(), Escaped(label.value()))?;
        before = ',';
    }
    if let Some(bound) = bound {
        // `{:?}` writes a whole number as `1.0`, the form that the format wants for a bound.
        if bound.is_finite() {
            write!(page, "{before}le=\"{bound:?}\"")?;
        } else {
            write!(page, "{before}le=\"+Inf\"")?;
        }
        before = ',';
    }
    if before == ',' {
        page.push('}');
    }
    writeln!(page, " {value}")
}

/// Text in which backslash, quote and line feed are escaped (M-03).
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
