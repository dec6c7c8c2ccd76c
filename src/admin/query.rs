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
}

impl LinesQuery {
    /// Reads the part of a URI after `?`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut this = Self { limit: DEFAULT_LIMIT, after: None, node: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| *limit <= MAX_LIMIT);
                    this.limit = limit
                        .ok_or_else(|| format!("limit: expected a number from 0 to {MAX_LIMIT}"))?;
                }
                "after" => {
                    let id = value.parse().map_err(|wrong| format!("after: {wrong}"))?;
                    this.after = Some(id);
                }
                "node" => this.node = Some(value.into_owned()),
                _ => {
                    let name = name.escape_debug();
                    return Err(format!("{name}: expected limit, after or node"));
                }
            }
        }
        Ok(this)
    }
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
        assert_eq!(LinesQuery::parse("").unwrap().limit, 1000);
    }

    #[test]
    fn a_wrong_query_says_which_parameter_is_wrong() {
        for (query, name) in [
            ("limit=-1", "limit:"),
            ("limit=100001", "limit:"),
            ("limit=99999999999999999999999", "limit:"),
            ("after=7", "after:"),
            ("nodes=x", "nodes:"),
        ] {
            let error = LinesQuery::parse(query).unwrap_err();
            assert!(error.starts_with(name), "{query}: {error}");
        }
    }
}
