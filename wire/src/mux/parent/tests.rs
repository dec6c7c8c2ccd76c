//! Rules of a parent, one by one, each on the sides that it is for.

mod end;
mod ends;
mod flow;
mod frames;
mod half_close;
mod life;
mod limits;
mod model;
mod property;
mod reply;
