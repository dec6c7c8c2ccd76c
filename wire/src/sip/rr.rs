//! Record-Route and Route (contract 6.2).

mod loose;
mod record;

pub use loose::{check_route_param, is_direction, loose_route};
pub use record::{add_rr_param, record_route, record_route_preset};

#[cfg(test)]
mod tests;
