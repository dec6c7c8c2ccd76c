//! A router on one worker, with phones on sockets of the loopback.

mod dispatcher;
mod kit;
mod order;
mod registrar;
mod reload;
mod replies;
mod requests;
mod routes;
mod transactions;
