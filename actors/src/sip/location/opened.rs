//! The files of bindings that this process has open: each once, whoever names it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::file::File;
use super::memory::Memory;
use super::writer::Writer;
use super::{Clock, LocationError, Locations};

/// How long an open waits for the close before it.
const CLOSE: Duration = Duration::from_secs(5);

static OPEN: Mutex<Option<HashMap<PathBuf, Open>>> = Mutex::new(None);

struct Open {
    locations: Weak<Locations>,
    closed: Arc<Closed>,
}

/// Set when the file is closed.
#[derive(Default)]
struct Closed {
    is: Mutex<bool>,
    became: Condvar,
}

impl Closed {
    fn set(&self) {
        *self.is.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.became.notify_all();
    }

    fn is(&self) -> bool {
        *self.is.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> bool {
        let is = self.is.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.became.wait_timeout_while(is, CLOSE, |is| !*is);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The bindings of a file, opened once.
pub(super) fn open(path: &Path) -> Result<Arc<Locations>, LocationError> {
    let canonical = canonical(path);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_default();
    if let Some(there) = open.get(&canonical) {
        if let Some(locations) = there.locations.upgrade() {
            return Ok(locations);
        }
        if !there.closed.wait() {
            return Err(LocationError::Closing(path.to_owned()));
        }
    }
    open.retain(|_, there| there.locations.strong_count() > 0 || !there.closed.is());
    let clock = Clock::start();
    let memory = Arc::<Memory>::default();
    let file = File::open(path)?;
    let stale = file.load(&memory, clock.unix)?;
    let closed = Arc::<Closed>::default();
    let ended = Arc::clone(&closed);
    let writer = Writer::start(file, &memory, move || ended.set())
        .map_err(|cause| LocationError::Thread { path: path.to_owned(), cause })?;
    writer.changed(stale);
    let locations = Arc::new(Locations::new(memory, clock, Some(writer)));
    open.insert(canonical, Open { locations: Arc::downgrade(&locations), closed });
    Ok(locations)
}

/// One name for each file, also for one that is not there yet.
fn canonical(path: &Path) -> PathBuf {
    let by_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(by_folder).unwrap_or_else(|| path.to_owned())
}
