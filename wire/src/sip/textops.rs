//! Edits of headers and body by name and pattern: what scripts know as `hdr`, `textops` and
//! `textopsx`. All give what the script function returns.
