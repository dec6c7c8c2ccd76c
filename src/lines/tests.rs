use std::net::TcpListener;

use super::{Page, Show, bytes, duration, fetch, print, printable};

fn page(text: &str) -> Page {
    serde_json::from_str(text).unwrap()
}

fn printed(pages: &[Page], show: Show) -> String {
    let mut output = Vec::new();
    print(pages, show, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

const EVERY: Show = Show::Table(usize::MAX);

const FIRST: &str = r#"{"total":2,"next":"0-1","lines":[{"id":"0-1","kind":"main","node":"in\u001b[31m",
"maker":null,"peer":"192.0.2.1:40000","opened_at":"2026-01-01T00:00:00.000Z","age_seconds":3725.5,
"state":"open","bytes":{"upstream":1536,"downstream":1073741824},"queued":{"upstream":0,"downstream":2048},
"paused":{"upstream":[],"downstream":["queue","peer"]}}]}"#;
const SECOND: &str = r#"{"total":2,"next":null,"lines":[{"id":"12-345","kind":"child","node":"é語",
"maker":"0-1","peer":null,"opened_at":"2026-01-01T00:00:00.000Z","age_seconds":0.2,"state":"opening",
"bytes":{"upstream":0,"downstream":7},"queued":{"upstream":0,"downstream":0},
"paused":{"upstream":[],"downstream":[]},"later":1}]}"#;

#[test]
fn the_table_is_aligned_and_harmless_for_a_terminal() {
    let table = printed(&[page(FIRST), page(SECOND)], EVERY);
    let expected = [
        "LINE      KIND   NODE          PEER               AGE  STATE    UPSTREAM  DOWNSTREAM    QUEUED  PAUSED",
        "0-1       main   in\\u{1b}[31m  192.0.2.1:40000  1h02m  open     1.50 KiB    1.00 GiB  2.00 KiB  down:queue+peer",
        "└ 12-345  child  é語           -                   0s  opening       0 B         7 B         -  -",
    ];
    assert_eq!(table.lines().collect::<Vec<_>>(), expected);
}

