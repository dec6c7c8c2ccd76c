//! Rules of a parent, one by one.
