use lineway_wire::sip::digest::{Answer, Qop};

use super::*;

fn ha1(algorithm: Algorithm, user: &str, realm: &str, password: &str) -> Hash {
    Hash::ha1(algorithm, user.as_bytes(), realm.as_bytes(), password.as_bytes())
}

fn users() -> Users {
    let mut users = Users::default();
    let md5 = ha1(Algorithm::Md5, "carol", "a.example", "third");
    let sha = ha1(Algorithm::Sha256, "carol", "a.example", "third");
    assert!(users.add("alice".into(), None, Secret::Password("first".into())));
    assert!(users.add("alice".into(), Some("b.example".into()), Secret::Password("2nd".into())));
    assert!(users.add("carol".into(), Some("a.example".into()), Secret::Ha1(vec![md5, sha])));
    users
}

fn prove(user: &str, realm: &str, password: &str, algorithm: Algorithm) -> Proof {
    let answer = Answer {
        user,
        realm,
        nonce: "n",
        algorithm,
        qop: Some(Qop::Auth),
        count: 1,
        cnonce: "c",
        uri: "sip:a.example",
    };
    let text = answer.credentials(password, "REGISTER", b"");
    users().prove(&Credentials::parse(text.as_bytes()).unwrap(), b"REGISTER", b"")
}

#[test]
fn a_user_is_proved_by_the_password_of_the_realm() {
    for algorithm in Algorithm::ALL {
        assert_eq!(prove("alice", "a.example", "first", algorithm), Proof::Right);
        assert_eq!(prove("alice", "a.example", "2nd", algorithm), Proof::Wrong);
        assert_eq!(prove("alice", "b.example", "2nd", algorithm), Proof::Right);
        assert_eq!(prove("alice", "b.example", "first", algorithm), Proof::Wrong);
        assert_eq!(prove("bob", "a.example", "first", algorithm), Proof::UnknownUser);
        assert_eq!(prove("bob", "a.example", "", algorithm), Proof::UnknownUser);
    }
}

#[test]
fn a_user_is_proved_by_the_hashes_that_there_are() {
    assert_eq!(prove("carol", "a.example", "third", Algorithm::Md5), Proof::Right);
    assert_eq!(prove("carol", "a.example", "third", Algorithm::Sha256), Proof::Right);
    assert_eq!(prove("carol", "a.example", "third", Algorithm::Sha512_256), Proof::Wrong);
    assert_eq!(prove("carol", "b.example", "third", Algorithm::Md5), Proof::UnknownUser);
}

#[test]
fn a_realm_has_one_user_of_a_name() {
    let mut users = users();
    assert!(!users.add("alice".into(), None, Secret::Password("x".into())));
    assert!(users.add("alice".into(), Some("c.example".into()), Secret::Password("x".into())));
    assert_eq!(users.len(), 4);
}

#[test]
fn a_realm_is_offered_what_all_of_its_users_have() {
    let mut users = users();
    let two = Algorithms::NONE.with(Algorithm::Md5).with(Algorithm::Sha256);
    assert_eq!(users.algorithms(b"a.example"), two);
    assert_eq!(users.algorithms(b"b.example"), Algorithms::ALL);
    assert_eq!(users.algorithms(b"z.example"), Algorithms::ALL);
    let sha = ha1(Algorithm::Sha512_256, "dave", "a.example", "x");
    users.add("dave".into(), Some("a.example".into()), Secret::Ha1(vec![sha]));
    assert_eq!(users.algorithms(b"a.example"), Algorithms::ALL, "what somebody has");
}

#[test]
fn no_secret_is_printed() {
    let shown = format!("{:?} {:?}", users(), Secret::Password("first".into()));
    assert_eq!(shown, "3 users Password");
}
