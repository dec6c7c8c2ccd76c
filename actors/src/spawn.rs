//! TEMP
use crate::metrics::{ActorKind, ActorMetrics};
use actix::prelude::*;
/// temp
pub struct PanicReport;
/// temp
pub fn start<A: Actor<Context = Context<A>>>(
    _kind: ActorKind,
    _m: &ActorMetrics,
    build: impl FnOnce(&mut Context<A>) -> A,
    _p: impl FnOnce(PanicReport) + 'static,
) -> Addr<A> {
    let mut ctx = Context::new();
    let a = build(&mut ctx);
    let addr = ctx.address();
    tokio::task::spawn_local(ctx.into_future(a));
    addr
}
