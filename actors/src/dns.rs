//! TEMP
/// t
pub trait Names {}
impl Names for () {}
