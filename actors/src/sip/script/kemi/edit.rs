//! Edits of headers and body: `hdr`, `textops`, `textopsx`.

use crate::sip::script::function::Function;

/// The functions of these modules.
pub(super) static FUNCTIONS: &[Function] = &[];
