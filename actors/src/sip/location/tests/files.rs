//! Bindings in a file.

use std::path::Path;

use tempfile::TempDir;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(path: &Path) -> Result<Arc<Locations>, LocationError> {
    Locations::open(&Location::Redb(path.to_owned()))
}

fn bindings(locations: &Locations, user: &str, now: Instant) -> Vec<Binding> {
    locations.read(TABLE, user.as_bytes(), now, |bindings, _| bindings.to_vec())
}

#[test]
fn a_restart_finds_what_there_was() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let first = open(&path).unwrap();
    bind(&first, "bob", 1, 600, now);
    bind(&first, "eve", 1, 600, now);
    first.remove(TABLE, b"eve");
    let before = bindings(&first, "bob", now);
    drop(first);
    let second = open(&path).unwrap();
    assert_eq!(bindings(&second, "bob", now), before);
    assert_eq!((second.bindings(), is_bound(&second, "eve", now)), (1, false));
    assert!(bind(&second, "bob", 2, 600, now));
    assert!(!bind(&second, "bob", 1, 600, now), "the CSeq is known");
}

#[test]
fn what_was_over_meanwhile_is_left_out() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let file = file::File::open(&path).unwrap();
    let memory = Memory::default();
    let locations = Locations::default();
    bind(&locations, "bob", 1, 600, now);
    let live = bindings(&locations, "bob", now).remove(0);
    let over = Binding { expires: 1, ..live.clone() };
    let keys = [memory::key(TABLE, b"bob"), memory::key(TABLE, b"eve")];
    memory.load(keys[0].clone(), vec![live.clone(), over.clone()]);
    memory.load(keys[1].clone(), vec![over]);
    file.store(&memory, &keys).unwrap();
    drop(file);
    let locations = open(&path).unwrap();
    assert_eq!((locations.bindings(), bindings(&locations, "bob", now)), (1, vec![live.clone()]));
    assert!(locations.flush(LIMIT));
    drop(locations);
    let (memory, file) = (Memory::default(), file::File::open(&path).unwrap());
    assert_eq!(file.load(&memory, 0).unwrap(), [], "and out of the file");
    assert_eq!((memory.bindings(), memory.read(&keys[0], <[_]>::to_vec)), (1, vec![live]));
}

#[test]
fn a_crash_loses_nothing_that_was_written() {
    let (folder, now) = (folder(), Instant::now());
    let (path, image) = (folder.path().join("location.redb"), folder.path().join("image"));
    let locations = open(&path).unwrap();
    bind(&locations, "bob", 1, 600, now);
    assert!(locations.flush(LIMIT));
    // What a disk has when the process is killed: nothing was closed.
    std::fs::copy(&path, &image).unwrap();
    let after = open(&image).unwrap();
    assert_eq!(bindings(&after, "bob", now), bindings(&locations, "bob", now));
}

#[test]
fn changes_are_written_without_being_asked_for() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let locations = open(&path).unwrap();
    bind(&locations, "bob", 1, 600, now);
    let writer = locations.writer.as_ref().unwrap();
    let start = Instant::now();
    while !writer.is_idle() {
        assert!(start.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    let image = folder.path().join("image");
    std::fs::copy(&path, &image).unwrap();
    assert!(is_bound(&open(&image).unwrap(), "bob", now));
}

#[test]
fn many_addresses_come_back() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let locations = open(&path).unwrap();
    let users = 0..1000;
    for round in 1..=2 {
        for user in users.clone() {
            assert!(bind(&locations, &format!("u{user}"), round, 600 * round, now));
        }
    }
    drop(locations);
    let locations = open(&path).unwrap();
    assert_eq!(locations.bindings(), 1000);
    let later = now + Duration::from_secs(700);
    assert!(users.clone().all(|user| is_bound(&locations, &format!("u{user}"), later)));
}

#[test]
fn one_file_is_open_once_whoever_names_it() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let first = open(&path).unwrap();
    let second = open(&folder.path().join(".").join("location.redb")).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    bind(&first, "bob", 1, 600, now);
    drop(first);
    assert!(is_bound(&second, "bob", now), "the other one has it still");
    let other = open(&folder.path().join("other.redb")).unwrap();
    assert!(!is_bound(&other, "bob", now));
    drop(second);
    for _ in 0..3 {
        assert!(is_bound(&open(&path).unwrap(), "bob", now), "closed and opened again at once");
    }
}