/// Ids and marks of a table of lines with these makers.
fn arranged(lines: &[(&str, Option<&str>)]) -> Vec<String> {
    let line = |(id, maker): &(&str, Option<&str>)| {
        let mut line: serde_json::Value = serde_json::from_str(SECOND).unwrap();
        let mut line = line["lines"][0].take();
        line["id"] = (*id).into();
        line["maker"] = (*maker).into();
        line.to_string()
    };
    let lines: Vec<_> = lines.iter().map(line).collect();
    let text = format!(r#"{{"total":9,"next":null,"lines":[{}]}}"#, lines.join(","));
    let table = printed(&[page(&text)], EVERY);
    table
        .lines()
        .skip(1)
        .map(|row| row.split("  child").next().unwrap().trim_end().into())
        .collect()
}

#[test]
fn what_a_line_made_stands_under_it() {
    let of = Some;
    let lines = [
        ("0-1", None),
        ("0-2", None),
        ("0-3", of("0-1")),
        ("0-4", of("0-2")),
        ("0-5", of("0-1")),
        ("0-6", of("0-3")),
        ("1-1", of("1-9")),
    ];
    let expected = ["0-1", "├ 0-3", "  └ 0-6", "└ 0-5", "0-2", "└ 0-4", "1-1"];
    assert_eq!(arranged(&lines), expected);
    let circle = [("0-1", of("0-2")), ("0-2", of("0-1")), ("0-3", of("0-3"))];
    assert_eq!(arranged(&circle), ["0-1", "0-2", "0-3"], "none is left out");
}

/// A line as it is served.
fn served(id: &str, node: &str, maker: Option<&str>, parent: Option<&str>) -> serde_json::Value {
    let mut page: serde_json::Value = serde_json::from_str(SECOND).unwrap();
    let mut line = page["lines"][0].take();
    for (key, value) in
        [("id", Some(id)), ("node", Some(node)), ("maker", maker), ("parent", parent)]
    {
        line[key] = value.into();
    }
    line
}

fn page_of(lines: &[serde_json::Value]) -> Page {
    page(&serde_json::json!({ "total": lines.len(), "next": null, "lines": lines }).to_string())
}

#[test]
fn a_parent_shows_its_sides_its_children_and_what_it_is_not_read_for() {
    let mut parent = served("0-2", "mux", None, None);
    parent["kind"] = "parent".into();
    parent["state"] = "exhausted".into();
    parent["queued"]["downstream"] = 1024.into();
    parent["paused"]["downstream"] = serde_json::json!(["transport"]);
    parent["mux"] = serde_json::json!([
        { "side": "client", "node": "mux", "mode": "counter", "state": "exhausted", "children": 64,
          "children_paused": 2, "queued": 1024, "reading_paused": "child-buffer",
          "cids": { "leased": 100, "used": 64 } },
        { "side": "server", "node": "end", "state": "taking", "children": 1, "children_paused": 0,
          "queued": 0, "reading_paused": null },
    ]);
    let mut entered = served("0-1", "in", None, Some("0-2"));
    entered["kind"] = "main".into();
    entered["peer"] = "192.0.2.1:40000".into();
    let lines = [
        entered,
        parent,
        served("0-3", "race", Some("0-2"), None),
        served("0-4", "end", Some("0-2"), Some("0-2")),
        // It goes on over another parent.
        served("0-5", "end", Some("0-2"), Some("0-9")),
    ];
    let expected = [
        "LINE   KIND    NODE  PEER             AGE  STATE      UPSTREAM  DOWNSTREAM    QUEUED  PAUSED",
        "0-2    parent  mux   -                 0s  exhausted       0 B         7 B  2.00 KiB  down:transport+child-buffer",
        "│ mux (client): 64 children, 2 paused, 1.00 KiB queued, exhausted, counter, 64 of 100 leased cids used",
        "│ end (server): 1 child, taking",
        "├ 0-1  main    in    192.0.2.1:40000   0s  opening         0 B         7 B         -  -",
        "├ 0-3  child   race  -                 0s  opening         0 B         7 B         -  -",
        "├ 0-4  child   end   -                 0s  opening         0 B         7 B         -  -",
        "└ 0-5  child   end   on 0-9            0s  opening         0 B         7 B         -  -",
    ];
    let table = printed(&[page_of(&lines)], EVERY);
    assert_eq!(table.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn of_the_children_of_a_parent_a_terminal_gets_the_first_ones_and_a_count() {
    let mut lines = vec![served("0-1", "mux", None, None)];
    lines.extend((2..7).map(|n| served(&format!("0-{n}"), "in", None, Some("0-1"))));
    // What stands under a child that is not listed is not listed either.
    lines.push(served("0-7", "race", Some("0-6"), None));
    lines.push(served("0-8", "race", Some("0-2"), None));
    lines.push(served("0-9", "other", None, Some("0-1")));
    let first = |table: String| {
        let word = |row: &str| row.split("  child").next().unwrap().trim_end().to_owned();
        table.lines().skip(1).map(word).collect::<Vec<_>>()
    };
    let page = page_of(&lines);
    let few = first(printed(std::slice::from_ref(&page), Show::Table(2)));
    let more = "└ 3 more children; --all lists them";
    assert_eq!(few, ["0-1", "├ 0-2", "  └ 0-8", "├ 0-3", "├ 0-9", more]);
    let all = first(printed(&[page], EVERY));
    let every = ["0-1", "├ 0-2", "  └ 0-8", "├ 0-3", "├ 0-4", "├ 0-5", "├ 0-6", "  └ 0-7", "└ 0-9"];
    assert_eq!(all, every);
}

#[test]
fn json_is_one_document_with_every_line_as_it_was_served() {
    let text = printed(&[page(FIRST), page(SECOND)], Show::Json);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    let served: Vec<serde_json::Value> = [FIRST, SECOND]
        .iter()
        .map(|text| serde_json::from_str::<serde_json::Value>(text).unwrap()["lines"][0].clone())
        .collect();
    assert_eq!(all["lines"], serde_json::Value::Array(served));
    assert_eq!(all["total"], 2);
    let none = page(r#"{"total":0,"next":null,"lines":[]}"#);
    assert_eq!(printed(&[none], Show::Json), "{\"total\":0,\"next\":null,\"lines\":[]}\n");
}

#[test]
fn no_lines_are_said_in_words() {
    let none = page(r#"{"total":0,"next":null,"lines":[]}"#);
    assert_eq!(printed(&[none], EVERY), "no open lines\n");
}

#[test]
fn sizes_and_times_have_their_units() {
    for (count, text) in [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (10_234, "9.99 KiB"),
        (10_240, "10.0 KiB"),
        (1_023_487, "999 KiB"),
        (1_048_000, "1.00 MiB"),
        (u64::MAX, "16.0 EiB"),
    ] {
        assert_eq!(bytes(count), text);
    }
    for (seconds, text) in
        [(-1.0, "0s"), (59.9, "59s"), (60.0, "1m00s"), (3600.0, "1h00m"), (90_000.0, "1d01h")]
    {
        assert_eq!(duration(seconds), text);
    }
    assert_eq!(duration(f64::NAN), "0s");
    assert_eq!(printable("a\n\u{202e}b"), "a\\n\\u{202e}b");
}

#[tokio::test]
async fn nobody_who_answers_is_an_error_that_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = fetch(address).await.err().unwrap();
    assert!(error.to_string().contains(&format!("no service answers at {address}")), "{error}");
}

#[tokio::test]
async fn something_else_that_answers_is_an_error() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for answer in [
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"total\":0,\"next\":\"0-1\",\"lines\":[]}     ",
        "SSH-2.0-something\r\n",
        "",
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap();
            assert!(read > 0);
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let (pages, ()) = tokio::join!(fetch(address), server);
        let error = format!("{:#}", pages.err().unwrap());
        assert!(error.contains(&address.to_string()), "{answer:?}: {error}");
    }
}
