//! "Did you mean": the known word that lies nearest to a misspelt one.

/// The word of `known` that `written` was most likely meant to be.
///
/// Case and the difference between `_` and `-` do not count; otherwise about one letter in three
/// may be wrong, left out, added or swapped, or one word may begin or end with the other.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A long text is no misspelt word, and the distance costs the product of both lengths.
    if written.is_empty() || written.len() > 64 {
        return None;
    }
    let written = folded(written);
    let longest = (written.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter_map(|word| {
            let candidate = folded(word);
            let distance = strsim::damerau_levenshtein(&written, &candidate);
            // A bound of one letter would turn every word of one or two letters into any other.
            let near = distance <= longest && distance < candidate.chars().count();
            let part = written.len() >= 4
                && candidate.len() >= 4
                && (candidate.starts_with(&written)
                    || candidate.ends_with(&written)
                    || written.starts_with(&candidate)
                    || written.ends_with(&candidate));
            (near || part).then_some((distance, word))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, word)| word)
}

fn folded(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const KNOWN: [&str; 5] = ["nodelay", "whitelist", "blacklist", "port", "port-range"];

    #[test]
    fn case_m20_a_misspelt_word_finds_its_neighbour() {
        for (written, meant) in [
            ("nodelya", "nodelay"),
            ("NoDelay", "nodelay"),
            ("whitlist", "whitelist"),
            ("ports", "port"),
            ("port_range", "port-range"),
        ] {
            assert_eq!(nearest(written, KNOWN), Some(meant), "{written}");
        }
    }

    #[test]
    fn a_word_that_is_near_to_nothing_gets_no_suggestion() {
        for written in ["", "x", "connection-capacity", "nope"] {
            assert_eq!(nearest(written, KNOWN), None, "{written}");
        }
        assert_eq!(nearest(&"port".repeat(1000), KNOWN), None);
        assert_eq!(nearest("a", ["b"]), None);
    }
}
