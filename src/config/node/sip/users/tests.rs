use super::*;

fn read(text: &str) -> Result<Users, Vec<String>> {
    users(text.as_bytes(), Path::new("users.toml"), None)
}

#[track_caller]
fn wrong(text: &str) -> Vec<String> {
    let lines = read(text).unwrap_err();
    for line in &lines {
        assert!(!line.contains("s3cret"), "{line}");
    }
    lines
}

#[test]
fn a_user_has_a_name_and_a_password_or_hashes() {
    let text = "
        [[user]]
        name = \"alice\"
        password = \"s3cret\"

        [[user]]
        name = \"alice\"
        realm = \"b.example\"
        password = \"other\"

        [[user]]
        name = \"carol\"
        realm = \"a.example\"
        ha1 = { md5 = \"939e7578ed9e3c518a452acee763bce9\" }
    ";
    let users = read(text).unwrap();
    assert_eq!(users.len(), 3);
    let offered = users.algorithms(b"a.example").iter().collect::<Vec<_>>();
    assert_eq!(offered, [Algorithm::Md5]);
    assert_eq!(users.algorithms(b"b.example").iter().count(), 3);
    assert_eq!(read("").unwrap().len(), 0);
}

#[test]
fn the_setting_realm_is_that_of_users_who_name_none() {
    let text = "user = [{ name = \"a\", ha1 = { md5 = \"939e7578ed9e3c518a452acee763bce9\" } }]";
    let lines = wrong(text);
    assert!(lines[0].starts_with("users.toml:1:"), "{lines:?}");
    assert!(lines[0].contains("realm"), "{lines:?}");
    let users = users(text.as_bytes(), Path::new("u"), Some("a.example")).unwrap();
    assert_eq!(users.algorithms(b"a.example").iter().count(), 1);
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_without_a_secret() {
    let one = |text: &str| {
        let lines = wrong(text);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.into_iter().next().unwrap()
    };
    let user = "[[user]]\nname = \"a\"\n";
    for (text, place, says) in [
        (format!("{user}pasword = \"s3cret\"\npassword = \"x\""), "3:1", "password"),
        (format!("{user}password = [\"s3cret\"]"), "3:12", "string"),
        (format!("{user}password = \"\""), "3:12", "string"),
        (format!("{user}password = \"x\"\nrealm = \"a\\\"b\""), "4:9", "quotes"),
        (
            format!("{user}password = \"s3cret\"\nha1 = {{ md5 = \"s3cret\" }}"),
            "4:7",
            "one of the two",
        ),
        (format!("{user}realm = \"a\"\nha1 = {{ md5 = \"s3cret\" }}"), "4:15", "32 hexadecimal"),
        (
            format!("{user}realm = \"a\"\nha1 = {{ sha-256 = \"s3cret\" }}"),
            "4:19",
            "64 hexadecimal",
        ),
        (format!("{user}realm = \"a\"\nha1 = {{ sha1 = \"s3cret\" }}"), "4:9", "unknown"),
        (format!("{user}realm = \"a\"\nha1 = \"s3cret\""), "4:7", "table"),
        (user.to_owned(), "1:1", "password"),
        ("[[user]]\npassword = \"s3cret\"".to_owned(), "1:1", "name"),
        (format!("{user}password = \"s3cret\"\n{user}password = \"s3cret\""), "4:1", "already"),
        ("user = \"s3cret\"".to_owned(), "1:8", "[[user]]"),
        ("user = [\"s3cret\"]".to_owned(), "1:9", "[[user]]"),
        ("users = []".to_owned(), "1:1", "user"),
    ] {
        if text.contains("sha1 =") {
            assert!(wrong(&text).iter().any(|line| line.contains(says)), "{text}");
            continue;
        }
        let line = one(&text);
        assert!(line.starts_with(&format!("users.toml:{place}: ")), "{text}: {line}");
        assert!(line.contains(says), "{line}");
    }
}

#[test]
fn a_file_that_is_no_toml_is_told_so_without_a_secret() {
    for text in [
        "[[user]]\nname = \"a\"\npassword = \"s3cret",
        "[[user]]\nname = \"a\"\npassword = s3cret",
        "[[user]\nname = \"a\"\npassword = \"s3cret\"",
        "s3cret",
        "[[user]]\nname = \"a\"\npassword = \"s3cret\"\npassword = \"s3cret\"",
    ] {
        let lines = wrong(text);
        assert!(lines.iter().all(|line| line.starts_with("users.toml:")), "{lines:?}");
    }
    let lines = users(b"[[user]]\nname = \"\xff\"", Path::new("users.toml"), None).unwrap_err();
    assert_eq!(lines, ["users.toml:2:9: not UTF-8"]);
}
