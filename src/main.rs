//! The `lineway` program.

fn main() {}
