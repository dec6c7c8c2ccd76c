//! What a reload changes: the difference of two plans, node by node.

use std::sync::Arc;

use crate::settings::Plan;

/// The difference of two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Nodes of the new plan alone.
    pub added: Vec<Arc<str>>,
    /// Nodes of the old plan alone.
    pub removed: Vec<Arc<str>>,
    /// Nodes of both, with another type, other settings or another `next`.
    pub changed: Vec<Arc<str>>,
    /// Nodes of both that are the same.
    pub unchanged: Vec<Arc<str>>,
    /// Settings of the process that take effect at the next start.
    pub needs_restart: Vec<&'static str>,
}

/// Compares two plans.
pub fn diff(old: &Plan, new: &Plan) -> Changes {
    let mut changes = Changes::default();
    for node in &new.nodes {
        let name = Arc::clone(&node.name);
        match old.nodes.iter().find(|other| other.name == name) {
            None => changes.added.push(name),
            Some(other) if other == node => changes.unchanged.push(name),
            Some(_) => changes.changed.push(name),
        }
    }
    for node in &old.nodes {
        if !new.nodes.iter().any(|other| other.name == node.name) {
            changes.removed.push(Arc::clone(&node.name));
        }
    }
    if old.service.workers != new.service.workers {
        changes.needs_restart.push("service.workers");
    }
    if old.service.dns != new.service.dns {
        changes.needs_restart.push("dns");
    }
    changes
}

impl std::fmt::Display for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lists =
            [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let mut any = false;
        for (word, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, "{}{word} {}", if any { "; " } else { "" }, names.join(", "))?;
            any = true;
        }
        if !any {
            f.write_str("no node changed")?;
        }
        if !self.needs_restart.is_empty() {
            write!(f, "; at the next start: {}", self.needs_restart.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::diff;
    use crate::settings::NodeSettings;
    use crate::testkit::settings::{connector, listener, node, plan};

    #[test]
    fn a_reload_is_the_difference_of_two_plans() {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let old = plan(vec![
            node("in", listener(at(1)), Some("out")),
            node("out", connector(at(2)), None),
            node("gone", NodeSettings::EchoServer, None),
        ]);
        let mut new = plan(vec![
            node("in", listener(at(1)), Some("out")),
            node("out", connector(at(3)), None),
            node("echo", NodeSettings::EchoServer, None),
        ]);
        new.service.workers = 4;
        let changes = diff(&old, &new);
        assert_eq!(
            changes.to_string(),
            "added echo; changed out; removed gone; at the next start: service.workers"
        );
        assert_eq!(changes.unchanged, ["in".into()]);
        assert_eq!(diff(&old, &old).to_string(), "no node changed");
    }
}
