//! Clients behind a NAT (contract 5, the part that edits messages): `nat_uac_test`,
//! `fix_nated_contact`, contact aliases.

use super::draft::Draft;

/// `nat_uac_test(flags)`: the tests of these bits; 1 when one is true, else -1.
pub fn nat_uac_test(_draft: &Draft, _flags: i64) -> i64 {
    unimplemented!()
}
/// `fix_nated_contact()`.
pub fn fix_nated_contact(_draft: &mut Draft) -> i64 {
    unimplemented!()
}
/// `set_contact_alias()`.
pub fn set_contact_alias(_draft: &mut Draft) -> i64 {
    unimplemented!()
}
/// `add_contact_alias()`.
pub fn add_contact_alias(_draft: &mut Draft) -> i64 {
    unimplemented!()
}
/// `handle_ruri_alias()`.
pub fn handle_ruri_alias(_draft: &mut Draft) -> i64 {
    unimplemented!()
}
