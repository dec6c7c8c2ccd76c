//! `lineway load`: loads a peer and tells what it saw. Not part of the service: it does not know its
//! configuration, so that what it measures of another program is as true as what it measures of this one.

pub mod histogram;
pub mod table;
pub mod tcp;
pub mod zmp;
