//! Which of the two metric formats a client prefers (RFC 9110 12.5.1).

use hyper::header::{ACCEPT, HeaderMap};

/// A text format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4: what is sent unless something else is preferred.
    Text,
    /// `OpenMetrics` 1.0.
    OpenMetrics,
}

impl Format {
    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    const fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Text => ("text", "plain", "0.0.4"),
            Self::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
        }
    }

    /// The format that the `Accept` headers prefer. Text when they prefer none, or accept neither:
    /// a person with a browser is better served by text than by 406.
    pub(super) fn preferred(headers: &HeaderMap) -> Self {
        let ranges: Vec<Range<'_>> = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(Range::parse)
            .collect();
        let quality = |format| {
            let matching = ranges.iter().filter_map(|range| range.matches(format));
            matching.max_by_key(|(precision, quality)| (*precision, *quality)).map_or(0, |(_, q)| q)
        };
        if quality(Self::OpenMetrics) > quality(Self::Text) {
            Self::OpenMetrics
        } else {
            Self::Text
        }
    }
}

/// One media range of an `Accept` header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    version: Option<&'a str>,
    /// Thousandths.
    quality: u16,
}

impl<'a> Range<'a> {
    /// `None` for what is no media range: it prefers nothing.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let mut range = Self { kind, subtype, version: None, quality: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            if name.eq_ignore_ascii_case("q") {
                range.quality = quality(value)?;
            } else if name.eq_ignore_ascii_case("version") {
                range.version = Some(value.trim_matches('"'));
            }
        }
        Some(range)
    }

    /// How precisely the range names this format, and its quality; `None` if it does not.
    fn matches(&self, format: Format) -> Option<(u8, u16)> {
        let (kind, subtype, version) = format.parts();
        let precision = if self.kind == "*" && self.subtype == "*" {
            0
        } else if !self.kind.eq_ignore_ascii_case(kind) {
            return None;
        } else if self.subtype == "*" {
            1
        } else if !self.subtype.eq_ignore_ascii_case(subtype) {
            return None;
        } else {
            match self.version {
                None => 2,
                Some(named) if named == version => 3,
                Some(_) => return None,
            }
        };
        Some((precision, self.quality))
    }
}

/// A weight such as `0.75` in thousandths.
fn quality(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse::<u16>().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{ACCEPT, HeaderMap, HeaderValue};

    use super::Format;

    fn preferred(accept: &[&'static str]) -> Format {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        Format::preferred(&headers)
    }

    #[test]
    fn case_m05_text_is_what_everybody_gets_who_prefers_nothing() {
        for accept in [
            "",
            "*/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/plain",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=0.0.1",
            "application/openmetrics-text,text/plain",
            "application/openmetrics-text;q=0.5,*/*",
            "application/openmetrics-text;q=high",
            "application/openmetrics-text;q=2",
            "application/*;q=0.4, text/*;q=0.5",
            "application/json;q=1, application/openmetrics-text;q=0.1, */*;q=0.2",
            ";;;,,/=q",
        ] {
            assert_eq!(preferred(&[accept]), Format::Text, "{accept}");
        }
        assert_eq!(preferred(&[]), Format::Text);
    }

    #[test]
    fn case_m05_open_metrics_is_for_those_who_prefer_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for accept in [
            prometheus,
            "application/openmetrics-text",
            "Application/OpenMetrics-Text; version=\"1.0.0\"; Q=0.001",
            "application/openmetrics-text;q=0.5, text/plain;q=0.499",
            "application/openmetrics-text, text/*;q=0.1, */*;q=0.9",
            "application/*, text/plain;q=0",
        ] {
            assert_eq!(preferred(&[accept]), Format::OpenMetrics, "{accept}");
        }
        let two = ["text/plain;q=0.2", "application/openmetrics-text;q=0.3"];
        assert_eq!(preferred(&two), Format::OpenMetrics);
    }
}
