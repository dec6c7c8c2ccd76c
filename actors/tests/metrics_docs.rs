//! Holds docs/metrics.md against the registry, both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use lineway_actors::health::Health;
use lineway_actors::metrics::Metrics;

/// The labels whose values come from the configuration or the build.
const OPEN_LABELS: [&str; 3] = ["node", "worker", "version"];

/// Every type of node.
const TYPES: [&str; 13] = [
    "TcpListener",
    "TcpConnector",
    "EchoServer",
    "TesterClient",
    "TesterServer",
    "ConnectionFisherClient",
    "ConnectionFisherServer",
    "MuxClient",
    "MuxServer",
    "DealerSocket",
    "RouterSocket",
    "SipListener",
    "SipRouter",
];

/// One row of the table of metrics.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    kind: String,
    labels: Vec<String>,
    meaning: String,
}

/// What a page of metrics or of documentation says.
#[derive(Default)]
struct Said {
    metrics: BTreeMap<String, Row>,
    /// The values of each closed label.
    values: BTreeMap<String, BTreeSet<String>>,
}

/// A service with a node of every type.
fn page() -> String {
    let metrics = Metrics::new("1");
    let health = Health::new(1, Instant::now());
    metrics.register(health.collector()).unwrap();
    metrics.worker(0);
    for type_name in TYPES {
        metrics.node(&Arc::from(type_name), type_name);
        health.passive(&Arc::from(type_name));
    }
    for result in lineway_actors::metrics::ReloadResult::ALL {
        metrics.supervisor().reloaded(result, SystemTime::now());
    }
    metrics.text()
}

/// Reads the text format, as far as this page uses it: no label value has a quote or a comma.
fn registry() -> Said {
    let mut said = Said::default();
    let mut name = String::new();
    for line in page().lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (family, meaning) = rest.split_once(' ').unwrap();
            family.clone_into(&mut name);
            let row = Row { kind: String::new(), labels: Vec::new(), meaning: meaning.to_owned() };
            said.metrics.insert(name.clone(), row);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let kind = rest.rsplit_once(' ').unwrap().1;
            kind.clone_into(&mut said.metrics.get_mut(&name).unwrap().kind);
        } else if let Some((_, rest)) = line.split_once('{') {
            let labels = rest.rsplit_once('}').unwrap().0;
            let row = said.metrics.get_mut(&name).unwrap();
            row.labels.clear();
            for pair in labels.split(',') {
                let (label, value) = pair.split_once('=').unwrap();
                if label == "le" {
                    continue;
                }
                row.labels.push(label.to_owned());
                if !OPEN_LABELS.contains(&label) {
                    let values = said.values.entry(label.to_owned()).or_default();
                    values.insert(value.trim_matches('"').to_owned());
                }
            }
            row.labels.sort();
        }
    }
    said
}

/// Reads the tables of the documentation.
fn documentation() -> Said {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let text = std::fs::read_to_string(&path).expect("docs/metrics.md is there");
    let names = |cell: &str| -> Vec<String> {
        let mut names: Vec<_> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        names.sort();
        names
    };
    let mut said = Said::default();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        match cells[..] {
            [_, kind, labels, meaning] => {
                let row = Row {
                    kind: kind.to_owned(),
                    labels: names(labels),
                    meaning: meaning.to_owned(),
                };
                assert!(said.metrics.insert(name.clone(), row).is_none(), "{name} stands twice");
            }
            [_, values] if !OPEN_LABELS.contains(&name.as_str()) => {
                said.values.insert(name, names(values).into_iter().collect());
            }
            [_, _] => {}
            _ => panic!("a row of no table: {line}"),
        }
    }
    said
}

#[test]
fn the_documentation_names_every_metric_and_no_other() {
    let (registry, documentation) = (registry(), documentation());
    let names = |said: &Said| said.metrics.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&documentation), names(&registry));
    for (name, row) in &registry.metrics {
        assert_eq!(&documentation.metrics[name], row, "{name}");
    }
}

#[test]
fn the_documentation_names_every_value_of_a_closed_label_and_no_other() {
    assert_eq!(documentation().values, registry().values);
}
