//! lineway
fn main() {}
