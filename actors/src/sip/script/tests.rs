//! Scripts as the contract's section 9 wants them.

use std::time::Duration;

use super::*;

mod load;
mod patterns;

pub(super) fn limits() -> ScriptLimits {
    ScriptLimits { time: Duration::from_millis(50), memory: 64 << 20 }
}

pub(super) fn source(text: &str) -> Source {
    Source { name: "/etc/lineway/proxy.lua".into(), text: text.as_bytes().into() }
}

/// A script of this text, with an empty request route behind it.
pub(super) fn loaded(text: &str) -> Result<Rc<Script>, ScriptError> {
    Script::load(&source(&format!("{text}\nfunction ksr_request_route() end")), limits())
}
