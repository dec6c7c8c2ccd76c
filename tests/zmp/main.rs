//! DEALER and ROUTER over real sockets, beside raw peers that share no code with them. Tests are
//! named after the checklist items (`item_...`) and cases (`case_z...`) of their contract.

#[path = "../common/mod.rs"]
mod common;

mod kit;
mod raw;

mod cases;
mod flow;
mod memory;
mod options;
mod ownership;
mod readiness;
mod receive;
mod requests;
mod router;
mod selection;
mod service;
mod weight;
mod wire;
