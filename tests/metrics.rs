//! The metrics page of the running program, read strictly, and short of descriptors.

mod common;

use std::collections::{BTreeMap, HashSet};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use common::peers::{connect, echoed};
use common::web::ask;
use common::{Service, command, config, connector, listener, text};

/// One family: its type, and how many samples it has.
type Families<'a> = BTreeMap<&'a str, (&'a str, usize)>;

/// Reads a page as a strict reader does: `HELP` and `TYPE` once for each family and before its
/// samples, no family in two pieces, no series twice, a line break at the end.
fn strict(page: &str, counter_suffix: &str) -> Result<usize, String> {
    if !page.ends_with('\n') {
        return Err("no line break at the end".to_owned());
    }
    let mut families = Families::new();
    let mut helped = HashSet::new();
    let mut series = HashSet::new();
    let mut current = "";
    for line in page.lines() {
        let fail = |why: &str| Err(format!("{why}: {line}"));
        if line == "# EOF" {
            current = "";
            continue;
        }
        if let Some(help) = line.strip_prefix("# HELP ") {
            if !helped.insert(help.split(' ').next().unwrap_or_default()) {
                return fail("HELP twice");
            }
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = kind.split_once(' ') else {
                return fail("no type");
            };
            if families.insert(name, (kind, 0)).is_some() {
                return fail("TYPE twice");
            }
            if !helped.contains(name) {
                return fail("no HELP before TYPE");
            }
            if (kind == "counter") != name.ends_with("_total") && !counter_suffix.is_empty() {
                return fail("counters and no others end in _total");
            }
            current = name;
        } else {
            let Some((key, value)) = line.rsplit_once(' ') else {
                return fail("no sample");
            };
            let name = key.split('{').next().unwrap_or_default();
            let Some((kind, samples)) = families.get_mut(current) else {
                return fail("a sample without a family");
            };
            let suffixes: &[&str] = match *kind {
                "counter" if counter_suffix.is_empty() => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "info" => &["_info"],
                _ => &[""],
            };
            let suffix = name.strip_prefix(current);
            if !suffix.is_some_and(|suffix| suffixes.contains(&suffix)) {
                return fail("not of this family");
            }
            if value.parse::<f64>().is_err() || !series.insert(key) {
                return fail("no number, or twice");
            }
            *samples += 1;
        }
    }
    match families.iter().find(|(_, (_, samples))| *samples == 0) {
        Some((name, _)) => Err(format!("{name} has no sample")),
        None => Ok(families.len()),
    }
}

#[test]
fn case_m05_both_formats_pass_a_strict_reader() {
    let far = common::peers::echo();
    let nodes = ["a", "b", "c"].map(|name| listener(name, "out", "")).concat();
    let service = Service::start(&(nodes + &connector("out", far, "")));
    for name in ["a", "b"] {
        echoed(&mut connect(service.at(name)), "hello");
    }
    let get = |accept: &str| {
        let page = ask(service.admin(), "GET", "/metrics", &format!("Accept: {accept}\r\n"));
        assert_eq!(page.status, 200);
        (page.headers["content-type"].clone(), page.text())
    };
    let (kind, text) = get("text/plain;version=0.0.4;q=0.5,*/*;q=0.1");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    let families = strict(&text, "_total").unwrap();
    assert!(families > 20, "{families}");
    let (kind, open) = get("application/openmetrics-text;version=1.0.0");
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    assert!(open.ends_with("\n# EOF\n"));
    assert_eq!(open.matches("# EOF").count(), 1);
    assert_eq!(strict(&open, "").unwrap(), families);
    let head = ask(service.admin(), "HEAD", "/metrics", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn the_strict_reader_refuses_what_is_wrong() {
    let right = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n";
    assert_eq!(strict(right, "_total"), Ok(1));
    let wrong = [
        right.trim_end().to_owned(),
        format!("{right}{right}"),
        right.replace("# TYPE a_total counter\n", ""),
        right.replace("# HELP a_total A.\n", ""),
        right.replace("a_total 1\n", ""),
        right.replace("a_total 1\n", "a_total 1\na_total 2\n"),
        right.replace("a_total", "a"),
        format!("{right}# HELP b B.\n# TYPE b gauge\nb 1\na_total{{c=\"d\"}} 1\n"),
    ];
    for page in wrong {
        assert!(strict(&page, "_total").is_err(), "{page}");
    }
}

#[test]
fn case_m11_out_of_descriptors_costs_nothing_and_ends_by_itself() {
    let far = common::peers::echo();
    let nodes = listener("in", "out", "initial-idle-timeout-ms = 0,") + &connector("out", far, "");
    let service = Service::spawn_with(&config(&nodes), |path| {
        let plain = command(path);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh"]);
        shell.arg(plain.get_program()).args(plain.get_args());
        shell
    });
    let service = service.ready();
    let mut clients: Vec<_> = (0..300).map(|_| connect(service.at("in"))).collect();
    let emfile = [("node", "in"), ("reason", "emfile")];
    let errors = || service.metric("lineway_accept_errors_total", &emfile);
    common::until("descriptors are out", || errors() > 0.0);
    let open = service.metric("lineway_lines_open", &[("node", "in")]);
    assert!((20.0..64.0).contains(&open), "{open} lines");

    let (cpu, lines, begun) = (service.cpu(), service.log.len(), Instant::now());
    let before = errors();
    std::thread::sleep(Duration::from_secs(3));
    let took = begun.elapsed().as_secs_f64();
    let share = service.cpu().saturating_sub(cpu).as_secs_f64() / took;
    assert!(share < 0.15, "{share} of a core");
    let logged = (service.log.len() - lines) as f64 / took;
    assert!(logged <= 2.0, "{logged} log lines a second");
    assert!(errors() > before, "it does not try again");
    // What is open goes on, and the admin interface answers on new connections.
    let live = service.json("/api/lines");
    let live: HashSet<_> =
        live["lines"].as_array().unwrap().iter().map(|l| text(l, "peer")).collect();
    assert_eq!(live.len(), open as usize);
    let is_live = |client: &TcpStream| live.contains(&*client.local_addr().unwrap().to_string());
    for client in clients.iter_mut().filter(|client| is_live(client)) {
        echoed(client, "goes on");
    }
    for path in ["/metrics", "/healthz", "/api/lines"] {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
    let ready = service.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("file descriptors"), "{}", ready.text());

    // So many stay that there is room for them and for others.
    let mut left = clients.split_off(clients.len() - 20);
    drop(clients);
    let begun = Instant::now();
    echoed(&mut connect(service.at("in")), "accepted again");
    let took = begun.elapsed();
    assert!(took <= Duration::from_secs(1), "{took:?}");
    for client in &mut left {
        echoed(client, "all of them");
    }
    common::until("ready again", || {
        echoed(&mut connect(service.at("in")), "a new one");
        service.get("/readyz").status == 200
    });
}
