//! TEMP
use std::sync::Arc;
/// t
#[derive(Clone, Debug, Default)]
pub struct Health;
/// t
#[derive(Clone, Debug, Default)]
pub struct NodeHealth;
impl NodeHealth {
    pub fn ready(&self) {}
    pub fn not_ready(&self, _r: &str) {}
}
impl Health {
    pub fn node(&self, _n: &Arc<str>) -> NodeHealth {
        NodeHealth
    }
    pub fn beat(&self, _w: u16, _n: std::time::Instant) {}
}
