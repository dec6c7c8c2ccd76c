//! TEMP
use crate::messages::*;
use crate::metrics::ActorKind;
use crate::registry::LineView;
use actix::prelude::*;
use std::sync::Arc;
/// t
#[derive(Clone, Debug, Default)]
pub struct SupervisorHandle;
impl SupervisorHandle {
    /// t
    pub fn send<M>(&self, _m: M) {}
    /// t
    pub fn attach<A>(&self, _i: u16, _a: A) {}
}
/// t
#[derive(Debug)]
pub struct Died {
    pub worker: Option<u16>,
    pub kind: ActorKind,
    pub node: Option<Arc<str>>,
}
/// t
#[derive(Debug)]
pub struct Account {
    pub worker: u16,
    pub lines: Vec<Arc<LineView>>,
}
