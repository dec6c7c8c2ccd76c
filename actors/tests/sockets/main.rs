//! DEALER and ROUTER through their handles, over real sockets of this machine and inproc.

mod admission;
mod completions;
mod endpoints;
mod ends;
mod house;
mod peers;
mod raw;
mod readiness;
mod replies;
mod restart;
mod threads;
mod volume;
