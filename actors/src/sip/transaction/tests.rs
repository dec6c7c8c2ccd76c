#[test]
fn sizes() {
    use super::*;
    use lineway_wire::sip::{draft::Draft, lumps::Lumps, message::Message, transaction::*};
    use std::mem::size_of;
    eprintln!(
        "draft {} message {} lumps {} machine {} client {} tx {} branch {} entry {} ctx {} {} vars {} armed {} tabledummy",
        size_of::<Draft>(),
        size_of::<Message>(),
        size_of::<Lumps>(),
        size_of::<Transaction<Box<Draft>>>(),
        size_of::<Client>(),
        size_of::<SipTransaction>(),
        size_of::<SipBranch>(),
        size_of::<Entry>(),
        size_of::<actix::Context<SipTransaction>>(),
        size_of::<actix::dev::ContextFut<SipTransaction, actix::Context<SipTransaction>>>(),
        size_of::<crate::sip::script::kemi::Vars>(),
        size_of::<crate::sip::script::tm::Armed>()
    );
}
