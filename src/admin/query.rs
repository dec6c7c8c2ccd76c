//! The query of `/api/lines`.

use lineway_actors::registry::LineId;

/// Lines in an answer unless the query says otherwise.
const DEFAULT_LIMIT: usize = 1000;
/// The most lines that an answer can have.
const MAX_LIMIT: usize = 100_000;

/// Which lines are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinesQuery {
    /// At most so many.
    pub(super) limit: usize,
    /// Only those after this one, in the order of ids.
    pub(super) after: Option<LineId>,
    /// Only those of this node.
    pub(super) node: Option<String>,
    /// Only this parent and the children that it carries.
    pub(super) parent: Option<LineId>,
    /// At most so many children of each node on each parent.
    pub(super) children: Option<usize>,
}

impl LinesQuery {
    /// Reads the part of a URI after `?`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut this =
            Self { limit: DEFAULT_LIMIT, after: None, node: None, parent: None, children: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => this.limit = number(&name, &value)?,
                "children" => this.children = Some(number(&name, &value)?),
                "after" => this.after = Some(line(&name, &value)?),
                "parent" => this.parent = Some(line(&name, &value)?),
                "node" => this.node = Some(value.into_owned()),
                _ => {
                    let name = name.escape_debug();
                    return Err(format!("{name}: expected limit, after, node, parent or children"));
                }
            }
        }
        Ok(this)
    }
}

fn number(name: &str, value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number <= MAX_LIMIT);
    number.ok_or_else(|| format!("{name}: expected a number from 0 to {MAX_LIMIT}"))
}

fn line(name: &str, value: &str) -> Result<LineId, String> {
    value.parse().map_err(|wrong| format!("{name}: {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::LinesQuery;

    #[test]
    fn a_query_reads_limit_after_and_a_percent_encoded_node() {
        let query = LinesQuery::parse("limit=5&after=1-2&node=in%22+%D9%88%0A").unwrap();
        assert_eq!(query.limit, 5);
        assert_eq!(query.after.map(|id| id.to_string()).as_deref(), Some("1-2"));
        assert_eq!(query.node.as_deref(), Some("in\" \u{648}\n"));
        let query = LinesQuery::parse("parent=3-4&children=0").unwrap();
        assert_eq!(query.parent.map(|id| id.to_string()).as_deref(), Some("3-4"));
        assert_eq!((query.limit, query.children), (1000, Some(0)));
        assert_eq!(LinesQuery::parse("").unwrap().children, None);
    }

    #[test]
    fn a_wrong_query_says_which_parameter_is_wrong() {
        for (query, name) in [
            ("limit=-1", "limit:"),
            ("limit=100001", "limit:"),
            ("limit=99999999999999999999999", "limit:"),
            ("after=7", "after:"),
            ("parent=7", "parent:"),
            ("children=all", "children:"),
            ("nodes=x", "nodes:"),
        ] {
            let error = LinesQuery::parse(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
        }
    }
}
