//! The messages of RFC 4475 as bytes.

/// One of them.
pub(crate) struct Torture {
    /// Its section.
    pub(crate) section: &'static str,
    /// The name that the document gives it.
    pub(crate) name: &'static str,
    /// What comes.
    pub(crate) bytes: Vec<u8>,
}

/// All of them, in the order of the document.
pub(crate) fn messages() -> Vec<Torture> {
    let text = include_str!("torture.txt");
    let mut messages = Vec::new();
    let mut parts = text.split("\n=== ").skip(1).peekable();
    while let Some(part) = parts.next() {
        let (title, notation) = part.split_once('\n').expect("a title");
        if let Some((section, name)) = title.split_once(' ') {
            assert!(parts.peek().is_some(), "an end");
            messages.push(Torture {
                section,
                name,
                bytes: octets(&format!("{notation}\n").replace('\n', "\r\n")),
            });
        }
    }
    messages
}

/// What a notation stands for.
fn octets(notation: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), notation);
    while let Some((before, behind)) = rest.split_once('<') {
        bytes.extend(before.bytes());
        if let Some(marked) = behind.strip_prefix("hex>") {
            let (digits, behind) = marked.split_once("</hex>").expect("an end");
            let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
            bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")));
            rest = behind;
        } else if let Some(marked) = behind.strip_prefix("repeat count=") {
            let (count, behind) = marked.split_once('>').expect("a count");
            let (repeated, behind) = behind.split_once("</repeat>").expect("an end");
            bytes.extend(repeated.repeat(count.parse().expect("a number")).bytes());
            rest = behind;
        } else {
            bytes.push(b'<');
            rest = behind;
        }
    }
    bytes.extend(rest.bytes());
    bytes
}