#[test]
fn what_is_no_file_of_bindings_stays_as_it_is() {
    let folder = folder();
    let garbage = folder.path().join("garbage");
    let text = "no database at all. ".repeat(1000);
    std::fs::write(&garbage, &text).unwrap();
    let error = open(&garbage).unwrap_err().to_string();
    assert!(error.starts_with("the file of bindings ") && error.contains("garbage"), "{error}");
    assert_eq!(std::fs::read_to_string(&garbage).unwrap(), text);

    let foreign = folder.path().join("foreign");
    let database = redb::Database::create(&foreign).unwrap();
    let table = redb::TableDefinition::<u64, u64>::new("bindings");
    let write = database.begin_write().unwrap();
    write.open_table(table).unwrap().insert(1, 2).unwrap();
    write.commit().unwrap();
    assert!(matches!(open(&foreign), Err(LocationError::InUse(_))));
    drop(database);
    let error = open(&foreign).unwrap_err();
    assert!(matches!(error, LocationError::Format(_)), "{error}");

    let nowhere = open(&folder.path().join("no/folder.redb")).unwrap_err().to_string();
    assert!(nowhere.contains("No such file or directory"), "{nowhere}");
    let is_folder = open(folder.path()).unwrap_err().to_string();
    assert!(is_folder.contains("can not be used: "), "{is_folder}");
}

#[test]
fn a_broken_file_is_an_error_and_no_panic() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let locations = open(&path).unwrap();
    for user in 0..50 {
        bind(&locations, &format!("u{user}"), 1, 600, now);
    }
    drop(locations);
    let whole = std::fs::read(&path).unwrap();
    let used = whole.iter().rposition(|byte| *byte != 0).unwrap();
    let mut refused = 0;
    for (number, at) in (0..used).step_by(used / 60).enumerate() {
        let mut broken = whole.clone();
        broken[at..(at + 64).min(whole.len())].fill(0xa5);
        let path = folder.path().join(format!("broken{number}"));
        std::fs::write(&path, &broken).unwrap();
        // What it hit may have been free.
        if let Ok(locations) = open(&path) {
            assert_eq!(locations.bindings(), 50, "{at}");
        } else {
            refused += 1;
        }
    }
    assert!(refused > 0);
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(open(&path).is_err(), "cut off");
}

#[test]
fn another_version_and_a_broken_record_are_refused() {
    let folder = folder();
    for (name, version, record) in [("version", 2, &b""[..]), ("record", 1, b"x")] {
        let path = folder.path().join(name);
        drop(open(&path).unwrap());
        let database = redb::Database::create(&path).unwrap();
        let write = database.begin_write().unwrap();
        let about = redb::TableDefinition::<&str, u64>::new("lineway");
        write.open_table(about).unwrap().insert("bindings", version).unwrap();
        let bindings = redb::TableDefinition::<&[u8], &[u8]>::new("bindings");
        write.open_table(bindings).unwrap().insert(&b"k"[..], record).unwrap();
        write.commit().unwrap();
        drop(database);
        let error = open(&path).unwrap_err();
        assert!(matches!(error, LocationError::Format(_)), "{name}: {error}");
        assert!(error.to_string().ends_with("is no file of bindings of this version"));
    }
}

#[test]
fn all_is_written_anew_where_too_much_waits() {
    let (folder, now) = (folder(), Instant::now());
    let path = folder.path().join("location.redb");
    let locations = open(&path).unwrap();
    bind(&locations, "bob", 1, 600, now);
    let writer = locations.writer.as_ref().unwrap();
    writer.changed((0..70_000_u32).map(|number| memory::key(b"gone", &number.to_be_bytes())));
    assert!(writer.waiting() <= 65_537);
    assert!(locations.flush(LIMIT));
    drop(locations);
    let locations = open(&path).unwrap();
    assert_eq!((locations.bindings(), is_bound(&locations, "bob", now)), (1, true));
}
